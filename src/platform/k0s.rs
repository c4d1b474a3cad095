//! k0s: the scheduler is a child process of k0s; controllers are usually no nodes.
//!
//! Upstream: <https://docs.k0sproject.io/>

use super::{Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "k0s",
    family: "k0s",
    markers: &[Marker::Path("/var/lib/k0s"), Marker::Path("/etc/k0s/k0s.yaml")],
    target: Target::Refused {
        instead: "k0s runs the scheduler as its child process: set spec.scheduler.extraArgs.config: /path in k0s.yaml, with that file on every controller",
    },
};
