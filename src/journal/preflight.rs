//! What a node remembers of its preflights.

use serde::{Deserialize, Serialize};

use super::{Bad, Journal};
use crate::revision::Digest;

/// The preflights of this host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Preflights {
    /// How many were begun: each has a name of its own, because a kubelet takes its time with a name that it just had
    #[serde(default)]
    pub attempts: u64,
    /// The target without our edit with which no preflight can judge here: the scheduler that runs fails there too
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cannot_judge: Option<Digest>,
}

impl Preflights {
    pub(super) fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Journal {
    /// Whether it holds something that only preflights need.
    pub(super) fn has_preflights(&self) -> bool {
        !self.preflights.is_empty() || self.bad.values().any(|bad| bad.by_preflight)
    }

    /// The journal once a preflight is about to begin.
    #[must_use]
    pub fn tried(mut self, attempt: u64) -> Self {
        self.preflights.attempts = self.preflights.attempts.max(attempt);
        self
    }

    /// The journal once the scheduler itself has refused a revision.
    #[must_use]
    pub fn refused(mut self, revision: &str, bad: Bad) -> Self {
        self.bad.insert(revision.to_owned(), bad);
        self
    }

    /// The journal once even what runs has failed in a preflight.
    #[must_use]
    pub fn without_preflight(mut self, original: Digest) -> Self {
        self.preflights.cannot_judge = Some(original);
        self
    }
}
