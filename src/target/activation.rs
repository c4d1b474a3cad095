//! What makes a new text of a target effective.

use std::fmt::Debug;
use std::path::Path;

use super::SchedulerSpec;

/// Who makes a new text effective.
#[derive(Clone, Copy, Debug)]
pub enum Activation {
    /// Who runs the scheduler notices the new text
    Automatic,
    /// The scheduler must be restarted, once for every commit
    Restart(&'static dyn Restarter),
    /// A person must restart the scheduler; what they restart it through
    Person(&'static dyn Restarter),
}

impl Activation {
    /// Who restarts the scheduler, where that is needed.
    pub fn restarter(self) -> Option<&'static dyn Restarter> {
        match self {
            Self::Automatic | Self::Person(_) => None,
            Self::Restart(restarter) => Some(restarter),
        }
    }
}

/// The scheduler that is to be restarted.
#[derive(Clone, Copy, Debug)]
pub struct Restartable<'a> {
    /// Root of the host's file tree
    pub host_root: &'a Path,
    /// The target
    pub target: &'a str,
    /// What it says about the scheduler
    pub spec: &'a SchedulerSpec,
}

/// Restarts a scheduler.
pub trait Restarter: Debug + Send + Sync {
    /// What runs now: every start has another name. Empty while nothing runs. Asked before the first write, so this is also the
    /// place to refuse a target that is not what runs.
    fn instance(&self, at: &Restartable<'_>) -> Result<String, String>;

    /// Whether a restart was asked for and nothing else runs yet.
    fn is_pending(&self, at: &Restartable<'_>) -> Result<bool, String>;

    /// Whether whoever starts the scheduler must read a new text first: a start before that says nothing.
    fn must_load(&self) -> bool {
        false
    }

    /// Lets whoever starts the scheduler read the new text, which names this configuration file.
    fn load(&self, _at: &Restartable<'_>, _config: Option<&str>) -> Result<(), String> {
        Ok(())
    }

    /// Before the files of our edit are removed: whoever starts the scheduler must not start it with them any more, should it end
    /// by itself.
    fn let_go(&self, _at: &Restartable<'_>) -> Result<(), String> {
        Ok(())
    }

    /// Asks for a restart, and does not wait for it.
    fn restart(&self, at: &Restartable<'_>) -> Result<(), String>;
}
