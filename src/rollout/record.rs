//! What all agents share: the JSON in the annotation `schedpatch.io/rollout` of one Lease. Data, how it is read and written,
//! and the limits of what it keeps.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use crate::revision::Digest;
use crate::timestamp::Timestamp;

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;
/// So many failures are kept.
const MAX_FAILURES: usize = 10;
/// So many bytes of the words of each.
const MAX_WORDS: usize = 1024;

/// What the Lease says.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Record {
    /// Format of this text
    pub version: u32,
    /// The digest that is rolled out
    #[serde(default)]
    pub digest: Option<Digest>,
    /// The node whose turn it is; also the lock
    #[serde(default)]
    pub entry: Option<Entry>,
    /// How many turns were taken
    #[serde(default)]
    pub turns: u64,
    /// Digests that failed, oldest first
    #[serde(default)]
    pub failed: Vec<Failed>,
    /// A rollout that was stopped without a failure: only this node goes on with it
    #[serde(default)]
    pub stopped: Option<Stopped>,
    /// The last digest that every node proved
    #[serde(default)]
    pub sealed: Option<Digest>,
    /// How many digests were sealed so far: of two memories the higher number is the newer one
    #[serde(default)]
    pub seals: u64,
    /// Whether a person wants no new change to begin
    #[serde(default)]
    pub paused: bool,
    /// How often a person asked to try again what failed
    #[serde(default)]
    pub retries: u64,
    /// A request to take out everything
    #[serde(default)]
    pub uninstall: Option<Uninstall>,
    /// Nodes that a person said to go on without, until they say something themselves
    #[serde(default)]
    pub forgotten: BTreeSet<String>,
    /// Nodes that are restored, and when
    #[serde(default)]
    pub restored: BTreeMap<String, Timestamp>,
    /// The record before this one was lost: nothing begins until those who know more have said it
    #[serde(default)]
    pub is_rebuilt: bool,
}

/// A node's turn.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Entry {
    /// The node
    pub node: String,
    /// The process that took the turn
    pub nonce: String,
    /// What for
    pub change: ChangeKind,
    /// What it wants to run; none for the original
    #[serde(default)]
    pub digest: Option<Digest>,
    /// The revision that carries it; none for the original
    #[serde(default)]
    pub revision: Option<String>,
    /// Which turn this is: one that is taken again is another one
    pub number: u64,
    /// The generation of the commit that the turn allows
    pub generation: u64,
    /// How often the turn was renewed
    #[serde(default)]
    pub renewed: u64,
}

/// What a commit is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ChangeKind {
    /// The digest that is wanted
    New,
    /// The way back from a digest that failed
    Back,
    /// The same digest: somebody else changed the target, or it must be written differently
    Repair,
    /// Taking out everything
    Restore,
}

/// A digest that failed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Failed {
    /// The digest
    pub digest: Digest,
    /// Where
    pub node: String,
    /// The scheduler's own words
    pub words: String,
    /// When
    pub since: Timestamp,
}

/// A rollout that was stopped without a failure.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Stopped {
    /// The digest
    pub digest: Digest,
    /// The node that could not
    pub node: String,
    /// Why
    pub words: String,
}

/// Who asked to take out everything: a newer DaemonSet is a newer will.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Uninstall {
    /// UID of the DaemonSet
    pub daemon_set: String,
    /// Generation of its pod template
    pub template: i64,
    /// The nodes that are meant; empty: every node
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    pub nodes: BTreeSet<String>,
}

/// Why a record cannot be used. Nothing begins.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RecordError {
    /// It was written by a newer agent
    #[error("it is of format {0}, which a newer agent wrote; this one knows format {FORMAT_VERSION}")]
    Newer(u32),
    /// Somebody else wrote it
    #[error("it cannot be read: {0}")]
    Malformed(String),
}

impl Default for Record {
    fn default() -> Self {
        Self {
            version: FORMAT_VERSION,
            digest: None,
            entry: None,
            turns: 0,
            failed: Vec::new(),
            stopped: None,
            sealed: None,
            seals: 0,
            paused: false,
            retries: 0,
            uninstall: None,
            forgotten: BTreeSet::new(),
            restored: BTreeMap::new(),
            is_rebuilt: false,
        }
    }
}

impl Record {
    /// Reads the annotation's text.
    pub fn read(text: &str) -> Result<Self, RecordError> {
        #[derive(Deserialize)]
        struct Version {
            version: u32,
        }
        let malformed = |error: serde_json::Error| RecordError::Malformed(error.to_string());
        match serde_json::from_str(text).map_err(malformed)? {
            Version { version: FORMAT_VERSION } => serde_json::from_str(text).map_err(malformed),
            Version { version } => Err(RecordError::Newer(version)),
        }
    }

    /// The annotation's text.
    pub fn write(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string(self)
    }

    /// Whether a digest failed, by what is recorded.
    pub fn has_failed(&self, digest: Digest) -> bool {
        self.failed.iter().any(|failed| failed.digest == digest)
    }

    /// Records a failure; neither what is rolled out nor `wanted` is dropped for it. The sealed digest does not fail for all.
    pub fn fail(&mut self, mut failed: Failed, wanted: Option<Digest>) {
        if self.sealed == Some(failed.digest) || self.has_failed(failed.digest) {
            return;
        }
        let end = (0..=MAX_WORDS).rev().find(|end| failed.words.is_char_boundary(*end));
        failed.words.truncate(end.unwrap_or_default());
        self.stopped = self.stopped.take().filter(|stopped| stopped.digest != failed.digest);
        self.failed.push(failed);
        if self.failed.len() > MAX_FAILURES {
            let is_needed = |digest| Some(digest) == wanted || Some(digest) == self.digest;
            let oldest = self.failed.iter().position(|failed| !is_needed(failed.digest));
            self.failed.remove(oldest.unwrap_or_default());
        }
    }
}

/// What people may ask for.
impl Record {
    /// Everything that failed may be tried again; older marks are void.
    pub fn retry(&mut self) {
        self.retries += 1;
        // what begins next is a rollout of its own
        self.digest = None;
        self.failed.clear();
        self.stopped = None;
    }

    /// Makes a digest the way back.
    pub fn seal(&mut self, digest: Digest, number: u64) {
        (self.sealed, self.seals) = (Some(digest), number);
        self.failed.retain(|failed| failed.digest != digest);
        self.stopped = self.stopped.take().filter(|stopped| stopped.digest != digest);
    }

    /// Removes everything from these nodes, or from every node if none is named. Nodes that were asked for before stay asked for,
    /// unless other agents were installed since.
    pub fn ask_uninstall(&mut self, (daemon_set, template): &(String, i64), nodes: &BTreeSet<String>) {
        let is_same = |asked: &Uninstall| asked.daemon_set == *daemon_set && asked.template == *template;
        let before = self.uninstall.take().filter(is_same);
        let nodes = match before {
            Some(asked) if asked.nodes.is_empty() => BTreeSet::new(),
            Some(asked) if !nodes.is_empty() => &asked.nodes | nodes,
            _ => nodes.clone(),
        };
        self.uninstall = Some(Uninstall { daemon_set: daemon_set.clone(), template: *template, nodes });
    }

    /// Withdraws the request to remove everything: the agents apply again what is wanted.
    pub fn cancel_uninstall(&mut self) {
        self.uninstall = None;
        self.restored.clear();
    }

    /// Whether a person asked to remove everything from this node.
    pub fn must_restore(&self, node: &str) -> bool {
        self.uninstall.as_ref().is_some_and(|asked| asked.nodes.is_empty() || asked.nodes.contains(node))
    }

    /// Goes on without a node: its turn, what it stopped, and what it might still do.
    pub fn forget(&mut self, node: &str) {
        self.forgotten.insert(node.to_owned());
        self.free(node);
    }

    /// Ends a node's turn, and what it stopped.
    pub(super) fn free(&mut self, node: &str) {
        self.entry = self.entry.take().filter(|entry| entry.node != node);
        self.stopped = self.stopped.take().filter(|stopped| stopped.node != node);
    }
}
