//! OpenShift: an operator owns the manifest and reverts every edit at its next revision.
//!
//! Detected by the revision directories of its static pods.
//! Upstream: <https://docs.openshift.com/>

use super::{KUBEADM_FAMILY, Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "openshift",
    family: KUBEADM_FAMILY,
    markers: &[Marker::Path("/etc/kubernetes/static-pod-resources"), Marker::Path("/etc/machine-config-daemon")],
    target: Target::Refused {
        instead: "OpenShift reverts edits of its scheduler: install the Secondary Scheduler Operator, set spec.schedulerConfig of SecondaryScheduler/cluster, and use its schedulerName in your pods",
    },
};
