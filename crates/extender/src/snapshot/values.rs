//! Values of one policy: plain ones of nodes, and those of workloads on nodes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use schedpatch_service::log::shortened;
use tokio::time::Instant;

use super::index::{Index, NAME_BYTES, UNKNOWN};
use crate::config::{Policy, Prefer};
use crate::mapping::NodeBook;
use crate::select::join_key;
use crate::series::{self, SeriesError};

/// Values of all policies together, with the names of nodes, may take this much memory. While a policy's values are replaced,
/// both are there, so that twice as much may be in use for a moment.
pub const MAX_BYTES: usize = 48 * 1024 * 1024;
/// A series may be about all nodes of a zone: so many values may come of all series of a query.
const MAX_VALUES: usize = 3_000_000;
/// What a value of a workload takes while its list grows.
const VALUE_BYTES: usize = 2 * size_of::<(u32, f64)>();
/// What a workload takes beside its key and its values.
const WORKLOAD_BYTES: usize = 128;
/// What a position takes while the column grows.
const POSITION_BYTES: usize = 2 * size_of::<f64>();
/// So much of a label's value is kept for messages.
const MAX_SAMPLE_BYTES: usize = 100;

/// What became of the series of a query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All of them
    pub series: usize,
    /// Without the label that names a node, or with a value of it that no node has
    pub unmapped: usize,
    /// Further series for a node that has one; the worse value counts
    pub duplicates: usize,
    /// NaN, infinite, or a histogram: counts as missing
    pub not_numbers: usize,
    /// A value of the label that names nodes, rather one that no node has; none if no series has the label
    pub sample: Option<Box<str>>,
}

/// Values of one policy.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// By position: the node's value, NaN if missing
    pub plain: Vec<f64>,
    /// By workload: position and value, in the order of positions
    workloads: HashMap<Box<str>, Vec<(u32, f64)>>,
    /// When they came; none if there was never an answer
    pub taken: Option<Instant>,
    /// What became of the series
    pub report: Report,
    /// Memory that they take at most
    pub bytes: usize,
}

/// Reads Prometheus' answers to a policy's queries one after the other, so that no two of them must be in memory.
#[derive(Debug)]
pub struct Reader {
    policy: Policy,
    book: Arc<NodeBook>,
    values: Values,
    /// Values so far
    number: usize,
}

impl Reader {
    /// Nothing is read yet.
    pub fn new(policy: &Policy, book: &Arc<NodeBook>) -> Self {
        Self { policy: policy.clone(), book: Arc::clone(book), values: Values::default(), number: 0 }
    }

    /// Memory that is in use so far.
    pub fn bytes(&self) -> usize {
        self.values.bytes
    }

    /// Reads an answer. All of the policy's values, with new names of nodes, may take so many bytes.
    pub fn read(&mut self, body: &[u8], index: &mut Arc<Index>, most: usize) -> Result<(), SeriesError> {
        let Self { policy, book, values, number } = self;
        let mut labels = vec![policy.node.label.as_str()];
        labels.extend(policy.workload.keys().map(String::as_str));
        let mut positions = Vec::new();
        let names = index.names().len();
        let (mut is_too_much, mut is_unmapped) = (false, false);
        series::read(body, &labels, &mut |found, value| {
            values.report.series += 1;
            if is_too_much {
                return;
            }
            if !value.is_finite() {
                values.report.not_numbers += 1;
                return;
            }
            positions.clear();
            let node = found.first().and_then(Option::as_deref);
            if let Some(node) = node {
                book.find(&policy.node, node, |name| positions.push(Index::add(index, name)));
                if values.report.sample.is_none() || (positions.is_empty() && !is_unmapped) {
                    values.report.sample = Some(shortened(node, MAX_SAMPLE_BYTES).into());
                    is_unmapped = positions.is_empty();
                }
            }
            values.report.unmapped += usize::from(positions.is_empty());
            let key: Option<Vec<&str>> = found[1..].iter().map(Option::as_deref).collect();
            let key = key.filter(|key| !key.is_empty()).map(|key| join_key(key.into_iter()));
            *number += positions.len();
            let new_names = (index.names().len() - names) * NAME_BYTES;
            is_too_much = *number > MAX_VALUES || values.bytes + new_names > most;
            for position in positions.iter().filter(|_| !is_too_much) {
                values.add(policy.prefer, *position, key.as_deref(), value);
            }
        })?;
        if is_too_much { Err(SeriesError::TooMany(MAX_BYTES / 1024 / 1024)) } else { Ok(()) }
    }

    /// All answers are read.
    pub fn finish(mut self, now: Instant) -> Values {
        self.values.taken = Some(now);
        self.values.finish(self.policy.prefer);
        self.values
    }
}

impl Values {
    /// Reads Prometheus' answers to the policy's query and, if there is one, to its plain query.
    pub fn read(
        policy: &Policy,
        bodies: &[&[u8]],
        book: &Arc<NodeBook>,
        index: &mut Arc<Index>,
        now: Instant,
    ) -> Result<Self, SeriesError> {
        let mut reader = Reader::new(policy, book);
        bodies.iter().try_for_each(|body| reader.read(body, index, MAX_BYTES))?;
        Ok(reader.finish(now))
    }

    fn add(&mut self, prefer: Prefer, position: u32, key: Option<&str>, value: f64) {
        match key {
            None => {
                let at = usize::try_from(position).unwrap_or(usize::MAX);
                if at >= self.plain.len() {
                    self.bytes += (at.saturating_add(1) - self.plain.len()) * POSITION_BYTES;
                    self.plain.resize(at.saturating_add(1), f64::NAN);
                }
                if self.plain[at].is_nan() {
                    self.plain[at] = value;
                } else {
                    self.report.duplicates += 1;
                    self.plain[at] = worse(prefer, self.plain[at], value);
                }
            }
            Some(key) => {
                self.bytes += VALUE_BYTES;
                if let Some(list) = self.workloads.get_mut(key) {
                    list.push((position, value));
                } else {
                    self.bytes += WORKLOAD_BYTES + key.len();
                    self.workloads.insert(key.into(), vec![(position, value)]);
                }
            }
        }
    }

    /// Merges duplicates of workloads, and gives nodes without a plain value the mean of their workloads.
    fn finish(&mut self, prefer: Prefer) {
        let mut sums: HashMap<u32, (f64, f64)> = HashMap::new();
        let mut duplicates = 0;
        for list in self.workloads.values_mut() {
            list.sort_by_key(|(position, _)| *position);
            list.dedup_by(|later, first| {
                let is_same = later.0 == first.0;
                if is_same {
                    duplicates += 1;
                    first.1 = worse(prefer, first.1, later.1);
                }
                is_same
            });
            list.shrink_to_fit();
            for (position, value) in list.iter() {
                let sum = sums.entry(*position).or_default();
                *sum = (sum.0 + value, sum.1 + 1.0);
            }
        }
        for (position, (sum, count)) in sums {
            let has_own = usize::try_from(position).ok().and_then(|at| self.plain.get(at)).is_some_and(|v| !v.is_nan());
            let mean = sum / count;
            if !mean.is_finite() {
                // the sum is greater than any number
                self.report.not_numbers += 1;
            } else if !has_own {
                self.add(prefer, position, None, mean);
            }
        }
        self.report.duplicates += duplicates;
        self.plain.shrink_to_fit();
    }

    /// The same values after nodes moved to other positions.
    #[must_use]
    pub fn moved(&self, positions: &[u32]) -> Self {
        let to = |from: usize| positions.get(from).copied().filter(|to| *to != UNKNOWN);
        let mut plain = Vec::new();
        for (from, value) in self.plain.iter().enumerate() {
            if let Some(to) = to(from).and_then(|to| usize::try_from(to).ok()) {
                if to >= plain.len() {
                    plain.resize(to + 1, f64::NAN);
                }
                plain[to] = *value;
            }
        }
        let list = |list: &Vec<(u32, f64)>| {
            let moved = list.iter().filter_map(|(from, value)| Some((to(usize::try_from(*from).ok()?)?, *value)));
            let mut moved: Vec<(u32, f64)> = moved.collect();
            moved.sort_by_key(|(position, _)| *position);
            moved
        };
        let workloads = self.workloads.iter().map(|(key, values)| (key.clone(), list(values))).collect();
        Self { plain, workloads, taken: self.taken, report: self.report.clone(), bytes: self.bytes }
    }

    /// Whether they are too old to count, or were never there.
    pub fn is_stale(&self, policy: &Policy, now: Instant) -> bool {
        self.age(now).is_none_or(|age| age > policy.stale_after)
    }

    /// How old they are.
    pub fn age(&self, now: Instant) -> Option<Duration> {
        Some(now.saturating_duration_since(self.taken?))
    }

    /// How many workloads have values of their own.
    pub fn workloads(&self) -> usize {
        self.workloads.len()
    }

    /// The values of a workload's own, if there are some.
    pub fn workload(&self, key: Option<&str>) -> Option<&[(u32, f64)]> {
        self.workloads.get(key?).map(Vec::as_slice)
    }

    /// One value as a pod of this workload sees it, NaN if missing.
    pub fn value(&self, key: Option<&str>, position: u32) -> f64 {
        let plain = usize::try_from(position).ok().and_then(|at| self.plain.get(at)).copied();
        let Some(plain) = plain else { return f64::NAN };
        let list = self.workload(key).unwrap_or_default();
        list.binary_search_by_key(&position, |(own, _)| *own).map_or(plain, |at| list[at].1)
    }

    pub(super) fn column(&self, key: Option<&str>) -> Cow<'_, [f64]> {
        let Some(list) = key.and_then(|key| self.workloads.get(key)) else { return Cow::Borrowed(&self.plain) };
        let mut column = self.plain.clone();
        for (position, value) in list {
            if let Some(own) = usize::try_from(*position).ok().and_then(|at| column.get_mut(at)) {
                *own = *value;
            }
        }
        Cow::Owned(column)
    }
}

fn worse(prefer: Prefer, a: f64, b: f64) -> f64 {
    match prefer {
        Prefer::Lower => a.max(b),
        Prefer::Higher => a.min(b),
    }
}

#[cfg(test)]
mod tests;
