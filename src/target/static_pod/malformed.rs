//! Pods that the kubelet refuses as well, and that would otherwise be refused with a misleading reason.

use yaml_edit::{Entry, Kind, Node, Tree};

use super::pod::{at_node, text_of};
use crate::target::refusal::{Refusal, Rule};

/// A pod without `containers`, because the key is misspelled or its value is no list.
pub(super) fn no_containers(tree: &Tree<'_>, spec: &Node<'_>) -> Option<Refusal> {
    let Some(entry) = spec.entry("containers") else {
        let keys = || spec.entries().iter().filter(|entry| entry.key.text().is_some());
        // what a merge key or an alias brings in is not known here
        if keys().next().is_none() || keys().any(|entry| entry.key.text() == Some("<<")) {
            return None;
        }
        let holds_programs = |entry: &&Entry<'_>| {
            entry.value.items().iter().any(|item| item.get("image").is_some() && item.get("name").is_some())
        };
        let misspelled = keys().find(|entry| entry.key.text() != Some("initContainers") && holds_programs(entry));
        let message = match misspelled {
            Some(entry) => {
                format!("the pod has no containers; is {:?} misspelled?", entry.key.text().unwrap_or_default())
            }
            None => "the pod has no containers".to_owned(),
        };
        let at = misspelled.map_or(spec.span.start, |entry| entry.key.span.start);
        return Some(Refusal::at_line(Rule::MalformedPod, tree.line(at), message));
    };
    let is_list = matches!(entry.value.kind, Kind::List(_) | Kind::Alias);
    (!is_list).then(|| at_node(tree, &entry.key, Rule::MalformedPod, "containers is no list"))
}

/// Refuses a volume without a name, which no mount can mean; the kubelet refuses the whole pod.
pub(super) fn volumes_have_names(tree: &Tree<'_>) -> Result<(), Refusal> {
    let volumes = tree.root.get("spec").and_then(|spec| spec.get("volumes")).map_or(&[][..], Node::items);
    let is_nameless = |volume: &&Node<'_>| {
        let is_known = matches!(volume.kind, Kind::Map(_)) && volume.get("<<").is_none();
        is_known
            && text_of(volume, "name").is_empty()
            && !matches!(volume.get("name"), Some(Node { kind: Kind::Alias, .. }))
    };
    match volumes.iter().find(is_nameless) {
        Some(volume) => {
            Err(at_node(tree, volume, Rule::MalformedPod, "the volume has no name, so no mount can use it"))
        }
        None => Ok(()),
    }
}
