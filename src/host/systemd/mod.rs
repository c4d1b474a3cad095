//! The service manager of the host: what it says about a unit, and the two things that are asked of it. Only this folder speaks
//! D-Bus.

mod bus;

use std::fmt::Debug;
use std::path::Path;

pub use bus::Bus;

/// Where the host has the socket of its message bus.
pub const SOCKET: &str = "/run/dbus/system_bus_socket";

/// What the service manager says about a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct UnitState {
    /// The unit's file
    pub fragment: String,
    /// Its drop-ins, in order
    pub drop_ins: Vec<String>,
    /// The command lines that it has loaded, each with the program's name first; what runs may have been started with others
    pub commands: Vec<Vec<String>>,
    /// Which start of the unit this is; empty while nothing was started
    pub invocation: String,
    /// How often it was started anew by itself
    pub restarts: u32,
    /// `active`, `activating`, `failed`, …
    pub active: String,
    /// The same in more detail: `running`, `auto-restart`, …
    pub sub: String,
    /// How the last start ended: `success`, `exit-code`, …
    pub result: String,
    /// Whether a start, stop or restart is under way
    pub has_job: bool,
}

impl UnitState {
    /// Whether a loaded command line has this word.
    pub fn has_loaded(&self, word: &str) -> bool {
        self.commands.iter().flatten().any(|own| own == word)
    }
}

/// Why the service manager did not answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SystemdError {
    /// There is no socket
    #[error(
        "cannot reach systemd: {path} is not there; mount /run/dbus/system_bus_socket of the host, or run where systemd runs"
    )]
    NoSocket {
        /// Where it was looked for
        path: String,
    },
    /// The system or the bus forbids it
    #[error(
        "systemd may not be asked: {why}; in a pod, set appArmorProfile.type Unconfined and, with SELinux, seLinuxOptions.type spc_t"
    )]
    Denied {
        /// In the words of who forbids it
        why: String,
    },
    /// It did not answer in time
    #[error("systemd did not answer within {seconds} s")]
    Silent {
        /// The time that it had
        seconds: u64,
    },
    /// It answered with an error, or not as expected
    #[error("systemd: {why}")]
    Failed {
        /// In its own words
        why: String,
    },
}

/// A service manager. Every call waits for its answer, for a few seconds at most, but never for a job.
pub trait ServiceManager: Debug + Send + Sync {
    /// What it says about a unit.
    fn unit(&self, host_root: &Path, name: &str) -> Result<UnitState, SystemdError>;

    /// Lets it read all unit files anew.
    fn reload(&self, host_root: &Path) -> Result<(), SystemdError>;

    /// Asks it to restart a unit.
    fn restart(&self, host_root: &Path, name: &str) -> Result<(), SystemdError>;
}
