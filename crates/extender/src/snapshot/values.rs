//! Values of one policy: plain ones of nodes, and those of workloads on nodes.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;

use super::index::{Index, UNKNOWN};
use crate::config::{Policy, Prefer};
use crate::mapping::NodeBook;
use crate::select::join_key;
use crate::series::{self, SeriesError};

/// A series may be about all nodes of a zone: so many values may come of all series, 48 MB.
const MAX_VALUES: usize = 3_000_000;

/// What became of the series of a query.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Report {
    /// All of them
    pub series: usize,
    /// Without the label that names a node, or with a value of it that no node has
    pub unmapped: usize,
    /// Further series for a node that has one; the worse value counts
    pub duplicates: usize,
    /// NaN, infinite, or a histogram: counts as missing
    pub not_numbers: usize,
}

/// Values of one policy.
#[derive(Clone, Debug, Default)]
pub struct Values {
    /// By position: the node's value, NaN if missing
    pub plain: Vec<f64>,
    /// By workload: position and value
    workloads: HashMap<Box<str>, Vec<(u32, f64)>>,
    /// When they came; none if there was never an answer
    pub taken: Option<Instant>,
    /// What became of the series
    pub report: Report,
}

impl Values {
    /// Reads Prometheus' answers to the policy's query and, if there is one, to its plain query.
    pub fn read(
        policy: &Policy,
        bodies: &[&[u8]],
        book: &NodeBook,
        index: &mut Arc<Index>,
        now: Instant,
    ) -> Result<Self, SeriesError> {
        let mut labels = vec![policy.node.label.as_str()];
        labels.extend(policy.workload.keys().map(String::as_str));
        let mut values = Self { taken: Some(now), ..Self::default() };
        let mut positions = Vec::new();
        let mut number_of_values = 0;
        for body in bodies {
            series::read(body, &labels, &mut |found, value| {
                values.report.series += 1;
                if !value.is_finite() {
                    values.report.not_numbers += 1;
                    return;
                }
                positions.clear();
                if let Some(Some(node)) = found.first() {
                    book.find(&policy.node, node, |name| positions.push(Index::add(index, name)));
                }
                if positions.is_empty() {
                    values.report.unmapped += 1;
                }
                let key: Option<Vec<&str>> = found[1..].iter().map(Option::as_deref).collect();
                let key = key.filter(|key| !key.is_empty()).map(|key| join_key(key.into_iter()));
                number_of_values += positions.len();
                for position in positions.iter().filter(|_| number_of_values <= MAX_VALUES) {
                    values.add(policy.prefer, *position, key.as_deref(), value);
                }
            })?;
        }
        if number_of_values > MAX_VALUES {
            return Err(SeriesError::TooMany(number_of_values));
        }
        values.finish(policy.prefer);
        Ok(values)
    }

    fn add(&mut self, prefer: Prefer, position: u32, key: Option<&str>, value: f64) {
        match key {
            None => {
                let at = usize::try_from(position).unwrap_or(usize::MAX);
                if at >= self.plain.len() {
                    self.plain.resize(at.saturating_add(1), f64::NAN);
                }
                if self.plain[at].is_nan() {
                    self.plain[at] = value;
                } else {
                    self.report.duplicates += 1;
                    self.plain[at] = worse(prefer, self.plain[at], value);
                }
            }
            Some(key) => match self.workloads.get_mut(key) {
                Some(list) => list.push((position, value)),
                None => drop(self.workloads.insert(key.into(), vec![(position, value)])),
            },
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
            moved.collect()
        };
        let workloads = self.workloads.iter().map(|(key, values)| (key.clone(), list(values))).collect();
        Self { plain, workloads, taken: self.taken, report: self.report }
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
mod tests {
    use super::*;
    use crate::config::parse;

    fn vector(series: &[(&str, &str)]) -> String {
        let series = series.iter().map(|(labels, value)| format!(r#"{{"metric":{{{labels}}},"value":[1,"{value}"]}}"#));
        let series: Vec<_> = series.collect();
        format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{}]}}}}"#, series.join(","))
    }

    fn values(policy: &str, bodies: &[String]) -> (Values, Arc<Index>) {
        let text = format!("prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: a, query: a, {policy}}}\n");
        let config = parse("test.yaml".as_ref(), &text).expect("it is valid");
        let mut index = Arc::default();
        let bodies: Vec<&[u8]> = bodies.iter().map(String::as_bytes).collect();
        let read = Values::read(&config.policies[0], &bodies, &NodeBook::default(), &mut index, Instant::now());
        (read.expect("they are answers"), index)
    }

    #[test]
    fn of_duplicates_the_worse_counts_and_what_is_no_number_is_missing() {
        let body = vector(&[
            (r#""node":"a""#, "1"),
            (r#""node":"a""#, "3"),
            (r#""node":"b""#, "NaN"),
            (r#""node":"c""#, "+Inf"),
            (r#""other":"d""#, "1"),
            (r#""node":"e""#, "-1e3"),
        ]);
        let (read, index) = values("prefer: lower", std::slice::from_ref(&body));
        let of = |name: &str| read.plain.get(usize::try_from(index.position(name)).expect("small")).copied();
        assert_eq!((of("a"), of("b"), of("c"), of("e")), (Some(3.0), None, None, Some(-1000.0)));
        assert_eq!(read.report, Report { series: 6, unmapped: 1, duplicates: 1, not_numbers: 2 });
        assert!((values("prefer: higher", &[body]).0.plain[0] - 1.0).abs() < 1e-9);
        let huge = vector(&[(r#""node":"a","app":"x""#, "1.7e308"), (r#""node":"a","app":"y""#, "1.7e308")]);
        let (read, _) = values("prefer: lower, match: {app: labels.app}", &[huge]);
        assert!(read.plain.iter().all(|value| !value.is_infinite()), "a mean is a number or missing: {:?}", read.plain);
    }

    #[test]
    fn workloads_have_their_own_values_and_new_ones_the_plain_value_of_the_node() {
        let query = vector(&[
            (r#""node":"a","app":"x""#, "1"),
            (r#""node":"a","app":"y""#, "5"),
            (r#""node":"b","app":"x""#, "2"),
            (r#""node":"b""#, "9"),
            (r#""node":"c","app":"y""#, "7"),
        ]);
        let (read, index) = values("prefer: lower, match: {app: labels.app}", std::slice::from_ref(&query));
        let column = |key: Option<&str>| -> Vec<f64> {
            let column = read.column(key);
            ["a", "b", "c"].map(|name| column[usize::try_from(index.position(name)).expect("small")]).to_vec()
        };
        assert_eq!(column(Some("x")), [1.0, 2.0, 7.0], "c has no history of x");
        assert_eq!(column(Some("new")), [3.0, 9.0, 7.0], "a has no plain series: the mean of its workloads");
        assert_eq!(column(None), [3.0, 9.0, 7.0]);
        let plain = vector(&[(r#""node":"a""#, "100")]);
        let (read, index) = values("prefer: lower, match: {app: labels.app}, plainQuery: b", &[query, plain]);
        let of_new = read.column(Some("new"))[usize::try_from(index.position("a")).expect("small")];
        assert!((of_new - 100.0).abs() < 1e-9);
        assert_eq!(read.workloads(), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn values_are_stale_when_they_are_older_than_the_policy_allows() {
        let (read, _) = values("prefer: lower, staleAfter: 30s", &[vector(&[(r#""node":"a""#, "1")])]);
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, staleAfter: 30s}\n";
        let policy = &parse("test.yaml".as_ref(), text).expect("valid").policies[0];
        assert!(!read.is_stale(policy, Instant::now() + Duration::from_secs(30)));
        assert!(read.is_stale(policy, Instant::now() + Duration::from_secs(31)));
        assert!(Values::default().is_stale(policy, Instant::now()));
    }
}
