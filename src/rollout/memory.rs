//! How long an agent has seen what. Time counts only while the API answers: between two answers that are far apart anything
//! may have happened, so such a gap counts as little.

use std::time::Duration;

use super::record::{Entry, Record};
use super::view::{Other, Scheduler, Waited};

/// Of a longer gap between two answers only this much counts: a little more than lies between two looks of an agent that waits.
pub const MAX_GAP: Duration = Duration::from_secs(35);

/// What was seen, and since when.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// Answered time so far, and the local clock at the last answer
    answered: Duration,
    last_answer: Option<Duration>,
    /// When the last write of this agent's own turn was answered
    own_write: Option<Duration>,
    turn: Since<Option<Entry>>,
    record: Since<Option<Record>>,
    /// The Lease's version
    version: Since<String>,
    health: Since<Vec<(String, bool)>>,
    members: Since<Vec<(String, bool)>>,
    /// With the process that has the turn: another one may do something else
    holder: Since<Option<(Scheduler, String, u64)>>,
    /// The holder's heartbeat when its turn was first seen
    heartbeat: Option<String>,
}

/// A value, and since when it is so.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Since<T> {
    value: T,
    since: Duration,
}

impl<T: PartialEq> Since<T> {
    /// Notes the value; says whether it is another than before.
    fn note(&mut self, value: T, now: Duration) -> bool {
        let is_news = self.value != value;
        if is_news {
            *self = Self { value, since: now };
        }
        is_news
    }
}

impl Memory {
    /// Notes an answer of the API at the local time `now`; gives how long everything has been as it is.
    pub fn note(&mut self, now: Duration, (version, record): (&str, &Record), others: &[Other]) -> Waited {
        let gap = self.last_answer.map_or(Duration::ZERO, |last| now.saturating_sub(last));
        self.answered += gap.min(MAX_GAP);
        self.last_answer = Some(now);
        let answered = self.answered;
        let holder = record.entry.as_ref().and_then(|entry| others.iter().find(|other| other.name == entry.node));
        self.record.note(Some(record.clone()), answered);
        self.version.note(version.to_owned(), answered);
        self.health.note(others.iter().map(|other| (other.name.clone(), other.is_healthy())).collect(), answered);
        let members = others.iter().filter(|other| other.etcd.runs);
        self.members.note(members.map(|other| (other.name.clone(), other.keeps_quorum())).collect(), answered);
        let of_entry = |entry: &Entry| Some((holder?.scheduler.clone(), entry.nonce.clone(), entry.number));
        self.holder.note(record.entry.as_ref().and_then(of_entry), answered);
        if self.turn.note(record.entry.clone(), answered) {
            self.heartbeat = holder.map(|holder| holder.heartbeat.clone());
        }
        let has_holder_reported = holder.is_some_and(|holder| Some(&holder.heartbeat) != self.heartbeat.as_ref());
        Waited {
            own_write: self.own_write.map(|at| now.saturating_sub(at)),
            turn: answered.saturating_sub(self.turn.since),
            record: answered.saturating_sub(self.record.since),
            lease: answered.saturating_sub(self.version.since),
            health: answered.saturating_sub(self.health.since),
            holder: answered.saturating_sub(self.holder.since),
            members: answered.saturating_sub(self.members.since),
            has_holder_reported,
        }
    }

    /// Notes that a write of this agent's own turn was sent at the local time `sent`, and was done.
    pub fn wrote_turn(&mut self, sent: Duration) {
        self.own_write = Some(sent);
    }

    /// This agent has no turn any more.
    pub fn gave_turn(&mut self) {
        self.own_write = None;
    }
}
