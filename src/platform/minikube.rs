//! minikube: kubeadm in a virtual machine or container, certificates under `/var/lib/minikube`.
//!
//! Upstream: <https://minikube.sigs.k8s.io/>

use super::{KUBEADM_FAMILY, KUBEADM_MANIFESTS, Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

pub(super) static PLATFORM: Platform = Platform {
    id: "minikube",
    family: KUBEADM_FAMILY,
    markers: &[
        Marker::Path("/var/lib/minikube/certs"),
        Marker::Path("/var/lib/minikube/binaries"),
        Marker::Path("/var/lib/minikube/kubeconfig"),
    ],
    target: Target::InDir { kind: &StaticPod, dir: KUBEADM_MANIFESTS },
};
