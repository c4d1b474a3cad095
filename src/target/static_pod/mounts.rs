//! What of the host the scheduler's container sees, and where.

use yaml_edit::{Node, Tree};

use crate::target::spec::{Mount, join};

/// Reads the mounts of a container.
pub(super) fn read(tree: &Tree<'_>, container: &Node<'_>) -> Vec<Mount> {
    let volumes = tree.root.get("spec").and_then(|spec| spec.get("volumes")).map_or(&[][..], Node::items);
    let mounts = container.get("volumeMounts").map_or(&[][..], Node::items);
    let text = |node: &Node<'_>, key: &str| node.get(key).and_then(Node::text).map(str::to_owned);
    let mount = |mount: &Node<'_>| {
        let volume = volumes.iter().find(|volume| text(volume, "name") == text(mount, "name"))?;
        let host_path = volume.get("hostPath").and_then(|host| text(host, "path"));
        let host_path = host_path.map(|path| match text(mount, "subPath") {
            Some(sub) => join(&path, &sub),
            None => path,
        });
        Some(Mount { path: text(mount, "mountPath")?, host_path })
    };
    mounts.iter().filter_map(mount).collect()
}
