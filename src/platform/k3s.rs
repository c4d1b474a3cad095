//! k3s: the scheduler is a part of the k3s process, and its configuration is carried by the systemd unit or by a file of its own.
//!
//! Detected by the server's data directory, which agents lack.
//! Upstream: <https://docs.k3s.io/>

use super::{Marker, Platform, Target};
use crate::target::unit::{CONFIG_DIR, K3s, Method, UNITS};

static MANUAL_EXEC_START: K3s = K3s::restarted_by_a_person(Method::ExecStart);
pub(super) static MANUAL_DROP_IN: K3s = K3s::restarted_by_a_person(Method::DropIn);

/// The platform with what carries the configuration.
const fn platform(kind: &'static K3s, dir: &'static str) -> Platform {
    Platform {
        id: "k3s",
        family: "k3s",
        markers: &[Marker::Path("/var/lib/rancher/k3s/server"), Marker::Path("/etc/systemd/system/k3s.service")],
        target: Target::InDir { kind, dir },
    }
}

pub(super) static EXEC_START: Platform = platform(&MANUAL_EXEC_START, UNITS);
pub(super) static DROP_IN: Platform = platform(&MANUAL_DROP_IN, CONFIG_DIR);
