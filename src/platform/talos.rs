//! Talos: an immutable system that renders its static pods from the machine configuration.
//!
//! Upstream: <https://www.talos.dev/>

use super::{Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "talos",
    family: "talos",
    markers: &[Marker::Line("/etc/os-release", "ID=talos")],
    target: Target::Refused {
        instead: "Talos renders the scheduler from its machine config: put the extenders under cluster.scheduler.config (Talos 1.6 and later; from 1.14 also the document KubeSchedulerConfig) and apply it with talosctl",
    },
};
