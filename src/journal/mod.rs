//! What schedpatch did on this host, as `state.json` keeps it: data, and how it may change. `apply` writes it.
//!
//! The format is public: documented in `docs/reference/formats.md`, pinned by fixtures.

mod preflight;
mod restart;
mod rollout;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::host::HostPath;
use crate::revision::{Digest, REVISION_DIGITS};
use crate::timestamp::Timestamp;
pub use preflight::Preflights;
pub use restart::{Restart, RestartState};
pub use rollout::{SealedCommit, StoppedChange};

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 3;
/// The format without preflights and what several nodes need to agree.
const RESTART_VERSION: u32 = 2;
/// The format without restarts as well.
const FIRST_VERSION: u32 = 1;

/// So many of the last revisions stay on the host, whatever became of them.
const KEPT_REVISIONS: usize = 3;

/// The journal's file in our directory.
pub(crate) const STATE_FILE: &str = "state.json";
/// The lock's file, with a line about who had it last.
pub(crate) const LOCK_FILE: &str = "lock";
/// What somebody else wrote into the target in the instant of a commit.
pub(crate) const OVERWRITTEN_FILE: &str = "overwritten.yaml";
/// Where a journal goes that cannot be read.
pub(crate) const DAMAGED_FILE: &str = "state.json.damaged";
/// The target's texts that lead back, each under its digest.
pub(crate) const TEXTS_DIR: &str = "texts";
/// The revisions, each a directory.
pub(crate) const REVISIONS_DIR: &str = "revisions";

/// Whether a name is that of a revision.
pub(crate) fn is_revision(name: &str) -> bool {
    name.len() == REVISION_DIGITS && is_hex(name)
}

/// Whether a name is that of a text.
pub(crate) fn is_text(name: &str) -> bool {
    name.len() == 64 && is_hex(name)
}

fn is_hex(name: &str) -> bool {
    name.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}

/// Everything that we remember.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Journal {
    /// Format of this file
    pub version: u32,
    /// The last generation that was begun here
    #[serde(default)]
    pub generation: u64,
    /// The file that all of this is about
    #[serde(default)]
    pub target: Option<HostPath>,
    /// The target without ours, as it was when `current` was committed
    #[serde(default)]
    pub original: Option<Digest>,
    /// What we committed last and did not take out
    #[serde(default)]
    pub current: Option<Commit>,
    /// The last commit that was proven to run; none means that the original is
    #[serde(default)]
    pub last_good: Option<Commit>,
    /// A commit that was begun and not noted as done
    #[serde(default)]
    pub in_flight: Option<InFlight>,
    /// The restart that the last commit needs; none if the target needs no restart
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restart: Option<Restart>,
    /// Revisions that failed here
    #[serde(default)]
    pub bad: BTreeMap<String, Bad>,
    /// A person said: leave it alone
    #[serde(default)]
    pub hold: Option<Hold>,
    /// The last revisions that were committed, newest first
    #[serde(default)]
    pub recent: Vec<String>,
    /// The last digest that every node had proven, and what carries it here
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sealed: Option<SealedCommit>,
    /// What was taken back here without blame, and is tried again later
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stopped: Option<StoppedChange>,
    /// How often a person had asked to try again what failed, as far as this node knows
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// The release whose agents write here, as `NAMESPACE/NAME` of their DaemonSet
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// The preflights of this host
    #[serde(default, skip_serializing_if = "Preflights::is_empty")]
    pub preflights: Preflights,
    /// The text with our edit that the scheduler was seen to run with in the moment before an uninstall removed the edit, where a
    /// person restarts the scheduler
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ran: Option<Digest>,
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde asks for it")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}

/// One text of ours in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Commit {
    /// Identity of what was written
    pub revision: String,
    /// Number of the commit
    pub generation: u64,
    /// Digest of the sources it was made from
    #[serde(default)]
    pub digest: Option<Digest>,
    /// The target's text; kept in `texts/` once it was proven to run
    pub text: Digest,
    /// Digests of the revision's files, by their path on the host
    pub files: BTreeMap<String, Digest>,
    /// When it was committed
    pub since: Timestamp,
}

/// A commit that was begun.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct InFlight {
    /// The text that shall be replaced
    pub from: Digest,
    /// The text that replaces it
    pub to: Digest,
    /// What the commit is; none for taking ours out
    pub commit: Option<Commit>,
    /// The target without ours, kept in `texts/`; none for taking ours out
    pub original: Option<Digest>,
    /// When it was begun
    pub since: Timestamp,
    /// If a restart must follow: what ran before; empty if nothing did
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restarts: Option<String>,
}

/// Why a revision is not tried again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Bad {
    /// In words
    pub reason: String,
    /// When it failed
    pub since: Timestamp,
    /// The target without our edit that it failed with, where the revision had run with another one before: the mark holds
    /// only for this original
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub original: Option<Digest>,
    /// What was asked for with this revision
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub digest: Option<Digest>,
    /// How often a person had asked to try again when it failed
    #[serde(default, skip_serializing_if = "is_zero")]
    pub retries: u64,
    /// Whether the other nodes know of it
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub is_reported: bool,
    /// Whether it was refused in a preflight, so that it never ran
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub by_preflight: bool,
}

impl Bad {
    /// Whether the mark holds for a target whose text without our edit is this.
    pub fn holds_for(&self, original: Digest) -> bool {
        self.original.is_none_or(|own| own == original)
    }
}

/// Who asks for a pass, which decides what it means for the journal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Initiator {
    /// A person, who ends a hold by applying and leaves one by restoring
    Person,
    /// The agent, which writes nothing where there is a hold
    Agent,
    /// The agent, because this revision has failed
    AgentAfterFailure {
        /// The revision
        revision: String,
        /// Why
        reason: String,
        /// The target without our edit, where the revision was proven with another one before
        original: Option<Digest>,
    },
}

/// Nothing is written until `schedpatch apply`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Hold {
    /// What was asked for
    pub by: String,
    /// When
    pub since: Timestamp,
}

impl Default for Journal {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            generation: 0,
            target: None,
            original: None,
            current: None,
            last_good: None,
            in_flight: None,
            restart: None,
            bad: BTreeMap::new(),
            hold: None,
            recent: Vec::new(),
            sealed: None,
            stopped: None,
            retries: 0,
            owner: None,
            preflights: Preflights::default(),
            ran: None,
        }
    }
}

impl Journal {
    /// Reads `state.json`.
    pub fn from_json(bytes: &[u8]) -> Result<Self, String> {
        #[derive(Deserialize)]
        struct Versioned {
            version: u32,
        }
        let text = |error: serde_json::Error| error.to_string();
        let Versioned { version } = serde_json::from_slice(bytes).map_err(text)?;
        if !(FIRST_VERSION..=FORMAT_VERSION).contains(&version) {
            return Err(format!(
                "it has format {version}, and this schedpatch knows formats up to {FORMAT_VERSION}: use a newer one"
            ));
        }
        let journal: Self = serde_json::from_slice(bytes).map_err(text)?;
        Ok(Self { version: FORMAT_VERSION, ..journal })
    }

    /// What can be saved of a journal that cannot be read as a whole: what must not be forgotten.
    pub fn rescued(bytes: &[u8]) -> Self {
        let value: serde_json::Value = serde_json::from_slice(bytes).unwrap_or_default();
        let part = |name: &str| value.get(name).cloned().unwrap_or_default();
        Self {
            generation: part("generation").as_u64().unwrap_or_default(),
            bad: serde_json::from_value(part("bad")).unwrap_or_default(),
            hold: serde_json::from_value(part("hold")).unwrap_or_default(),
            restart: serde_json::from_value(part("restart")).unwrap_or_default(),
            retries: part("retries").as_u64().unwrap_or_default(),
            owner: part("owner").as_str().map(str::to_owned),
            preflights: serde_json::from_value(part("preflights")).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// Writes `state.json`, in the oldest format that has all of it: older versions read that.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        let in_flight = self.in_flight.as_ref().and_then(|flight| flight.restarts.as_ref());
        let version = if self.is_part_of_a_rollout() || self.has_preflights() || self.ran.is_some() {
            FORMAT_VERSION
        } else if self.restart.is_some() || in_flight.is_some() {
            RESTART_VERSION
        } else {
            FIRST_VERSION
        };
        let mut text = serde_json::to_vec_pretty(&Self { version, ..self.clone() })?;
        text.push(b'\n');
        Ok(text)
    }

    /// The journal once a commit in flight is judged by the target's text: it happened, or it did not.
    #[must_use]
    pub fn settled(mut self, text: Digest) -> Self {
        match self.in_flight.take() {
            Some(flight) if flight.to == text => self.landed(flight),
            Some(InFlight { from, to, restarts: Some(before), .. }) if from != text => {
                // others have written since, perhaps over ours: a restart too many is better than one that is forgotten
                self.restart = Some(Restart { text: to, state: RestartState::Due, before, is_loaded: false });
                self
            }
            _ => self,
        }
    }

    /// The journal of a host whose target carries nothing of ours.
    #[must_use]
    pub fn cleared(self) -> Self {
        Self { original: None, current: None, last_good: None, ..self }
    }

    /// The journal before a commit. From here on the generation is used up, whatever happens.
    #[must_use]
    pub fn intending(mut self, target: HostPath, flight: InFlight) -> Self {
        if let Some(commit) = &flight.commit {
            self.saw(commit.generation);
        }
        self.target = Some(target);
        self.in_flight = Some(flight);
        self
    }

    /// A generation that was seen is never given again.
    pub fn saw(&mut self, generation: u64) {
        self.generation = self.generation.max(generation);
    }

    fn landed(mut self, flight: InFlight) -> Self {
        let due = |before| Restart { text: flight.to, state: RestartState::Due, before, is_loaded: false };
        self.restart = flight.restarts.map(due);
        self.ran = self.ran.filter(|ran| flight.commit.is_none() && *ran == flight.from);
        if let Some(commit) = flight.commit {
            self.recent.retain(|revision| *revision != commit.revision);
            self.recent.insert(0, commit.revision.clone());
            self.recent.truncate(KEPT_REVISIONS);
            self.original = flight.original;
            self.current = Some(commit);
            self
        } else {
            self.cleared()
        }
    }

    /// The journal once this very text was seen to run.
    #[must_use]
    pub fn proven(mut self, text: Digest) -> Self {
        if self.is_current(text) {
            self.last_good.clone_from(&self.current);
            let digest = self.current.as_ref().and_then(|commit| commit.digest);
            self.stopped = self.stopped.take().filter(|stopped| Some(stopped.digest) != digest);
        }
        self
    }

    /// Whether the target carries something of ours, or may.
    pub fn is_busy(&self) -> bool {
        self.current.is_some() || self.in_flight.is_some()
    }

    /// Whether the target is exactly what we committed last.
    pub fn is_current(&self, target: Digest) -> bool {
        self.current.as_ref().is_some_and(|commit| commit.text == target)
    }

    /// Whether what we committed last was proven to run.
    pub fn is_proven(&self) -> bool {
        let good = self.last_good.as_ref().map(|commit| commit.text);
        good.is_some() && good == self.current.as_ref().map(|commit| commit.text)
    }

    /// The journal without the marks that do not hold for this original.
    #[must_use]
    pub fn with_marks_for(mut self, original: Digest) -> Self {
        self.bad.retain(|_, bad| bad.holds_for(original));
        self
    }

    /// Whether this revision is the one that was last proven to run.
    pub fn has_proven(&self, revision: &str) -> bool {
        self.last_good.as_ref().is_some_and(|good| good.revision == revision)
    }

    /// The texts that must be kept: those that lead back. The text in place is in the target itself.
    pub fn texts(&self) -> BTreeSet<Digest> {
        let good = self.last_good.as_ref().map(|commit| commit.text);
        let flight = self.in_flight.as_ref().and_then(|flight| flight.original);
        let sealed = self.sealed.as_ref().map(|sealed| sealed.commit.text);
        [self.original, good, flight, sealed].into_iter().flatten().collect()
    }

    /// The revisions that must be kept.
    pub fn revisions(&self) -> BTreeSet<&str> {
        let flight = self.in_flight.as_ref().and_then(|flight| flight.commit.as_ref());
        let sealed = self.sealed.as_ref().map(|sealed| &sealed.commit);
        let commits = [self.current.as_ref(), self.last_good.as_ref(), flight, sealed].into_iter().flatten();
        commits.map(|commit| &commit.revision).chain(&self.recent).map(String::as_str).collect()
    }
}
