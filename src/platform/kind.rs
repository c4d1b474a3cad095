//! kind: kubeadm inside a container that plays the node.
//!
//! Detected by what the node image and kind itself leave; the directory `/kind` alone is also in minikube's image.
//! Upstream: <https://kind.sigs.k8s.io/>

use super::{KUBEADM_FAMILY, KUBEADM_MANIFESTS, Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

pub(super) static PLATFORM: Platform = Platform {
    id: "kind",
    family: KUBEADM_FAMILY,
    markers: &[Marker::Path("/kind/version"), Marker::Path("/kind/kubeadm.conf")],
    target: Target::InDir { kind: &StaticPod, dir: KUBEADM_MANIFESTS },
};
