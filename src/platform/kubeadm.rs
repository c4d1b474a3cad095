//! kubeadm: static pods in `/etc/kubernetes/manifests`, flags in `command`, written 0600.
//!
//! Detected by a file there that names kube-scheduler. `kubeadm upgrade` writes the file anew.
//! Upstream: <https://kubernetes.io/docs/setup/production-environment/tools/kubeadm/>

use super::{KUBEADM_FAMILY, KUBEADM_MANIFESTS, Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

pub(super) static PLATFORM: Platform = Platform {
    id: "kubeadm",
    family: KUBEADM_FAMILY,
    markers: &[Marker::SchedulerIn(KUBEADM_MANIFESTS)],
    target: Target::InDir { kind: &StaticPod, dir: KUBEADM_MANIFESTS },
};
