//! Whether a manifest already says what is wanted.
//!
//! Looked at piece by piece and not by comparing texts: what others have added around our lines since is no reason to
//! write again, because every write restarts the scheduler.

use yaml_edit::{Node, Tree};

use super::edit::{TERMINATION_POLICY, volumes};
use super::pod::{self, Found, UNDO, annotation};
use super::undo_record::Undo;
use crate::target::{Wanted, flags};

/// Whether every piece of the edit is in place, under this revision and generation.
pub(super) fn stands(tree: &Tree<'_>, wanted: &Wanted) -> bool {
    let marks =
        pod::ours(tree).is_some_and(|ours| ours.revision == wanted.revision && ours.generation == wanted.generation);
    let undo = annotation(tree, UNDO).and_then(Node::text).and_then(|line| Undo::from_line(line).ok());
    let (true, Some(undo), Ok(found)) = (marks, undo, pod::find(tree)) else { return false };
    flags::last(&found.flags, "config").is_some_and(|flag| flag.value == Some(wanted.config_path()))
        && wanted
            .args
            .iter()
            .all(|(name, value)| flags::last(&found.flags, name).is_some_and(|flag| flag.value.as_ref() == Some(value)))
        && volumes(wanted).iter().all(|(name, path, kind)| is_mounted(tree, &found, name, path, kind))
        && text(Some(found.container), &["terminationMessagePolicy"]) == Some(TERMINATION_POLICY)
        && wanted.image.as_deref().is_none_or(|image| text(Some(found.container), &["image"]) == Some(image))
        && wanted.command.as_deref().is_none_or(|command| found.words.get(found.program) == Some(&command))
        && wanted.run_as_user.is_none_or(|user| {
            text(Some(found.container), &["securityContext", "runAsUser"]) == Some(&user.to_string())
        })
        && wanted
            .dns_policy
            .as_deref()
            .is_none_or(|policy| text(Some(&tree.root), &["spec", "dnsPolicy"]) == Some(policy))
        && text(Some(&tree.root), &["metadata", "uid"]) == undo.placed.get("/metadata/uid").map(String::as_str)
}

fn is_mounted(tree: &Tree<'_>, found: &Found<'_, '_>, name: &str, path: &str, kind: &str) -> bool {
    let volume = named(tree.root.get("spec").and_then(|spec| spec.get("volumes")), name);
    let mount = named(found.container.get("volumeMounts"), name);
    text(volume, &["hostPath", "path"]) == Some(path)
        && text(volume, &["hostPath", "type"]) == Some(kind)
        && text(mount, &["mountPath"]) == Some(path)
        && text(mount, &["readOnly"]) == Some("true")
}

/// The item of a list that has this name.
fn named<'t, 'a>(list: Option<&'t Node<'a>>, name: &str) -> Option<&'t Node<'a>> {
    list?.items().iter().find(|item| item.get("name").and_then(Node::text) == Some(name))
}

fn text<'t>(node: Option<&'t Node<'_>>, path: &[&str]) -> Option<&'t str> {
    path.iter().try_fold(node?, |node, key| node.get(key))?.text()
}
