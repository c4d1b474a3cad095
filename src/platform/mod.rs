//! Stage 2a: how each distribution runs its scheduler. Pure data; a platform answers questions and performs nothing.
//!
//! To add a platform: write its file (what it is, how it is detected, where its scheduler is defined), and put it into
//! [`ALL`]. Order in [`ALL`] decides between platforms of one family: the more special comes first.

mod deckhouse;
mod detect;
mod facts;
mod k0s;
mod k3s;
mod kind;
mod kops;
mod kubeadm;
mod kubespray;
mod managed;
mod microk8s;
mod microshift;
mod minikube;
mod openshift;
mod rke2;
mod talos;

pub use detect::{Detected, detect, named};
pub use facts::HostFacts;

use crate::target::TargetKind;
pub use crate::target::unit::Method;
use k3s::MANUAL_DROP_IN as K3S_DROP_IN;

/// A distribution.
#[derive(Debug)]
pub struct Platform {
    /// Public name, as in `--platform`
    pub id: &'static str,
    /// Platforms of one family share their paths; finding two families on a host is an error
    pub family: &'static str,
    /// Any of these shows it
    pub markers: &'static [Marker],
    /// Where the scheduler is defined
    pub target: Target,
}

/// Something on the host that shows a platform.
#[derive(Debug, PartialEq, Eq)]
pub enum Marker {
    /// A file or directory of this path
    Path(&'static str),
    /// A file of this path with a line that is exactly this
    Line(&'static str, &'static str),
    /// A file in this directory that may be about a scheduler
    SchedulerIn(&'static str),
}

/// Where a platform defines its scheduler.
#[derive(Debug)]
pub enum Target {
    /// In a file of a directory
    InDir {
        /// How such a file is read, edited, made effective and observed
        kind: &'static dyn TargetKind,
        /// The directory
        dir: &'static str,
    },
    /// Not ours to edit
    Refused {
        /// One sentence that says what to do instead
        instead: &'static str,
    },
}

/// Where kubeadm, and all that build on it, keep their static pods.
const KUBEADM_MANIFESTS: &str = "/etc/kubernetes/manifests";

/// The family of all that use kubeadm's directory.
const KUBEADM_FAMILY: &str = "kubeadm";

/// Clouds that hide their control plane; they are told apart from everything else by the absence of a scheduler.
const MANAGED_FAMILY: &str = "managed";

/// Platforms to look for, the more special of a family first.
pub type Platforms = &'static [&'static Platform];

/// Every platform, with this one for k3s; the more special of a family first.
const fn with_k3s(k3s: &'static Platform) -> [&'static Platform; 16] {
    [
        &talos::PLATFORM,
        &openshift::PLATFORM,
        &microshift::PLATFORM,
        &deckhouse::PLATFORM,
        &rke2::PLATFORM,
        &minikube::PLATFORM,
        &kind::PLATFORM,
        &kops::PLATFORM,
        &kubespray::PLATFORM,
        &kubeadm::PLATFORM,
        k3s,
        &microk8s::PLATFORM,
        &k0s::PLATFORM,
        &managed::EKS,
        &managed::GKE,
        &managed::AKS,
    ]
}

/// Every platform that is known.
pub static ALL: Platforms = &with_k3s(&k3s::EXEC_START);

static WITH_DROP_IN: Platforms = &with_k3s(&k3s::DROP_IN);

/// Every platform, where schedpatch has changed this file: it may be of another kind than the flags of a later command say.
pub fn of_target(path: &str) -> Platforms {
    let is_own_file = K3S_DROP_IN.own_file().is_some_and(|name| path.ends_with(name));
    with_method(if is_own_file { Method::DropIn } else { Method::ExecStart })
}

/// Every platform, k3s as it is asked for.
pub fn with_method(method: Method) -> Platforms {
    match method {
        Method::ExecStart => ALL,
        Method::DropIn => WITH_DROP_IN,
    }
}
