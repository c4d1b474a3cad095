//! Stage 5: reporting: the node's annotations, events, the probe endpoint, metrics, log lines. The only code
//! that writes to the cluster.

mod events;
mod extenders;
mod http;
mod metrics;
mod node;
mod reach;

use serde::Serialize;

pub use http::serve;
pub use node::Reporter;
pub use reach::Reach;

use crate::phase::{NodeState, Phase};
use crate::revision::Digest;
use crate::timestamp::Timestamp;

/// The reason of an agent that has not looked yet.
const STARTING: &str = "Starting";

/// Where this node is, for everybody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The phase and why
    pub node_state: NodeState,
    /// Since when
    pub since: Timestamp,
    /// The sources as they were seen last
    pub digest: Option<Digest>,
    /// Digest of the sources that were proven last and are still in place
    pub verified_digest: Option<Digest>,
    /// The revision that the manifest carries
    pub revision: Option<String>,
    /// Its generation
    pub generation: Option<u64>,
    /// How this host runs its scheduler
    pub platform: Option<&'static str>,
    /// The scheduler's release
    pub scheduler_version: Option<String>,
    /// The image of the running scheduler, by its digest, where a person asked for another one
    pub scheduler_image: Option<String>,
    /// Where the extenders are
    pub extenders: Vec<String>,
    /// What was counted
    pub counts: Counts,
    /// The rollout over all nodes, as far as it was seen
    pub rollout: Option<RolloutReport>,
    /// Whether nothing of ours is left here, so that the node shall say nothing of us any more
    pub is_uninstalled: bool,
    /// What happened once and is no phase, oldest first
    pub notices: Vec<Notice>,
}

/// The rollout as this node saw it last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RolloutReport {
    /// The last digest that every node had proven
    pub sealed: Option<Digest>,
    /// The node whose turn it is
    pub turn: Option<String>,
    /// How many digests failed
    pub failed: usize,
    /// Whether a person paused it
    pub is_paused: bool,
    /// What else was seen
    pub peers: PeerCounts,
}

/// What was seen of the cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PeerCounts {
    /// Control-plane nodes
    pub control_planes: usize,
    /// Schedulers that are ready
    pub schedulers: usize,
    /// Agents that run
    pub agents: usize,
}

/// Something that happened once and is no phase: it becomes an event of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Notice {
    /// Larger than that of every notice before; the first is 1
    pub id: u64,
    /// In CamelCase, for machines
    pub reason: String,
    /// In words
    pub message: String,
    /// Whether a person should look
    pub is_warning: bool,
}

/// How many notices are kept while the API does not take them.
const MAX_NOTICES: usize = 32;

/// What was counted since the agent began.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Passes of the loop
    pub turns: u64,
    /// Commits
    pub commits: u64,
    /// Passes that should have written and could not
    pub failures: u64,
    /// Revisions that were taken back
    pub rollbacks: u64,
    /// Changes of the target by others that were put right
    pub drifts: u64,
    /// Revisions that the scheduler refused in a preflight
    pub preflights_refused: u64,
    /// Commits that the kubelet did not notice
    pub nudges: u64,
    /// Writes of others that a commit replaced in the same instant
    pub overwritten: u64,
    /// Milliseconds from the last commit to its proof
    pub proof_millis: Option<u64>,
    /// When something was proven last
    pub proven: Option<u64>,
}

impl Report {
    /// Before anything was looked at.
    pub fn pending(now: Timestamp) -> Self {
        Self {
            node_state: NodeState::new(Phase::Pending, STARTING, "the agent has not looked at the host yet"),
            since: now,
            digest: None,
            verified_digest: None,
            revision: None,
            generation: None,
            platform: None,
            scheduler_version: None,
            scheduler_image: None,
            extenders: Vec::new(),
            counts: Counts::default(),
            rollout: None,
            is_uninstalled: false,
            notices: Vec::new(),
        }
    }

    /// Adds a notice; of too many the oldest go.
    pub fn notice(&mut self, reason: &str, message: impl Into<String>, is_warning: bool) {
        let id = self.notices.last().map_or(1, |last| last.id + 1);
        self.notices.push(Notice { id, reason: reason.to_owned(), message: message.into(), is_warning });
        let too_many = self.notices.len().saturating_sub(MAX_NOTICES);
        self.notices.drain(..too_many);
    }

    /// One line for people and machines; the fields are public (docs/operate/logs.md).
    pub fn log(&self) {
        let NodeState { phase, reason, message, .. } = &self.node_state;
        let revision = self.revision.as_deref().unwrap_or_default();
        let digest = self.digest.map(|digest| short(&digest)).unwrap_or_default();
        let (phase, generation) = (phase.name(), self.generation.unwrap_or_default());
        if self.node_state.phase.is_trouble() {
            tracing::warn!(phase, reason, revision, generation, digest, "{message}");
        } else {
            tracing::info!(phase, reason, revision, generation, digest, "{message}");
        }
    }
}

/// The beginning of a text, in bytes: so the API counts.
fn cut(text: &str, length: usize) -> String {
    if text.len() <= length { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(length)]) }
}

/// Enough of a digest to tell it from others.
pub(crate) fn short(digest: &Digest) -> String {
    digest.to_string().chars().take(12).collect()
}
