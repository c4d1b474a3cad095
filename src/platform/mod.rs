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
pub use k3s::platform as k3s_platform;

use crate::target::TargetKind;
pub use crate::target::unit::Method;
use crate::target::unit::OWN_FILE;

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
pub static ALL: Platforms = &with_k3s(&k3s::UNIT);

static UNIT_BY_PERSON: Platforms = &with_k3s(&k3s::UNIT_BY_PERSON);
static UNIT_AFTER_TRIAL: Platforms = &with_k3s(&k3s::UNIT_AFTER_TRIAL);
static FILE: Platforms = &with_k3s(&k3s::FILE);
static FILE_BY_PERSON: Platforms = &with_k3s(&k3s::FILE_BY_PERSON);
static FILE_AFTER_TRIAL: Platforms = &with_k3s(&k3s::FILE_AFTER_TRIAL);

/// How k3s is dealt with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct K3sOptions {
    /// What carries the configuration
    pub method: Method,
    /// Whether a person restarts it
    pub by_person: bool,
    /// Whether a new text is tried first: only an agent stays to judge it
    pub tries: bool,
}

impl K3sOptions {
    /// Every platform, k3s as it is asked for.
    pub fn platforms(self) -> Platforms {
        match self {
            Self { method: Method::ExecStart, by_person: true, .. } => UNIT_BY_PERSON,
            Self { method: Method::ExecStart, tries: true, .. } => UNIT_AFTER_TRIAL,
            Self { method: Method::ExecStart, .. } => ALL,
            Self { method: Method::DropIn, by_person: true, .. } => FILE_BY_PERSON,
            Self { method: Method::DropIn, tries: true, .. } => FILE_AFTER_TRIAL,
            Self { method: Method::DropIn, .. } => FILE,
        }
    }

    /// The same for a file that schedpatch has changed, whatever the flags of a later command say.
    #[must_use]
    pub fn for_target(self, path: &str) -> Self {
        let method = if path.ends_with(OWN_FILE) { Method::DropIn } else { Method::ExecStart };
        Self { method, ..self }
    }
}
