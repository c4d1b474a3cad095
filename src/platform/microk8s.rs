//! MicroK8s: the scheduler runs inside kubelite, flags one per line in a file of the snap.
//!
//! Upstream: <https://microk8s.io/>

use super::{Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "microk8s",
    family: "microk8s",
    markers: &[Marker::Path("/var/snap/microk8s")],
    target: Target::Refused {
        instead: "MicroK8s runs the scheduler inside kubelite: add --config=/path to /var/snap/microk8s/current/args/kube-scheduler on each control-plane node, then run microk8s stop and microk8s start",
    },
};
