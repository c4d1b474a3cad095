//! Restarts a k3s server through its service manager.

use super::{Method, trial};
use crate::host::HostRoot;
use crate::host::systemd::{ServiceManager, SystemdError, UnitState};
use crate::target::{NotLoaded, Restartable, Restarter};

/// This directory is there where systemd runs, as sd_booted(3) says.
const RUNS: &str = "/run/systemd/system";

/// Restarts the unit of a server.
#[derive(Debug)]
pub struct UnitRestarter {
    pub(super) manager: &'static dyn ServiceManager,
    pub(super) method: Method,
}

impl UnitRestarter {
    /// Asks this service manager.
    pub const fn new(manager: &'static dyn ServiceManager, method: Method) -> Self {
        Self { manager, method }
    }
}

fn words(error: &SystemdError) -> String {
    error.to_string()
}

impl Restarter for UnitRestarter {
    fn instance(&self, at: &Restartable<'_>) -> Result<String, String> {
        let unit = self.manager.unit(at.host_root, &at.spec.identity.name).map_err(|error| words(&error))?;
        let is_loaded = match self.method {
            Method::ExecStart => unit.fragment == at.target,
            // the unit is not edited, wherever it is
            Method::DropIn => !unit.fragment.is_empty(),
        };
        if !is_loaded {
            return Err(format!("systemd has loaded {:?} for this unit, not {}", unit.fragment, at.target));
        }
        Ok(unit.invocation)
    }

    fn is_pending(&self, at: &Restartable<'_>) -> Result<bool, String> {
        self.manager.unit(at.host_root, &at.spec.identity.name).map(|unit| unit.has_job).map_err(|error| words(&error))
    }

    fn must_load(&self) -> bool {
        true
    }

    fn why_unreadable(&self, at: &Restartable<'_>) -> Option<String> {
        let service = at.spec.service.as_ref()?;
        let hides_a_command = || {
            let unit = self.manager.unit(at.host_root, &at.spec.identity.name).ok()?;
            let unread: Vec<&str> =
                unit.drop_ins.iter().map(String::as_str).filter(|path| !service.reads(path)).collect();
            let is_as_read = unit.commands.last().is_none_or(|loaded| is_same_command(loaded, &service.command));
            // a drop-in that says nothing about the command line is no obstacle
            (!is_trial(&unit) && !unread.is_empty() && !is_as_read).then(|| {
                format!(
                    "systemd has loaded another command line than {} and its drop-ins have here, and it also reads {}, which is not readable here",
                    unit.fragment,
                    unread.join(", ")
                )
            })
        };
        hides_a_command()?;
        // somebody may have edited the unit without a reload: then nothing is hidden
        self.manager.reload(at.host_root).ok()?;
        hides_a_command()
    }

    fn load(&self, at: &Restartable<'_>, config: Option<&str>) -> Result<(), NotLoaded> {
        let unasked = |error: SystemdError| NotLoaded::Unasked(words(&error));
        self.manager.reload(at.host_root).map_err(unasked)?;
        let unit = self.manager.unit(at.host_root, &at.spec.identity.name).map_err(unasked)?;
        match config {
            // a file beside the configuration of k3s is read by k3s itself, and while it is on trial the command line has it too
            Some(config) if self.method == Method::ExecStart || is_trial(&unit) => {
                let word = format!("config={config}");
                let names_it = unit.commands.iter().flatten().any(|own| own.ends_with(&word));
                if names_it { Ok(()) } else { Err(NotLoaded::Overridden(not_loaded(&word, &unit.drop_ins))) }
            }
            _ => Ok(()),
        }
    }

    fn let_go(&self, at: &Restartable<'_>) -> Result<(), String> {
        match self.manager.reload(at.host_root) {
            Ok(()) => Ok(()),
            // nothing is loaded where systemd does not run; but the bus may also be down, or not mounted
            Err(SystemdError::NoSocket { .. }) if !HostRoot::new(at.host_root).exists(RUNS) => Ok(()),
            Err(error) => Err(words(&error)),
        }
    }

    fn restart(&self, at: &Restartable<'_>) -> Result<(), String> {
        self.manager.restart(at.host_root, &at.spec.identity.name).map_err(|error| words(&error))
    }
}

/// Whether two command lines are the same, as far as they can be compared: systemd shows what specifiers stand for.
fn is_same_command(loaded: &[String], read: &[String]) -> bool {
    let is_same = |(loaded, read): (&String, &String)| loaded == read || read.contains('%');
    loaded.len() == read.len() && loaded.iter().zip(read).all(is_same)
}

/// Whether systemd has read the place of a trial.
fn is_trial(unit: &UnitState) -> bool {
    unit.drop_ins.iter().any(|path| trial::is_path(path))
}

fn not_loaded(word: &str, drop_ins: &[String]) -> String {
    let beside = if drop_ins.is_empty() { "no drop-ins".to_owned() } else { drop_ins.join(", ") };
    format!("systemd has reloaded the unit, and its command line does not have {word}; it also reads {beside}")
}
