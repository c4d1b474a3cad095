//! What makes a new text of a target effective.

use std::fmt::Debug;
use std::path::Path;

/// Who makes a new text effective.
#[derive(Clone, Copy, Debug)]
pub enum Activation {
    /// Who runs the scheduler notices the new text
    Automatic,
    /// The scheduler must be restarted, once for every commit
    Restart(&'static dyn Restarter),
    /// A person must restart the scheduler
    Person,
}

impl Activation {
    /// Who restarts the scheduler, where that is needed.
    pub fn restarter(self) -> Option<&'static dyn Restarter> {
        match self {
            Self::Automatic | Self::Person => None,
            Self::Restart(restarter) => Some(restarter),
        }
    }
}

/// Restarts a scheduler.
pub trait Restarter: Debug + Send + Sync {
    /// What runs now: every start has another name. Empty while nothing runs.
    fn instance(&self, host_root: &Path) -> Result<String, String>;

    /// Whether a restart was asked for and nothing else runs yet.
    fn is_pending(&self, host_root: &Path) -> Result<bool, String>;

    /// Asks for a restart, and does not wait for it.
    fn restart(&self, host_root: &Path) -> Result<(), String>;
}
