//! Pods that were just bound, whom the metrics do not show yet, and pods that are about to be bound.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::Herd;
use crate::snapshot::Index;

/// More recently bound pods than this are not counted.
const MAX_RECENT: usize = 50_000;
/// More pods than this are not expected anywhere.
const MAX_EXPECTED: usize = 2_000;
/// So long a pod counts on the node that got the most points, if no binding is seen.
pub const EXPECTED_FOR: Duration = Duration::from_secs(5);
/// Where more nodes than this share the most points, nobody knows where the pod goes.
const MAX_BEST: usize = 16;

/// Pods that were just bound or are about to be.
#[derive(Debug, Default)]
pub(super) struct Recent {
    /// UIDs of pods that are bound and do not run yet
    bound: HashSet<Box<str>>,
    /// By node: when pods were bound
    times: HashMap<Box<str>, Vec<Instant>>,
    number: usize,
    /// By UID: the nodes that got the most points, and when
    expected: HashMap<Box<str>, (Vec<Box<str>>, Instant)>,
}

impl Recent {
    /// Forgets bound pods that are not listed any more.
    pub fn retain(&mut self, is_there: impl Fn(&str) -> bool) {
        self.bound.retain(|uid| is_there(uid));
    }

    /// A pod is bound. `at` is none for pods whose binding is too long ago to count.
    pub fn bind(&mut self, uid: &str, node: &str, at: Option<Instant>) {
        self.expected.remove(uid);
        if !self.bound.insert(uid.into()) || self.number >= MAX_RECENT {
            return;
        }
        if let Some(at) = at {
            self.times.entry(node.into()).or_default().push(at);
            self.number += 1;
        }
    }

    /// A pod is gone, or runs.
    pub fn end(&mut self, uid: &str) {
        self.bound.remove(uid);
        self.expected.remove(uid);
    }

    /// A pod will probably be bound to one of these nodes, which got the most points.
    pub fn expect<'n>(&mut self, uid: &str, nodes: impl Iterator<Item = &'n str>, now: Instant) {
        self.expected.remove(uid);
        if uid.is_empty() || self.bound.contains(uid) {
            return;
        }
        let nodes: Vec<Box<str>> = nodes.take(MAX_BEST + 1).map(Into::into).collect();
        if nodes.is_empty() || nodes.len() > MAX_BEST {
            return;
        }
        if self.expected.len() >= MAX_EXPECTED {
            self.expected.retain(|_, (_, at)| now.saturating_duration_since(*at) < EXPECTED_FOR);
        }
        if self.expected.len() < MAX_EXPECTED {
            self.expected.insert(uid.into(), (nodes, now));
        }
    }

    /// How many pods were bound within the window; older ones are forgotten.
    pub fn forget_old(&mut self, window: Duration, now: Instant) -> usize {
        self.times.retain(|_, times| {
            times.retain(|bound| now.saturating_duration_since(*bound) < window);
            !times.is_empty()
        });
        self.expected.retain(|_, (_, at)| now.saturating_duration_since(*at) < EXPECTED_FOR);
        self.number = self.times.values().map(Vec::len).sum();
        self.number
    }

    /// By node: what its pods cost, without the pod with this UID.
    fn costs(&self, herd: &Herd, uid: &str, now: Instant) -> HashMap<&str, f64> {
        let mut costs: HashMap<&str, f64> = HashMap::with_capacity(self.times.len());
        for (node, times) in &self.times {
            let ages = times.iter().map(|bound| now.saturating_duration_since(*bound));
            let parts = ages.map(|age| 1.0 - age.as_secs_f64() / herd.window.as_secs_f64());
            costs.insert(node, herd.per_pod * parts.filter(|part| *part > 0.0).sum::<f64>());
        }
        for (own, (nodes, at)) in &self.expected {
            if &**own == uid || now.saturating_duration_since(*at) >= EXPECTED_FOR {
                continue;
            }
            #[expect(clippy::cast_precision_loss, reason = "at most MAX_BEST")]
            let part = herd.per_pod / nodes.len() as f64;
            for node in nodes {
                *costs.entry(node).or_default() += part;
            }
        }
        costs
    }

    /// What recently bound pods cost the nodes that are asked for; none if there are no such pods.
    pub fn penalties<'n>(
        &self,
        herd: &Herd,
        uid: &str,
        (index, asked): (&Index, &[u32]),
        name: impl Fn(usize) -> &'n str,
        now: Instant,
    ) -> Option<Vec<f64>> {
        if !herd.enabled || (self.times.is_empty() && self.expected.is_empty()) {
            return None;
        }
        let costs = self.costs(herd, uid, now);
        if costs.is_empty() {
            return None;
        }
        let mut known = vec![0.0; index.names().len()];
        let mut unknown: HashMap<&str, f64> = HashMap::new();
        for (node, cost) in costs {
            match usize::try_from(index.position(node)).ok().and_then(|at| known.get_mut(at)) {
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
