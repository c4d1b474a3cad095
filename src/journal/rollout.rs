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

impl Journal {
    /// Whether it holds something that only several nodes need.
    pub(super) fn is_part_of_a_rollout(&self) -> bool {
        let has_digest = self.bad.values().any(|bad| bad.digest.is_some() || bad.retries > 0 || bad.is_reported);
        self.sealed.is_some() || self.retries > 0 || self.owner.is_some() || has_digest
    }

    /// The journal once every node has proven this digest, which the last proven commit carries here.
    #[must_use]
    pub fn sealed(mut self, digest: Digest, number: u64) -> Self {
        let commit = self.last_good.clone().filter(|_| self.is_proven());
        self.sealed = commit.map(|commit| SealedCommit { digest, number, commit }).or(self.sealed);
        self
    }

    /// The journal once a person has asked so often to try again: older marks are void.
    #[must_use]
    pub fn retried(mut self, retries: u64) -> Self {
        if retries > self.retries {
            self.retries = retries;
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

    /// The journal without a commit whose text somebody else replaced before it was proven.
    #[must_use]
    pub fn forgotten(self) -> Self {
        match self.last_good.clone() {
            good @ Some(_) => Self { current: good, ..self },
            None => self.cleared(),
        }
    }
}
