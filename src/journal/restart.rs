//! The restart that a commit needs, where nobody notices a new target by itself.

use serde::{Deserialize, Serialize};

use super::Journal;
use crate::revision::Digest;

/// A restart that a commit needs, once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Restart {
    /// The text that it makes effective
    pub text: Digest,
    /// How far it is
    pub state: RestartState,
    /// What ran before it (nothing: empty): once something else runs, it has happened
    pub before: String,
    /// Whether the text was loaded before, where it must be
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_loaded: bool,
}

/// How far a restart is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RestartState {
    /// It must be asked for
    Due,
    /// It was asked for
    Issued,
    /// It has happened
    Done,
}

impl Journal {
    /// The journal once something runs: a restart has happened when it is something else than before. A start before the text was
    /// loaded, where it `must_load`, says nothing.
    #[must_use]
    pub fn restarted(mut self, running: &str, must_load: bool) -> Self {
        let is_another = |restart: &&mut Restart| !running.is_empty() && restart.before != running;
        let counts = |restart: &&mut Restart| restart.is_loaded || !must_load;
        if let Some(restart) = self.restart.as_mut().filter(is_another).filter(counts) {
            restart.state = RestartState::Done;
        }
        self
    }

    /// The journal without a restart that nothing needs any more: the text it was for was never loaded, and the target has another
    /// one. A restart of the host in that moment forgets a text on trial, and starts the scheduler with the target itself.
    #[must_use]
    pub fn without_lost_text(mut self, in_place: Digest, generation: Option<u64>) -> Self {
        let of = self.current.as_ref().map(|commit| (commit.text, commit.generation));
        self.restart = self.restart.take().filter(|restart| {
            let is_lost = restart.state == RestartState::Due
                && !restart.is_loaded
                && restart.text != in_place
                && of.is_some_and(|(text, committed)| text == restart.text && Some(committed) != generation);
            !is_lost
        });
        self
    }

    /// The journal once the new text is loaded while this runs.
    #[must_use]
    pub fn loaded(mut self, running: &str) -> Self {
        if let Some(restart) = &mut self.restart {
            (restart.before, restart.is_loaded) = (running.to_owned(), true);
        }
        self
    }

    /// Whether the new text is loaded.
    pub fn is_loaded(&self) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.is_loaded)
    }

    /// The journal once a restart that was asked for is not under way any more and has not happened.
    #[must_use]
    pub fn lost_restart(mut self) -> Self {
        if let Some(restart) = self.restart.as_mut().filter(|restart| restart.state == RestartState::Issued) {
            restart.state = RestartState::Due;
        }
        self
    }

    /// The journal once the restart was asked for.
    #[must_use]
    pub fn issued(mut self) -> Self {
        if let Some(restart) = self.restart.as_mut().filter(|restart| restart.state == RestartState::Due) {
            restart.state = RestartState::Issued;
        }
        self
    }

    /// Whether somebody must still ask for a restart, whatever others have made of the text since.
    pub fn is_restart_due(&self) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.state == RestartState::Due)
    }

    /// Whether a restart has not happened yet, as far as is known.
    pub fn awaits_restart(&self) -> bool {
        self.restart.as_ref().is_some_and(|restart| restart.state != RestartState::Done)
    }
}
