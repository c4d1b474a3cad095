//! RKE2: static pods of its own, flags in `args`, an explicit `metadata.uid` that must change with every edit.
//!
//! Detected by the server's data directory, which agents lack. `rke2-server` writes the file anew at every start.
//! Upstream: <https://docs.rke2.io/>

use super::{Marker, Platform, Target};
use crate::target::static_pod::StaticPod;

const MANIFESTS: &str = "/var/lib/rancher/rke2/agent/pod-manifests";

pub(super) static PLATFORM: Platform = Platform {
    id: "rke2",
    family: "rke2",
    markers: &[Marker::Path("/var/lib/rancher/rke2/server"), Marker::SchedulerIn(MANIFESTS)],
    target: Target::InDir { kind: &StaticPod, dir: MANIFESTS },
};
