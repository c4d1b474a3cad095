//! kops: `kube-scheduler.manifest`, started by `/go-runner`, flags in `args`, `--config` there already.
//!
//! Detected by what nodeup installs. nodeup writes the manifest anew at every boot.
//! Upstream: <https://kops.sigs.k8s.io/>

use super::{KUBEADM_FAMILY, KUBEADM_MANIFESTS, Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

pub(super) static PLATFORM: Platform = Platform {
    id: "kops",
    family: KUBEADM_FAMILY,
    markers: &[
        Marker::Path("/etc/kubernetes/manifests/kube-scheduler.manifest"),
        Marker::Path("/etc/kubernetes/kops-controller"),
        Marker::Path("/etc/sysconfig/kops-configuration"),
        Marker::Path("/opt/kops/conf/kube_env.yaml"),
    ],
    target: Target::InDir { kind: &StaticPod, dir: KUBEADM_MANIFESTS },
};
