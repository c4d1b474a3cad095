//! Deckhouse: its control-plane-manager owns kubeadm's manifests and reverts edits.
//!
//! Upstream: <https://deckhouse.io/>

use super::{KUBEADM_FAMILY, Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "deckhouse",
    family: KUBEADM_FAMILY,
    markers: &[
        Marker::Path("/etc/kubernetes/deckhouse"),
        Marker::Path("/var/lib/bashible"),
        Marker::Path("/opt/deckhouse"),
    ],
    target: Target::Refused {
        instead: "Deckhouse's control-plane-manager owns this manifest: create a KubeSchedulerWebhookConfiguration (deckhouse.io/v1alpha1) for your extender instead",
    },
};
