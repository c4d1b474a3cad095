//! As whom a pod's scheduler runs, by its security contexts.

use yaml_edit::{Node, Tree};

use crate::target::RunAs;

/// Reads the security contexts of the pod and of its scheduler's container, of which the container's counts first.
pub(super) fn read(tree: &Tree<'_>, container: &Node<'_>) -> RunAs {
    let of_pod = tree.root.get("spec").and_then(|spec| spec.get("securityContext"));
    let both = [container.get("securityContext"), of_pod];
    let text = |key: &str| both.into_iter().flatten().find_map(|context| context.get(key)?.text());
    let number = |key: &str| text(key).and_then(|id| id.parse().ok());
    let supplemental = of_pod.and_then(|context| context.get("supplementalGroups")?.items().first()?.text());
    let of_pod_alone = || of_pod.and_then(|context| context.get("fsGroup")?.text()).or(supplemental);
    let group = number("runAsGroup").or_else(|| of_pod_alone().and_then(|id| id.parse().ok()));
    RunAs { user: number("runAsUser"), group, non_root: text("runAsNonRoot") == Some("true") }
}
