//! What a node remembers of the rollout over all nodes.

use serde::{Deserialize, Serialize};

use super::{Commit, Journal};
use crate::revision::Digest;

/// The last digest that every node had proven, and the commit that carries it here: the way back when a later one fails.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct SealedCommit {
    /// The digest
    pub digest: Digest,
    /// Which one it was: they are counted over all nodes
    pub number: u64,
    /// What carries it here
    pub commit: Commit,
}

/// A change that was taken back here without blame: the same digest is tried again later, less and less often.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StoppedChange {
    /// The digest
    pub digest: Digest,
    /// Why it could not be started
    pub words: String,
    /// How often in a row that happened before
    #[serde(default)]
    pub times: u32,
    /// Whether the other nodes know of it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
}

impl Journal {
    /// Whether it holds something that only several nodes need.
    pub(super) fn is_part_of_a_rollout(&self) -> bool {
        let has_digest = self.bad.values().any(|bad| bad.digest.is_some() || bad.retries > 0 || bad.is_reported);
        self.sealed.is_some() || self.stopped.is_some() || self.retries > 0 || self.owner.is_some() || has_digest
    }

    /// The journal once every node has proven this digest, which the last proven commit carries here.
    #[must_use]
    pub fn sealed(mut self, digest: Digest, number: u64) -> Self {
        let commit = self.last_good.clone().filter(|_| self.is_proven());
        self.sealed = commit.map(|commit| SealedCommit { digest, number, commit }).or(self.sealed);
        self
    }

    /// Whether it knows this digest as the way back, in the text that was proven last: after a repair on another original the text
    /// of before would undo what others changed.
    pub fn has_sealed(&self, digest: Digest, number: u64) -> bool {
        let good = self.last_good.as_ref().map(|commit| commit.text);
        self.sealed.as_ref().is_some_and(|sealed| {
            (sealed.digest, sealed.number) == (digest, number) && Some(sealed.commit.text) == good
        })
    }

    /// The journal once a person has asked so often to try again: older marks are void.
    #[must_use]
    pub fn retried(mut self, retries: u64) -> Self {
        if retries > self.retries {
            self.retries = retries;
            self.stopped = None;
            self.bad.retain(|_, bad| bad.retries >= retries);
            // the host may have been strange for a moment only
            self.preflights.cannot_judge = None;
        }
        self
    }

    /// The journal once the others know what failed here.
    #[must_use]
    pub fn reported(mut self, digest: Digest) -> Self {
        let of_digest = self.bad.values_mut().filter(|bad| bad.digest == Some(digest));
        of_digest.for_each(|bad| bad.is_reported = true);
        self
    }

    /// The journal once a change was taken back without blame.
    #[must_use]
    pub fn stopped(mut self, digest: Digest, words: &str) -> Self {
        let before = self.stopped.take().filter(|stopped| stopped.digest == digest);
        let times = before.as_ref().map_or(0, |stopped| stopped.times.saturating_add(1));
        let is_reported = before.is_some_and(|stopped| stopped.is_reported);
        self.stopped = Some(StoppedChange { digest, words: words.to_owned(), times, is_reported });
        self
    }

    /// The journal once the others know that a change was taken back here.
    #[must_use]
    pub fn stop_reported(mut self) -> Self {
        self.stopped.iter_mut().for_each(|stopped| stopped.is_reported = true);
        self
    }

    /// The journal once a change that was taken back may be tried again.
    #[must_use]
    pub fn resumed(self) -> Self {
        Self { stopped: None, ..self }
    }

    /// The journal without a commit whose text somebody else replaced before it was proven.
    #[must_use]
    pub fn forgotten(self) -> Self {
        match self.last_good.clone() {
            good @ Some(_) => Self { current: good, ..self },
            None => self.cleared(),
        }
    }
}
