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

/// Why a new text is not loaded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotLoaded {
    /// Nobody could be asked
    Unasked(String),
    /// Everything was read anew, and something else has the last word
    Overridden(String),
}

impl NotLoaded {
    /// In words.
    pub fn into_words(self) -> String {
        match self {
            Self::Unasked(why) | Self::Overridden(why) => why,
        }
    }
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

    /// Asked before a new text is written: why whoever starts the scheduler would not start it with that text. An `Err` of
    /// [`Restarter::load`] says the same afterwards.
    fn why_unreadable(&self, _at: &Restartable<'_>) -> Option<String> {
        None
    }

    /// Lets whoever starts the scheduler read the new text, which names this configuration file.
    fn load(&self, _at: &Restartable<'_>, _config: Option<&str>) -> Result<(), NotLoaded> {
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
