//! kubespray: kubeadm run by Ansible. Its manifests directory belongs to the user `kube`; the scheduler has `--config` already.
//!
//! Detected by the scheduler configuration that its control-plane role writes.
//! Upstream: <https://kubespray.io/>

use super::{KUBEADM_FAMILY, KUBEADM_MANIFESTS, Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

pub(super) static PLATFORM: Platform = Platform {
    id: "kubespray",
    family: KUBEADM_FAMILY,
    markers: &[Marker::Path("/etc/kubernetes/kubescheduler-config.yaml")],
    target: Target::InDir { kind: &StaticPod, dir: KUBEADM_MANIFESTS },
};
