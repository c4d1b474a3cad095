//! What of the host the scheduler's container sees, and where.

use super::tree::{Node, Tree};

/// A mount of the scheduler's container.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where the container sees it
    pub path: String,
    /// What of the host it is; `None` for a volume that is not of the host
    pub host_path: Option<String>,
}

/// Reads the mounts of a container.
pub(crate) fn read(tree: &Tree<'_>, container: &Node<'_>) -> Vec<Mount> {
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

/// Where on the host a path of the container is, by the deepest mount that holds it. `None`: not of the host.
pub(crate) fn host_path(mounts: &[Mount], path: &str) -> Option<String> {
    let holding = mounts.iter().filter_map(|mount| Some((mount, below(&mount.path, path)?)));
    let (mount, rest) = holding.min_by_key(|(_, rest)| rest.len())?;
    let host = mount.host_path.as_ref()?;
    Some(if rest.is_empty() { host.clone() } else { join(host, rest) })
}

/// What is left of `path` below `dir`; empty for `dir` itself.
fn below<'a>(dir: &str, path: &'a str) -> Option<&'a str> {
    let rest = path.strip_prefix(dir.trim_end_matches('/'))?;
    if rest.is_empty() { Some(rest) } else { rest.strip_prefix('/') }
}

fn join(dir: &str, name: &str) -> String {
    format!("{}/{}", dir.trim_end_matches('/'), name.trim_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_found_through_files_directories_and_the_deepest_mount() {
        let mount = |path: &str, host: Option<&str>| Mount { path: path.into(), host_path: host.map(str::to_owned) };
        let mounts = [
            mount("/etc/kubernetes/", Some("/srv/kube")),
            mount("/etc/kubernetes/config.yaml", Some("/data/c.yaml")),
            mount("/cm", None),
        ];
        assert_eq!(host_path(&mounts, "/etc/kubernetes/x/y.yaml").as_deref(), Some("/srv/kube/x/y.yaml"));
        assert_eq!(host_path(&mounts, "/etc/kubernetes/config.yaml").as_deref(), Some("/data/c.yaml"));
        assert_eq!(host_path(&mounts, "/etc/kubernetesx"), None);
        assert_eq!(host_path(&mounts, "/cm/c.yaml"), None);
        assert_eq!(host_path(&mounts, "/elsewhere"), None);
    }
}
