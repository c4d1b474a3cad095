//! What an agent knows when it decides: the record, itself, the other control-plane nodes, and how long it has seen what.

use std::time::Duration;

use super::record::{Failed, Record};
use crate::revision::Digest;

/// Everything that a decision is made of.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// What the Lease says
    pub record: &'a Record,
    /// This node
    pub me: &'a Me,
    /// The other control-plane nodes that exist
    pub others: &'a [Other],
    /// How long this agent has seen what
    pub waited: Waited,
    /// How long is long enough
    pub limits: WaitLimits,
    /// What follows a failure
    pub on_failure: OnFailure,
}

/// What follows when a digest fails somewhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnFailure {
    /// Every node that carries it goes back
    #[default]
    Back,
    /// The others keep what they have
    Stop,
}

/// This node, as its own agent knows it.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Me {
    /// Its name
    pub name: String,
    /// Whether the API lists it among the control-plane nodes: others do not know of a node that is not there
    pub is_listed: bool,
    /// This very process
    pub nonce: String,
    /// The agents' DaemonSet: its UID, and the generation of the pod template that this agent was started from
    pub daemon_set: (String, i64),
    /// Whether the DaemonSet has a newer template: another agent will come here, perhaps with other flags
    pub is_outdated: bool,
    /// What the sources ask for; none if nobody could say
    pub wanted: Option<Digest>,
    /// The revision that this would be here
    pub wanted_revision: Option<String>,
    /// Whether what is wanted is refused on this node
    pub is_blocked: bool,
    /// What was committed here last; none for the original
    pub in_place: Option<Digest>,
    /// Its revision
    pub revision: Option<String>,
    /// The number of that commit
    pub generation: u64,
    /// What became of it
    pub work: Work,
    /// Whether the target is not what was committed: somebody else wrote it
    pub is_overwritten: bool,
    /// Whether what is in place must be written differently, without being another digest
    pub is_outmoded: bool,
    /// Whether no commit may follow now, whatever it is for: the last one did not happen, or a brake holds
    pub backs_off: bool,
    /// Whether somebody else keeps rewriting the target: nothing of ours is put there for now
    pub is_fought_over: bool,
    /// A digest that is not begun here yet: it was taken back without blame a moment ago
    pub too_soon_for: Option<Digest>,
    /// The last digest that every node had proved and that ran here
    pub last_sealed: Option<Sealed>,
    /// What failed here, and how many retries there had been when it did
    pub marks: Vec<(Failed, u64)>,
    /// Whether what is wanted has changed a moment ago, and each change stops the API for a while
    pub may_want_more: bool,
    /// The most retries that this node knows of
    pub retries: u64,
    /// A failure that is not in the record yet, and how many retries there had been when it happened
    pub unreported: Option<(Failed, u64)>,
    /// Why the change of this turn was taken back without blame, if it was
    pub stopped: Option<String>,
    /// Whether the scheduler here is healthy
    pub is_healthy: bool,
    /// Whether it leads
    pub is_leader: bool,
    /// Whether the scheduler itself has not accepted yet what this node would commit next
    pub awaits_preflight: bool,
    /// What a change here does to the cluster's data
    pub etcd: OwnEtcd,
}

/// Whether a change takes a member of etcd away for a while.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OwnEtcd {
    /// Whether it restarts one with the scheduler
    pub restarts: bool,
    /// Whether a person has said that etcd may stand still meanwhile
    pub may_lose_quorum: bool,
}

/// The member of etcd on another node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct OtherEtcd {
    /// Whether there is one
    pub runs: bool,
    /// Whether somebody has cordoned the node, and may be about to take it away
    pub is_cordoned: bool,
}

/// A digest that every node had proved.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Sealed {
    /// The digest
    pub digest: Digest,
    /// The revision that carries it here
    pub revision: String,
    /// The how manieth it was
    pub number: u64,
    /// Whether it can be put back here: nobody else has changed the target since
    pub can_return: bool,
}

/// What became of the last commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Work {
    /// It is proven, or there is none
    Settled,
    /// It is being verified, or does not run
    Pending,
}

/// Another control-plane node, as the API shows it.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Other {
    /// Its name
    pub name: String,
    /// Whether the Node is Ready
    pub is_ready: bool,
    /// Changes with every report of its kubelet
    pub heartbeat: String,
    /// Its agent
    pub agent: AgentState,
    /// Whether it says that it does not get what is wanted: refused, or held by a person
    pub is_blocked: bool,
    /// Whether it says that it is in the middle of a change
    pub is_changing: bool,
    /// What it says that its sources ask for
    pub wanted: Option<Digest>,
    /// What it says that was proven there and is in place
    pub proven: Option<Digest>,
    /// Its scheduler
    pub scheduler: Scheduler,
    /// Whether the scheduler is part of a server, as on k3s, so that no pod shows it
    pub is_server: bool,
    /// Its member of etcd
    pub etcd: OtherEtcd,
}

/// The agent on another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum AgentState {
    /// It runs
    Running,
    /// The kubelet says that it has ended
    Ended,
    /// There is none, or nobody knows
    Unknown,
}

/// The scheduler on another node, as its kubelet shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Scheduler {
    /// Our revision that it runs with
    pub revision: Option<String>,
    /// The number of the commit
    pub generation: Option<u64>,
    /// The revision that failed there by its own fault, if this is what came back after it
    pub rolled_back_from: Option<String>,
    /// Which start of it this is
    pub instance: String,
    /// Whether it is healthy
    pub is_healthy: bool,
}

/// How long this agent has seen what, counted only while the API answers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Waited {
    /// Since the API answered that this agent's own last write of the turn was done; none if it has written none
    pub own_write: Option<Duration>,
    /// The turn as it is
    pub turn: Duration,
    /// The record as it is
    pub record: Duration,
    /// Since anybody wrote the Lease, whatever for
    pub lease: Duration,
    /// The health of the other schedulers as it is
    pub health: Duration,
    /// The scheduler of the node whose turn it is, as it is
    pub holder: Duration,
    /// The other members of etcd as they are
    pub members: Duration,
    /// Whether the kubelet of that node has reported since the turn was first seen
    pub has_holder_reported: bool,
}

/// How long is long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct WaitLimits {
    /// A commit must follow the answer to the write of the turn within this time
    pub go: Duration,
    /// A turn is renewed this often
    pub renew: Duration,
    /// A turn that was not renewed for so long is lost
    pub takeover: Duration,
    /// A scheduler that ran for so long runs
    pub settle: Duration,
    /// A lost turn is cleared after this time where nothing can be said of it
    pub clear: Duration,
    /// So long a node waits for others who could go first
    pub patience: Duration,
    /// So long every other member of etcd must have been there
    pub quorum: Duration,
}

impl Me {
    /// Whether a digest failed here, and nobody said since to try it again.
    pub(super) fn is_bad(&self, digest: Digest, record: &Record) -> bool {
        self.marks.iter().any(|(failed, retries)| failed.digest == digest && *retries >= record.retries)
    }
}

impl Other {
    /// Whether its scheduler serves, as far as the API shows it. A server serves where its Node is Ready, and nobody is about to
    /// take it away.
    pub(super) fn is_healthy(&self) -> bool {
        self.is_ready && if self.is_server { !self.etcd.is_cordoned } else { self.scheduler.is_healthy }
    }

    /// Whether its member of etcd is there and stays, as far as anybody can say.
    pub(super) fn keeps_quorum(&self) -> bool {
        self.is_ready && !self.etcd.is_cordoned
    }
}

impl View<'_> {
    /// Another node by its name.
    pub(super) fn other(&self, name: &str) -> Option<&Other> {
        self.others.iter().find(|other| other.name == name)
    }
}
