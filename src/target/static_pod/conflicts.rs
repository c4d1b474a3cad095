//! Names and paths that are ours in a manifest: whether somebody else has them, and whether any is left behind.

use yaml_edit::{Node, Tree};

use super::edit::{MOUNT_VOLUME, VOLUME};
use super::pod::{self, Found};
use crate::target::flags;
use crate::target::refusal::{Refusal, Rule};

/// Nothing of ours may be left when our edit is out: a scheduler that still looks for it would not start.
pub(super) fn no_leftovers(tree: &Tree<'_>, config_dir: Option<&str>) -> Result<(), Refusal> {
    let Ok(found) = pod::find(tree) else { return Ok(()) };
    let left = |node: &Node<'_>, what: &str| {
        let message =
            format!("{what} is left of an earlier schedpatch edit, at a place that its undo record does not name");
        Err(Refusal::at_line(Rule::UndoRecord, tree.line(node.span.start), message))
    };
    if let Some((node, name)) = our_volumes(tree).next() {
        return left(node, &format!("the volume or mount {name}"));
    }
    for (node, path) in paths(tree, found.container) {
        if config_dir.is_some_and(|dir| normal(path) == dir) {
            return left(node, &format!("a mount or volume of {path}"));
        }
    }
    for word in pod::word_nodes(found.container) {
        let text = word.text().unwrap_or_default();
        let value = flags::split(text).map_or(text, |(_, value)| value.unwrap_or_default());
        if config_dir.is_some_and(|dir| value.strip_prefix(dir).is_some_and(|rest| rest.starts_with('/'))) {
            return left(word, &format!("the word {text:?}"));
        }
    }
    Ok(())
}

/// Volumes and mounts, of any container, that have names of ours.
fn our_volumes<'t>(tree: &'t Tree<'_>) -> impl Iterator<Item = (&'t Node<'t>, &'t str)> {
    let spec = tree.root.get("spec");
    let list = move |key: &str| spec.and_then(|spec| spec.get(key)).map_or(&[][..], Node::items);
    let containers = ["containers", "initContainers", "ephemeralContainers"].into_iter().flat_map(list);
    let mounts = containers.filter_map(|container| container.get("volumeMounts")).flat_map(Node::items);
    list("volumes").iter().chain(mounts).filter_map(|node| {
        let name = node.get("name").and_then(Node::text)?;
        (name == VOLUME || name.starts_with(MOUNT_VOLUME)).then_some((node, name))
    })
}

/// Whether a name or path of ours is in use by something that we did not write.
pub(super) fn not_taken(
    tree: &Tree<'_>,
    found: &Found<'_, '_>,
    volumes: &[(String, &str, &str)],
) -> Result<(), Refusal> {
    let taken =
        |node: &Node<'_>, message: String| Err(Refusal::at_line(Rule::Taken, tree.line(node.span.start), message));
    if let Some((node, name)) = our_volumes(tree).next() {
        return taken(
            node,
            format!("the volume name {name} is in use, and not by an edit of schedpatch that is on record"),
        );
    }
    for node in found.container.get("volumeMounts").map_or(&[][..], Node::items) {
        let path = node.get("mountPath").and_then(Node::text).unwrap_or_default();
        if volumes.iter().any(|(_, own, _)| normal(path) == *own) {
            return taken(
                node,
                format!("something is mounted at {path} already, so it cannot be mounted there once more"),
            );
        }
    }
    Ok(())
}

/// Where the scheduler's mounts and the pod's volumes lead.
fn paths<'t>(tree: &'t Tree<'_>, container: &'t Node<'_>) -> impl Iterator<Item = (&'t Node<'t>, &'t str)> {
    let volumes = tree.root.get("spec").and_then(|spec| spec.get("volumes")).map_or(&[][..], Node::items);
    let mounts = container.get("volumeMounts").map_or(&[][..], Node::items);
    let host_paths = volumes.iter().filter_map(|node| Some((node, node.get("hostPath")?.get("path")?.text()?)));
    host_paths.chain(mounts.iter().filter_map(|node| Some((node, node.get("mountPath")?.text()?))))
}

/// A path without doubled or trailing slashes.
fn normal(path: &str) -> String {
    path.split('/').filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part)
}
