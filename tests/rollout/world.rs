//! The simulated cluster: a Lease with compare-and-swap, nodes with a file, a kubelet and a scheduler, and a clock.

use std::time::Duration;

use schedpatch::revision::Digest;
use schedpatch::rollout::{AgentState, Failed, Memory, Other, OtherEtcd, Record, Scheduler, WaitLimits};

use crate::agent::Next;

pub const LIMITS: WaitLimits = WaitLimits {
    go: Duration::from_secs(2),
    renew: Duration::from_secs(10),
    takeover: Duration::from_mins(1),
    settle: Duration::from_secs(10),
    clear: Duration::from_mins(1),
    patience: Duration::from_mins(2),
    quorum: Duration::from_mins(1),
};

/// So long a scheduler takes to start.
const START: Duration = Duration::from_secs(3);

/// What somebody broke on purpose, to see that it is noticed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    None,
    /// Writes replace whatever is there
    NoCompareAndSwap,
    /// The turn is not written down
    NoEntry,
    /// A new process takes the turn of the one before for its own
    NonceIgnored,
    /// What was read some time ago is written as if it were new
    StaleReadTrusted,
    /// What a node proved itself is its way back
    NoSealing,
    /// A commit may follow its turn at any time
    NoHaste,
    /// A node does not see that its way back cannot be written any more
    WayBackAssumed,
}

/// What a digest does on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Quality {
    Good,
    /// The scheduler ends at once
    Bad,
    /// The scheduler runs for a moment
    Late,
}

/// A text of the target.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Text {
    pub digest: Option<Digest>,
    pub generation: u64,
    pub rolled_back_from: Option<Digest>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Health {
    Starting,
    Healthy,
    Failing,
}

/// How far the last commit is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    Proven,
    Trial,
    GoingBack,
}

/// What the node's agents remember on the host.
#[derive(Clone, Debug)]
pub struct Journal {
    pub in_place: Option<Digest>,
    pub generation: u64,
    pub phase: Phase,
    pub rolled_back_from: Option<Digest>,
    pub sealed: Option<(Digest, u64)>,
    /// The originals on which what is in place and what is sealed were committed
    pub committed_on: u32,
    pub sealed_on: u32,
    pub marks: Vec<(Failed, u64)>,
    pub retries: u64,
    pub unreported: Option<(Failed, u64)>,
}

/// A running agent.
#[derive(Clone, Debug)]
pub struct Process {
    pub nonce: String,
    pub template: i64,
    pub memory: Memory,
    pub next: Next,
    pub stalled_until: Duration,
    /// What it read last
    pub seen: Option<(u64, Record, Vec<Other>)>,
    /// A process that the kubelet will end soon
    pub ends_at: Option<Duration>,
}

#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    /// Which original others have written: a text that was committed on another one cannot be put back
    pub original: u32,
    pub file: Text,
    pub running: Text,
    pub health: Health,
    pub health_since: Duration,
    /// Whether a commit with a turn is not yet seen to run
    pub is_changing: bool,
    /// Whether this is not by a turn: a repair without the API, or a scheduler that restarted by itself
    pub is_exempt: bool,
    pub journal: Journal,
    /// Who holds the host's lock
    pub lock: Option<String>,
    pub processes: Vec<Process>,
    pub agent_has_api: bool,
    pub kubelet_has_api: bool,
    pub is_lost: bool,
    pub is_deleted: bool,
    /// As the API shows it
    pub shown: Other,
    pub beats: u64,
    /// Whether its annotations show that something was begun there
    pub has_traces: bool,
}

pub struct World {
    pub bug: Bug,
    pub record: Record,
    pub version: u64,
    /// Whether the Lease has no record at all
    pub is_record_lost: bool,
    pub nodes: Vec<Node>,
    pub wanted: usize,
    pub template: i64,
    pub quality: Vec<Vec<Quality>>,
    /// By digest: whether it was ever bad on some node
    pub was_bad: Vec<bool>,
    pub blocked: Vec<bool>,
    pub leader: usize,
    pub clock: Duration,
    pub nonces: u64,
    pub commits: u64,
    pub failures: u64,
    pub takeovers: u64,
    /// Once in so many turns something happens to the agent that has just taken it
    pub rest: usize,
    pub log: Vec<String>,
}

/// The digests that sources may ask for.
pub fn digest(number: usize) -> Digest {
    Digest::of_bytes(&[u8::try_from(number).expect("few")])
}

/// The revision that carries a digest.
pub fn revision(digest: Digest) -> String {
    digest.to_string()[..12].to_owned()
}

impl World {
    pub fn new(bug: Bug, nodes: usize, quality: Vec<Vec<Quality>>) -> Self {
        let was_bad = quality.iter().map(|nodes| nodes.iter().any(|one| *one != Quality::Good)).collect();
        let mut world = Self {
            bug,
            was_bad,
            record: Record::default(),
            version: 1,
            is_record_lost: true,
            nodes: (0..nodes).map(|number| Node::new(format!("cp{}", number + 1))).collect(),
            wanted: 0,
            template: 1,
            quality,
            blocked: vec![false; nodes],
            leader: 0,
            clock: Duration::ZERO,
            nonces: 0,
            commits: 0,
            failures: 0,
            takeovers: 0,
            rest: 6,
            log: Vec::new(),
        };
        for number in 0..nodes {
            world.start_agent(number);
        }
        world
    }

    pub fn note(&mut self, line: impl std::fmt::Display) {
        self.log.push(format!("{:7.1}s  {line}", self.clock.as_secs_f64()));
    }

    pub fn start_agent(&mut self, number: usize) {
        self.nonces += 1;
        let process = Process {
            nonce: format!("p{}", self.nonces),
            template: self.template,
            memory: Memory::default(),
            next: Next::Look,
            stalled_until: Duration::ZERO,
            seen: None,
            ends_at: None,
        };
        self.nodes[number].processes.push(process);
    }

    /// A person's write: against what is there.
    pub fn write(&mut self, change: impl FnOnce(&mut Record)) {
        if std::mem::take(&mut self.is_record_lost) {
            self.record.is_rebuilt = self.has_traces();
        }
        change(&mut self.record);
        self.version += 1;
    }

    /// Whether a Lease without a record has lost it: a node shows that something was begun. Otherwise the cluster is new.
    pub fn has_traces(&self) -> bool {
        self.nodes.iter().filter(|node| !node.is_deleted).any(|node| node.has_traces)
    }

    /// The kubelet of a node does its work: text, scheduler, report.
    pub fn kubelet(&mut self, number: usize) {
        let clock = self.clock;
        let quality = self.quality.clone();
        let node = &mut self.nodes[number];
        if node.is_lost {
            return;
        }
        let before = node.health;
        if node.running == node.file {
            let quality = node.running.digest.map_or(Quality::Good, |digest_there| {
                (0..quality.len())
                    .find(|one| digest(*one) == digest_there)
                    .map_or(Quality::Good, |one| quality[one][number])
            });
            let after = clock.saturating_sub(node.health_since);
            node.health = match (node.health, quality) {
                (Health::Starting, _) if after < START => Health::Starting,
                (Health::Starting, Quality::Bad) => Health::Failing,
                // whoever waits for better times tries again and again
                (Health::Failing, Quality::Good) => Health::Starting,
                (Health::Starting, _) => Health::Healthy,
                (Health::Healthy, Quality::Late) if after >= Duration::from_secs(4) && after < LIMITS.settle => {
                    Health::Failing
                }
                (health, _) => health,
            };
        } else {
            node.running = node.file.clone();
            node.health = Health::Starting;
        }
        if before != node.health {
            node.health_since = clock;
        }
        self.report_of_kubelet(number);
        self.elect();
    }

    fn report_of_kubelet(&mut self, number: usize) {
        let node = &mut self.nodes[number];
        node.beats += 1;
        node.shown.is_ready = node.kubelet_has_api;
        if !node.kubelet_has_api {
            node.shown.agent = AgentState::Unknown;
            return;
        }
        node.shown.heartbeat = node.beats.to_string();
        node.shown.agent = if node.processes.is_empty() { AgentState::Ended } else { AgentState::Running };
        node.shown.scheduler = Scheduler {
            revision: node.running.digest.map(revision),
            generation: node.running.digest.map(|_| node.running.generation),
            rolled_back_from: node.running.rolled_back_from.map(revision),
            instance: node.health_since.as_millis().to_string(),
            is_healthy: node.health == Health::Healthy,
        };
    }

    fn elect(&mut self) {
        let can = |node: &Node| node.health == Health::Healthy && node.kubelet_has_api && !node.is_lost;
        if !self.nodes.get(self.leader).is_some_and(can)
            && let Some(next) = self.nodes.iter().position(can)
        {
            self.leader = next;
        }
    }

    /// Changes that were seen to run are over.
    pub fn end_changes(&mut self) {
        for node in &mut self.nodes {
            let lasted = self.clock.saturating_sub(node.health_since) >= LIMITS.settle;
            if node.running == node.file && node.health == Health::Healthy && lasted {
                (node.is_changing, node.is_exempt) = (false, false);
            }
        }
    }

    /// Schedulers in change by a turn: never more than one.
    pub fn in_change(&self) -> Vec<&str> {
        let changing =
            self.nodes.iter().filter(|node| node.is_changing && !node.is_exempt && !node.is_lost && !node.is_deleted);
        changing.map(|node| node.name.as_str()).collect()
    }
}

impl Node {
    fn new(name: String) -> Self {
        let shown = Other {
            name: name.clone(),
            is_ready: true,
            heartbeat: "0".to_owned(),
            agent: AgentState::Unknown,
            is_blocked: false,
            is_changing: false,
            wanted: None,
            proven: None,
            scheduler: Scheduler { is_healthy: true, ..Scheduler::default() },
            is_server: false,
            etcd: OtherEtcd::default(),
        };
        Self {
            name,
            original: 0,
            file: Text::default(),
            running: Text::default(),
            health: Health::Healthy,
            health_since: Duration::ZERO,
            is_changing: false,
            is_exempt: false,
            journal: Journal {
                in_place: None,
                generation: 0,
                phase: Phase::Proven,
                rolled_back_from: None,
                sealed: None,
                committed_on: 0,
                sealed_on: 0,
                marks: Vec::new(),
                retries: 0,
                unreported: None,
            },
            lock: None,
            processes: Vec::new(),
            agent_has_api: true,
            kubelet_has_api: true,
            is_lost: false,
            is_deleted: false,
            shown,
            beats: 0,
            has_traces: false,
        }
    }
}
