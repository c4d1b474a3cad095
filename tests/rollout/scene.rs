//! What an agent sees when it decides.

use schedpatch::revision::Digest;
use schedpatch::rollout::{
    AgentState, ChangeKind, Entry, Failed, Me, NextStep, OnFailure, Other, OtherEtcd, OwnEtcd, Record, Scheduler,
    Sealed, View, Waited, Waiting, Why, Work, step,
};
use schedpatch::timestamp::Timestamp;

use crate::world::{LIMITS, digest, revision};

pub const OLD: usize = 0;
pub const NEW: usize = 1;

/// Three nodes that run `OLD`, sealed, and want `NEW`.
pub struct Scene {
    pub record: Record,
    pub me: Me,
    pub others: Vec<Other>,
    pub waited: Waited,
    pub on_failure: OnFailure,
}

pub fn scene() -> Scene {
    let (old, new) = (digest(OLD), digest(NEW));
    let me = Me {
        name: "cp1".to_owned(),
        is_listed: true,
        nonce: "mine".to_owned(),
        daemon_set: ("set".to_owned(), 1),
        is_outdated: false,
        wanted: Some(new),
        wanted_revision: Some(revision(new)),
        is_blocked: false,
        in_place: Some(old),
        revision: Some(revision(old)),
        generation: 4,
        work: Work::Settled,
        is_overwritten: false,
        is_outmoded: false,
        backs_off: false,
        is_fought_over: false,
        too_soon_for: None,
        may_want_more: false,
        last_sealed: Some(Sealed { digest: old, revision: revision(old), number: 1, can_return: true }),
        marks: Vec::new(),
        retries: 0,
        unreported: None,
        stopped: None,
        is_healthy: true,
        is_leader: false,
        awaits_preflight: false,
        etcd: OwnEtcd::default(),
    };
    let other = |name: &str| Other {
        name: name.to_owned(),
        is_ready: true,
        heartbeat: "1".to_owned(),
        agent: AgentState::Running,
        is_blocked: false,
        is_changing: false,
        wanted: Some(new),
        proven: Some(old),
        scheduler: Scheduler {
            revision: Some(revision(old)),
            generation: Some(4),
            rolled_back_from: None,
            instance: "first".to_owned(),
            is_healthy: true,
        },
        is_server: false,
        etcd: OtherEtcd::default(),
    };
    let record = Record { digest: Some(old), sealed: Some(old), seals: 1, ..Record::default() };
    Scene {
        record,
        me,
        others: vec![other("cp2"), other("cp3")],
        waited: Waited::default(),
        on_failure: OnFailure::Back,
    }
}

impl Scene {
    pub fn step(&self) -> NextStep {
        let Self { record, me, others, waited, .. } = self;
        step(
            &View { record, me, others, waited: *waited, limits: LIMITS, on_failure: self.on_failure },
            Timestamp::from_unix(0),
        )
    }

    pub fn waits(&self) -> Waiting {
        match self.step() {
            NextStep::Wait(waiting) => waiting,
            step => panic!("it does not wait: {step:?}"),
        }
    }

    #[track_caller]
    pub fn writes(&self, expected: Why) -> Record {
        match self.step() {
            NextStep::Write(record, why) if why == expected => *record,
            step => panic!("it does not write {expected:?}: {step:?}"),
        }
    }

    /// It is the turn of this node, for what is wanted.
    pub fn with_turn_of(mut self, node: &str, nonce: &str) -> Self {
        let entry = Entry {
            node: node.to_owned(),
            nonce: nonce.to_owned(),
            change: ChangeKind::New,
            digest: Some(digest(NEW)),
            revision: Some(revision(digest(NEW))),
            number: 1,
            generation: 5,
            renewed: 0,
        };
        self.record.entry = Some(entry);
        self
    }

    /// It was the turn of `cp2`, and nobody renews it.
    pub fn with_lost_turn(self) -> Self {
        let mut scene = self.with_turn_of("cp2", "theirs");
        scene.waited =
            Waited { turn: LIMITS.takeover, holder: LIMITS.clear, has_holder_reported: true, ..scene.waited };
        scene
    }
}

pub fn failed(of: Digest) -> Failed {
    Failed { digest: of, node: "cp1".to_owned(), words: "it ended".to_owned(), since: Timestamp::from_unix(0) }
}
