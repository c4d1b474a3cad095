//! Pods that a threshold keeps waiting, which nodes refused them, and when they may be tried again.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Config;
use crate::judge::{Clear, Refusals};
use crate::select::Choice;
use crate::snapshot::{Bits, Snapshot};

/// More waiting pods than this are not remembered: they are tried again when the scheduler itself does so.
pub(super) const MAX_WAITING: usize = 5000;
/// So much memory waiting pods may take, in all.
const MAX_BYTES: usize = 16 * 1024 * 1024;
/// The shortest and the longest pause between two attempts to have one pod tried again.
pub const PAUSES: [Duration; 2] = [Duration::from_secs(15), Duration::from_mins(5)];
/// After so long without an attempt the pause is the shortest one again.
const CALM: Duration = Duration::from_mins(10);
/// A list may be as old as this when it arrives: it may lack a pod that the scheduler has asked for since.
const LIST_AGE: Duration = Duration::from_secs(30);
/// The scheduler tries each waiting pod every five minutes. A pod that it has not asked for in this time is none.
const FORGET_AFTER: Duration = Duration::from_mins(30);
/// So many ended pods are remembered, since an answer may be late.
const MAX_ENDED: usize = 4096;

/// A waiting pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Namespace
    pub namespace: String,
    /// Name
    pub name: String,
    /// UID
    pub uid: String,
}

/// A pod that shall be tried again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wake {
    /// UID of the pod
    pub uid: Box<str>,
    /// Not before this moment
    pub due: Instant,
}

/// What a filter request said of a pod.
#[derive(Debug)]
pub struct Judged<'j> {
    /// What it was judged by
    pub snapshot: &'j Snapshot,
    /// Its policies
    pub choice: Choice,
    /// The nodes that were asked for
    pub asked: &'j [u32],
    /// Which of them refused it
    pub refusals: &'j Refusals,
}

#[derive(Debug)]
struct Entry {
    pod: Waiting,
    choice: Choice,
    /// What `choice` and `refused_by` are about; none if that is not known
    basis: Option<(Arc<Config>, u64)>,
    /// The nodes that refused it when the scheduler last asked for them, and have not recovered since
    refused_by: Bits,
    /// Whether it is on its way to be tried again
    is_queued: bool,
    /// When the scheduler asked last
    asked: Instant,
    /// When it was woken last, and the pause after that
    woken: Option<(Instant, Duration)>,
}

impl Entry {
    fn bytes(&self) -> usize {
        let keys: usize = self.choice.keys.iter().flatten().map(String::len).sum();
        let unknown: usize = self.choice.unknown.iter().map(String::len).sum();
        let names = self.pod.namespace.len() + self.pod.name.len() + self.pod.uid.len() * 2;
        size_of::<Self>()
            + names
            + keys
            + unknown
            + self.choice.keys.len() * size_of::<String>()
            + self.refused_by.bytes()
    }

    fn is_about(&self, snapshot: &Snapshot) -> bool {
        let same = |(config, generation): &(Arc<Config>, u64)| {
            Arc::ptr_eq(config, &snapshot.config) && *generation == snapshot.index.generation()
        };
        self.basis.as_ref().is_some_and(same)
    }

    fn not_before(&self) -> Option<Instant> {
        self.woken.map(|(at, pause)| at + pause)
    }
}

/// All of them, by UID.
#[derive(Debug, Default)]
pub(super) struct Waits {
    all: HashMap<Box<str>, Entry>,
    bytes: usize,
    /// UIDs of pods that are bound or gone
    ended: HashSet<Box<str>>,
    ended_in_order: VecDeque<Box<str>>,
}

impl Waits {
    pub fn len(&self) -> usize {
        self.all
            .values()
            .filter(|entry| entry.is_queued || entry.basis.is_none() || !entry.refused_by.is_empty())
            .count()
    }

    fn insert(&mut self, entry: Entry) {
        let uid: Box<str> = entry.pod.uid.as_str().into();
        self.remove(&uid);
        let bytes = entry.bytes();
        if self.all.len() < MAX_WAITING && self.bytes + bytes <= MAX_BYTES {
            self.bytes += bytes;
            self.all.insert(uid, entry);
        }
    }

    fn remove(&mut self, uid: &str) -> Option<Entry> {
        let entry = self.all.remove(uid)?;
        self.bytes = self.bytes.saturating_sub(entry.bytes());
        Some(entry)
    }

    fn retain(&mut self, is_kept: impl Fn(&Entry) -> bool) {
        self.all.retain(|_, entry| is_kept(entry));
        self.bytes = self.all.values().map(Entry::bytes).sum();
    }

    /// A pod is bound or gone: an answer about it that comes later does not count.
    pub fn end(&mut self, uid: &str) {
        self.remove(uid);
        if self.ended.insert(uid.into()) {
            self.ended_in_order.push_back(uid.into());
        }
        if self.ended_in_order.len() > MAX_ENDED
            && let Some(oldest) = self.ended_in_order.pop_front()
        {
            self.ended.remove(&oldest);
        }
    }

    /// A list came. Pods that are not in it are gone, unless the scheduler asked for them while it was on its way.
    pub fn listed(&mut self, is_there: impl Fn(&str) -> bool, now: Instant) {
        self.retain(|entry| is_there(&entry.pod.uid) || now.saturating_duration_since(entry.asked) < LIST_AGE);
    }

    /// A pod was refused before this program started; nobody knows by which node.
    pub fn inherit(&mut self, pod: Waiting, now: Instant) {
        if !self.all.contains_key(pod.uid.as_str()) {
            let (choice, refused_by) = Default::default();
            self.insert(Entry { pod, choice, basis: None, refused_by, is_queued: false, asked: now, woken: None });
        }
    }

    /// The scheduler asked for a pod.
    pub fn judged(&mut self, uid: &str, pod: impl FnOnce() -> Waiting, judged: Judged<'_>, now: Instant) {
        let known = self.remove(uid);
        if uid.is_empty() || self.ended.contains(uid) || (known.is_none() && judged.refusals.count == 0) {
            return;
        }
        let known = known.map(|entry| {
            // nodes that the scheduler did not ask for now may have refused it before
            let is_same = entry.is_about(judged.snapshot) && entry.choice == judged.choice;
            (entry.pod, if is_same { entry.refused_by } else { Bits::default() }, entry.woken)
        });
        let (pod, mut refused_by, woken) = known.unwrap_or_else(|| (pod(), Bits::default(), None));
        for (at, position) in judged.asked.iter().enumerate() {
            refused_by.set(*position, !judged.refusals.passes(at));
        }
        let basis = Some((Arc::clone(&judged.snapshot.config), judged.snapshot.index.generation()));
        // whatever was on its way, the scheduler has just tried it
        self.insert(Entry { pod, choice: judged.choice, basis, refused_by, is_queued: false, asked: now, woken });
    }

    /// The pods to be tried again: a node that refused them exceeds no threshold of theirs any more, or nobody knows what
    /// refused them, once the thresholds that may refuse them now have values. Each recovery counts once.
    pub fn recovered(&mut self, snapshot: &Snapshot, now: Instant) -> Vec<Wake> {
        self.retain(|entry| now.saturating_duration_since(entry.asked) < FORGET_AFTER);
        let mut clear = Clear::new(snapshot, now);
        let knows_thresholds = snapshot.knows_thresholds(now);
        let mut woken = Vec::new();
        for (uid, entry) in self.all.iter_mut().filter(|(_, entry)| !entry.is_queued) {
            if entry.is_about(snapshot) {
                if entry.refused_by.is_empty() {
                    continue;
                }
                let nodes = clear.nodes(&entry.choice);
                if !entry.refused_by.meets(&nodes) {
                    continue;
                }
                entry.refused_by.subtract(&nodes);
            } else if !knows_thresholds {
                // it would be bound before anybody knows which nodes exceed them
                continue;
            } else {
                entry.basis = Some((Arc::clone(&snapshot.config), snapshot.index.generation()));
                // without policies that are known no node's recovery counts, until the scheduler asks
                entry.refused_by = Bits::default();
            }
            entry.is_queued = true;
            woken.push(Wake { uid: uid.clone(), due: entry.not_before().map_or(now, |due| due.max(now)) });
        }
        self.bytes = self.all.values().map(Entry::bytes).sum();
        woken
    }

    /// The pod to be woken now, if it still waits for that. The pause until the next time begins.
    pub fn begin_wake(&mut self, uid: &str, now: Instant) -> Option<Waiting> {
        let entry = self.all.get_mut(uid).filter(|entry| entry.is_queued)?;
        entry.is_queued = false;
        let pause = match entry.woken {
            Some((at, pause)) if now.saturating_duration_since(at) < CALM => (pause * 2).min(PAUSES[1]),
            _ => PAUSES[0],
        };
        entry.woken = Some((now, pause));
        Some(entry.pod.clone())
    }

    /// Whether a pod still waits that is woken once more after a failure.
    pub fn resume_wake(&mut self, uid: &str) -> bool {
        let entry = self.all.get_mut(uid);
        entry.map(|entry| entry.is_queued = false).is_some()
    }

    /// Nobody woke the pod: the next round queues it again.
    pub fn wake_failed(&mut self, uid: &str) {
        if let Some(entry) = self.all.get_mut(uid) {
            (entry.is_queued, entry.basis) = (false, None);
        }
    }

    pub fn holds(&self, uid: &str) -> bool {
        self.all.contains_key(uid)
    }

    pub fn clear(&mut self) {
        self.all.clear();
        self.bytes = 0;
    }
}
