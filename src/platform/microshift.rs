//! MicroShift: one process, which writes the scheduler's configuration anew at each start.
//!
//! Upstream: <https://microshift.io/>

use super::{Marker, Platform, Target};

pub(super) static PLATFORM: Platform = Platform {
    id: "microshift",
    family: "microshift",
    markers: &[Marker::Path("/var/lib/microshift")],
    target: Target::Refused {
        instead: "MicroShift runs the scheduler in its own process and writes its configuration anew at each start: run a second kube-scheduler as a Deployment and set spec.schedulerName in your pods",
    },
};
