//! The user as whom a pod's scheduler runs, by its manifest: who must be able to read files that others must not.

use super::tree::{Node, Tree};

/// The user and the group of the scheduler's container.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunAs {
    /// `runAsUser`; none means the image's own user, which is root for all known images
    pub user: Option<u32>,
    /// A group that the scheduler is certainly in: `runAsGroup`, else `fsGroup`, else one of `supplementalGroups`
    pub group: Option<u32>,
    /// `runAsNonRoot`: the kubelet starts no container as root
    pub non_root: bool,
}

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

impl RunAs {
    /// Whether the container runs as root.
    pub fn is_root(self) -> bool {
        self.user.unwrap_or(0) == 0 && !self.is_unknown()
    }

    /// Whether only the image knows the user.
    pub fn is_unknown(self) -> bool {
        self.user.is_none() && self.non_root
    }
}
