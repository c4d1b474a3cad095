//! Pods that were just bound, whom the metrics do not show yet, and pods that are about to be bound.
//!
//! What pods cost a node is a sum over its pods that changes with time only by their number, so that no request looks at single
//! pods: `Σ (1 − age / window) = pods − (pods × now − Σ time of binding) / window`.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use foldhash::fast::RandomState;
use tokio::time::Instant;

use crate::config::Herd;
use crate::snapshot::{Index, UNKNOWN};

/// More recently bound pods than this are not counted.
const MAX_RECENT: usize = 50_000;
/// More pods than this are not expected anywhere.
const MAX_EXPECTED: usize = 2_000;
/// So long a pod counts on the node that got the most points, if no binding is seen.
pub const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Where more nodes than this share the most points, nobody knows where the pod goes.
const MAX_BEST: usize = 16;

/// What the pods of a node add up to.
#[derive(Debug, Default)]
struct Load {
    /// Recently bound pods
    bound: u32,
    /// Sum of the times at which they were bound, in seconds
    times: f64,
    /// Pods that may be bound here
    expected: u32,
    /// Sum of the parts of them that count here
    parts: f64,
    /// Where the node is in an index of this generation
    position: Option<(u64, u32)>,
}

impl Load {
    fn is_empty(&self) -> bool {
        self.bound == 0 && self.expected == 0
    }

    fn cost(&self, herd: &Herd, now: f64) -> f64 {
        let bound = f64::from(self.bound);
        let recent = bound - (bound * now - self.times) / herd.window.as_secs_f64();
        herd.per_pod * (recent + self.parts).max(0.0)
    }

    /// Within a generation names are only added, so a position that is known stays.
    fn position(&mut self, index: &Index, name: &str) -> u32 {
        match self.position {
            Some((generation, position)) if generation == index.generation() => position,
            _ => {
                let position = index.position(name);
                self.position = (position != UNKNOWN).then_some((index.generation(), position));
                position
            }
        }
    }
}

/// A pod that will probably be bound to one of these nodes.
#[derive(Debug)]
struct Expected {
    nodes: Vec<Arc<str>>,
    at: Instant,
}

/// Pods that were just bound or are about to be.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// UIDs of pods that are bound and do not run yet
    bound: HashSet<Box<str>, RandomState>,
    /// Nodes with pods that count
    nodes: HashMap<Arc<str>, Load, RandomState>,
    /// By time of the binding: the nodes of the pods
    times: BTreeMap<Instant, Vec<Arc<str>>>,
    number: usize,
    /// By UID: pods that got points
    expected: HashMap<Box<str>, Expected, RandomState>,
    /// The same in the order of time; some were expected anew or are bound meanwhile
    expected_in_order: VecDeque<(Instant, Box<str>)>,
    /// What times are measured from
    epoch: Option<Instant>,
}

impl Recent {
    /// Forgets bound pods that are not listed any more.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.bound.retain(|uid| is_there(uid));
    }

    /// A pod is bound. `at` is none for pods whose binding is too long ago to count.
    pub fn bind(&mut self, uid: &str, node: &str, at: Option<Instant>) {
        self.take_expected(uid);
        if !self.bound.insert(uid.into()) || self.number >= MAX_RECENT {
            return;
        }
        if let Some(at) = at {
            let seconds = self.seconds(at);
            let (name, load) = self.load(node);
            load.bound += 1;
            load.times += seconds;
            self.times.entry(at).or_default().push(name);
            self.number += 1;
        }
    }

    /// A pod is gone, or runs.
    pub fn end(&mut self, uid: &str) {
        self.bound.remove(uid);
        self.take_expected(uid);
    }

    /// A pod will probably be bound to one of these nodes, which got the most points.
    pub fn expect<'n>(&mut self, uid: &str, nodes: impl Iterator<Item = &'n str>, now: Instant) {
        self.take_expected(uid);
        if uid.is_empty() || self.bound.contains(uid) {
            return;
        }
        let nodes: Vec<&str> = nodes.take(MAX_BEST + 1).collect();
        if nodes.is_empty() || nodes.len() > MAX_BEST {
            return;
        }
        self.forget_expected(now);
        if self.expected.len() < MAX_EXPECTED {
            let nodes = nodes.into_iter().map(|node| self.load(node).0).collect();
            self.put_expected(uid.into(), Expected { nodes, at: now });
            self.expected_in_order.push_back((now, uid.into()));
        }
    }

    /// How many pods were bound within the window; older ones are forgotten.
    pub fn forget_old(&mut self, window: Duration, now: Instant) -> usize {
        while let Some(oldest) = self.times.first_entry()
            && now.saturating_duration_since(*oldest.key()) >= window
        {
            let (at, nodes) = oldest.remove_entry();
            let seconds = self.seconds(at);
            self.number -= nodes.len();
            for node in nodes {
                self.change(&node, |load| {
                    load.bound -= 1;
                    load.times = if load.bound == 0 { 0.0 } else { load.times - seconds };
                });
            }
        }
        self.forget_expected(now);
        self.number
    }

    /// Pods that were not seen bound in time count no more.
    fn forget_expected(&mut self, now: Instant) {
        while let Some((at, uid)) =
            self.expected_in_order.pop_front_if(|(at, _)| now.saturating_duration_since(*at) >= EXPECTED_FOR)
        {
            if self.expected.get(&uid).is_some_and(|expected| expected.at == at) {
                self.take_expected(&uid);
            }
        }
    }

    fn take_expected(&mut self, uid: &str) -> Option<(Box<str>, Expected)> {
        let (uid, expected) = self.expected.remove_entry(uid)?;
        let part = part(&expected);
        for node in &expected.nodes {
            self.change(node, |load| {
                load.expected -= 1;
                load.parts = if load.expected == 0 { 0.0 } else { load.parts - part };
            });
        }
        Some((uid, expected))
    }

    fn put_expected(&mut self, uid: Box<str>, expected: Expected) {
        let part = part(&expected);
        for node in &expected.nodes {
            let (_, load) = self.load(node);
            load.expected += 1;
            load.parts += part;
        }
        self.expected.insert(uid, expected);
    }

    /// A node's name and what its pods add up to.
    fn load(&mut self, node: &str) -> (Arc<str>, &mut Load) {
        let known = self.nodes.get_key_value(node).map(|(name, _)| Arc::clone(name));
        let name = known.unwrap_or_else(|| node.into());
        (Arc::clone(&name), self.nodes.entry(name).or_default())
    }

    /// Changes what a node's pods add up to; a node without pods is dropped, and rounding errors with it.
    fn change(&mut self, node: &str, change: impl FnOnce(&mut Load)) {
        let Some(load) = self.nodes.get_mut(node) else { return };
        change(load);
        if load.is_empty() {
            self.nodes.remove(node);
        }
    }

    /// A moment as a number; pods that were listed may have been bound before the epoch.
    fn seconds(&mut self, at: Instant) -> f64 {
        let epoch = *self.epoch.get_or_insert(at);
        match at.checked_duration_since(epoch) {
            Some(after) => after.as_secs_f64(),
            None => -epoch.saturating_duration_since(at).as_secs_f64(),
        }
    }

    /// What recently bound pods cost the nodes that are asked for; none if there are no such pods.
    pub fn penalties<'n>(
        &mut self,
        herd: &Herd,
        uid: &str,
        (index, asked): (&Index, &[u32]),
        name: impl Fn(usize) -> &'n str,
        now: Instant,
    ) -> Option<Vec<f64>> {
        if !herd.enabled {
            return None;
        }
        self.forget_old(herd.window, now);
        // a pod does not count against itself
        let own = self.take_expected(uid);
        let costs = self.costs(herd, (index, asked), name, now);
        if let Some((uid, expected)) = own {
            self.put_expected(uid, expected);
        }
        costs
    }

    fn costs<'n>(
        &mut self,
        herd: &Herd,
        (index, asked): (&Index, &[u32]),
        name: impl Fn(usize) -> &'n str,
        now: Instant,
    ) -> Option<Vec<f64>> {
        if self.nodes.is_empty() {
            return None;
        }
        let now = self.seconds(now);
        let mut known = vec![0.0; index.names().len()];
        let mut unknown: HashMap<&str, f64, RandomState> = HashMap::default();
        for (node, load) in &mut self.nodes {
            let (position, cost) = (load.position(index, node), load.cost(herd, now));
            match usize::try_from(position).ok().and_then(|at| known.get_mut(at)) {
                Some(place) => *place = cost,
                None => drop(unknown.insert(node, cost)),
            }
        }
        let cost = |(at, position): (usize, &u32)| {
            let known = usize::try_from(*position).ok().and_then(|position| known.get(position)).copied();
            let unknown = || if unknown.is_empty() { None } else { unknown.get(name(at)).copied() };
            known.or_else(unknown).unwrap_or(0.0)
        };
        Some(asked.iter().enumerate().map(cost).collect())
    }
}

/// The part of an expected pod that counts on each of its nodes.
fn part(expected: &Expected) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "at most MAX_BEST")]
    let part = 1.0 / expected.nodes.len() as f64;
    part
}
