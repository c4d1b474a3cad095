//! k3s: the scheduler is a part of the k3s process, and its configuration is carried by the systemd unit or by a file of its own.
//!
//! Detected by the server's data directory, which agents lack.
//! Upstream: <https://docs.k3s.io/>

use super::{Marker, Platform, Target};
use crate::host::systemd::Bus;
use crate::target::unit::{CONFIG_DIR, K3s, Method, RestartBy, UNITS, UnitRestarter};

static EXEC_START: UnitRestarter = UnitRestarter::new(&Bus, Method::ExecStart);
static DROP_IN: UnitRestarter = UnitRestarter::new(&Bus, Method::DropIn);

/// Every way to carry a configuration and to restart: first the unit, then the file; a person, the service manager, and the service
/// manager after a trial.
static KINDS: [[K3s; 3]; 2] = [
    [
        K3s::new(Method::ExecStart, RestartBy::Person(&EXEC_START)),
        K3s::new(Method::ExecStart, RestartBy::Manager(&EXEC_START)),
        K3s::new(Method::ExecStart, RestartBy::ManagerAfterTrial(&EXEC_START)),
    ],
    [
        K3s::new(Method::DropIn, RestartBy::Person(&DROP_IN)),
        K3s::new(Method::DropIn, RestartBy::Manager(&DROP_IN)),
        K3s::new(Method::DropIn, RestartBy::ManagerAfterTrial(&DROP_IN)),
    ],
];

/// The platform with what carries the configuration. Public for tests, which put a service manager of their own into a kind.
pub const fn platform(kind: &'static K3s, dir: &'static str) -> Platform {
    Platform {
        id: "k3s",
        family: "k3s",
        markers: &[Marker::Path("/var/lib/rancher/k3s/server"), Marker::Path("/etc/systemd/system/k3s.service")],
        target: Target::InDir { kind, dir },
    }
}

pub(super) static UNIT_BY_PERSON: Platform = platform(&KINDS[0][0], UNITS);
pub(super) static UNIT: Platform = platform(&KINDS[0][1], UNITS);
pub(super) static UNIT_AFTER_TRIAL: Platform = platform(&KINDS[0][2], UNITS);
pub(super) static FILE_BY_PERSON: Platform = platform(&KINDS[1][0], CONFIG_DIR);
pub(super) static FILE: Platform = platform(&KINDS[1][1], CONFIG_DIR);
pub(super) static FILE_AFTER_TRIAL: Platform = platform(&KINDS[1][2], CONFIG_DIR);
