//! Asks Prometheus in the background and publishes what is known. Nobody waits for it.

use std::sync::Arc;
use std::time::Duration;

use hyper::body::Bytes;
use schedpatch_service::log::shortened;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::config::{Config, Policy};
use crate::mapping::NodeBook;
use crate::metrics as m;
use crate::nodes::Nodes;
use crate::pods::Waiting;
use crate::prometheus::Client;
use crate::snapshot::{Index, Snapshot, Values};
use crate::state::State;

/// The first round waits this long for the list of nodes, where series are mapped by more than names.
const NODES_TIMEOUT: Duration = Duration::from_secs(10);
/// Answers from this size on are read beside the loop, so that no request of the scheduler waits for it.
const LARGE_ANSWER: usize = 256 * 1024;
/// A changed file counts after this time, even if its queries are not answered yet.
const ADOPT_AFTER: Duration = Duration::from_secs(1);
/// So long a reason may be: Prometheus or something in its place may send any text.
const MAX_FAILURE_BYTES: usize = 500;
/// Names of gone nodes are dropped when there are so many more names than nodes.
const SPARE_NAMES: usize = 1024;

/// Asks again and again.
#[derive(Debug)]
pub struct Poller {
    /// Shared state
    pub state: Arc<State>,
    /// Nodes, for mappings
    pub nodes: Arc<Nodes>,
    /// The configuration, which may change
    pub config: watch::Receiver<Arc<Config>>,
    /// Gets the pods that shall be tried again
    pub woken: mpsc::UnboundedSender<Vec<Waiting>>,
}

impl Poller {
    /// Runs until the configuration's sender is gone.
    pub async fn run(mut self) {
        let config = self.config.borrow_and_update().clone();
        if config.needs_nodes() && tokio::time::timeout(NODES_TIMEOUT, self.nodes.known()).await.is_err() {
            tracing::warn!(
                "nodes are not known yet: series that are mapped by address or label belong to no node for now"
            );
        }
        loop {
            let config = self.config.borrow_and_update().clone();
            let mut changed = self.config.clone();
            tokio::select! {
                () = self.rounds(&config) => {}
                // a round that hangs must not keep a changed file waiting
                changed = changed.changed() => if changed.is_err() { return },
            }
        }
    }

    /// Round after round.
    async fn rounds(&self, config: &Arc<Config>) {
        loop {
            let started = Instant::now();
            let mut round = std::pin::pin!(self.round(config));
            if tokio::time::timeout(ADOPT_AFTER, round.as_mut()).await.is_err() {
                self.adopt(config);
                round.await;
            }
            tokio::time::sleep_until(started + config.prometheus.interval).await;
        }
    }

    /// Puts a changed configuration to use before its queries are answered, with the values that are known.
    fn adopt(&self, config: &Arc<Config>) {
        let old = self.state.snapshot();
        if Arc::ptr_eq(&old.config, config) {
            return;
        }
        let values = carry_over(&old, config);
        let snapshot =
            Snapshot { config: Arc::clone(config), index: Arc::clone(&old.index), values, made: Instant::now() };
        self.measure(&snapshot);
        self.state.replace(snapshot);
    }

    /// One round: every policy's queries, then a new snapshot.
    pub async fn round(&self, config: &Arc<Config>) {
        let old = self.state.snapshot();
        let is_new_config = !Arc::ptr_eq(&old.config, config);
        let mut index = Arc::clone(&old.index);
        let mut values = carry_over(&old, config);
        let book = Arc::new(if config.needs_nodes() { self.nodes.book(config) } else { NodeBook::default() });
        let mut failures = Vec::new();
        let mut client = Client::new(&config.prometheus);
        for (number, policy) in config.policies.iter().enumerate() {
            let answered = match &mut client {
                Ok(client) => ask(client, policy, &book, &mut index).await,
                Err(error) => Err(error.to_string()),
            };
            match answered {
                Ok(read) => {
                    self.state.metrics.add(m::QUERIES, &policy.name, 1);
                    values[number] = Arc::new(read);
                }
                Err(why) => {
                    self.state.metrics.add(m::QUERY_FAILURES, &policy.name, 1);
                    failures.push(shortened(&format!("{}: {why}", policy.name), MAX_FAILURE_BYTES));
                }
            }
        }
        self.tell(failures);
        let snapshot = compact(Snapshot { config: Arc::clone(config), index, values, made: Instant::now() });
        self.measure(&snapshot);
        self.state.replace(snapshot);
        self.wake(&old, is_new_config);
    }

    /// Logs failures when they change, not each round.
    fn tell(&self, failures: Vec<String>) {
        let mut known = self.state.failures();
        if *known != failures {
            if failures.is_empty() {
                tracing::info!("all queries are answered again");
            }
            for failure in failures.iter().filter(|failure| !known.contains(failure)) {
                tracing::warn!(
                    failure,
                    "a query failed; the last values count until they are stale, then the policy is neutral"
                );
            }
            *known = failures;
        }
    }

    fn measure(&self, snapshot: &Snapshot) {
        let metrics = &self.state.metrics;
        let now = Instant::now();
        metrics.keep_policies(|name| snapshot.config.policies.iter().any(|policy| policy.name == name));
        for (policy, values) in snapshot.config.policies.iter().zip(&snapshot.values) {
            let (name, report) = (&policy.name, &values.report);
            let known = values.plain.iter().filter(|value| !value.is_nan()).count();
            for (metric, number) in [
                (m::SERIES, report.series),
                (m::UNMAPPED, report.unmapped),
                (m::DUPLICATES, report.duplicates),
                (m::NOT_NUMBERS, report.not_numbers),
                (m::NODES, if values.is_stale(policy, now) { 0 } else { known }),
            ] {
                #[expect(clippy::cast_precision_loss, reason = "numbers of series stay far below 2^52")]
                metrics.set(metric, name, number as f64);
            }
        }
    }

    /// Has waiting pods tried again for which a node recovered, whose policies changed, or that were refused before this
    /// program started.
    fn wake(&self, old: &Snapshot, is_new_config: bool) {
        let new = self.state.snapshot();
        let woken = {
            let mut tracker = self.state.tracker();
            tracker.forget_old(new.config.herd.window, new.made);
            let mut woken = tracker.take_inherited();
            woken.extend(if is_new_config { tracker.take_waiting() } else { tracker.recovered(old, &new) });
            woken
        };
        if !woken.is_empty() && new.config.recovery.enabled {
            // nobody takes them where there is no API; whoever does joins them, so that they do not pile up
            let _ = self.woken.send(woken);
        }
    }
}

async fn ask(
    client: &mut Client,
    policy: &Policy,
    book: &Arc<NodeBook>,
    index: &mut Arc<Index>,
) -> Result<Values, String> {
    let mut bodies = vec![client.query(&policy.query).await.map_err(|error| error.to_string())?];
    if let Some(plain) = &policy.plain_query {
        bodies.push(client.query(plain).await.map_err(|error| error.to_string())?);
    }
    let now = Instant::now();
    if bodies.iter().map(Bytes::len).sum::<usize>() < LARGE_ANSWER {
        return read(policy, &bodies, book, index, now);
    }
    let (policy, book, mut own) = (policy.clone(), Arc::clone(book), Arc::clone(index));
    let reading = tokio::task::spawn_blocking(move || {
        let values = read(&policy, &bodies, &book, &mut own, now);
        (values, own)
    });
    let (values, own) = reading.await.map_err(|error| error.to_string())?;
    *index = own;
    values
}

fn read(
    policy: &Policy,
    bodies: &[Bytes],
    book: &NodeBook,
    index: &mut Arc<Index>,
    now: Instant,
) -> Result<Values, String> {
    let bodies: Vec<&[u8]> = bodies.iter().map(|body| &body[..]).collect();
    Values::read(policy, &bodies, book, index, now).map_err(|error| error.to_string())
}

/// Values of policies that ask the same as before stay, so that a changed weight loses nothing.
fn carry_over(old: &Snapshot, config: &Config) -> Vec<Arc<Values>> {
    let same = |policy: &Policy| {
        let asks = |policy: &Policy| {
            (
                policy.query.clone(),
                policy.plain_query.clone(),
                policy.node.clone(),
                policy.workload.clone(),
                policy.prefer,
            )
        };
        let at = old.config.policies.iter().position(|other| asks(other) == asks(policy))?;
        old.values.get(at).cloned()
    };
    config.policies.iter().map(|policy| same(policy).unwrap_or_default()).collect()
}

/// Drops the names of nodes that no policy has a value for, if they are many.
fn compact(snapshot: Snapshot) -> Snapshot {
    let is_used =
        |position: usize| snapshot.values.iter().any(|values| values.plain.get(position).is_some_and(|v| !v.is_nan()));
    let names = snapshot.index.names().len();
    let used = (0..names).filter(|position| is_used(*position)).count();
    if names <= 2 * used + SPARE_NAMES {
        return snapshot;
    }
    let (index, positions) = snapshot.index.without(|position| !is_used(position));
    let values = snapshot.values.iter().map(|values| Arc::new(values.moved(&positions))).collect();
    Snapshot { index: Arc::new(index), values, ..snapshot }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[test]
    fn names_of_gone_nodes_are_dropped_and_the_others_keep_their_values() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower, match: {app: labels.app}}\n";
        let config = Arc::new(parse("test.yaml".as_ref(), text).expect("valid"));
        let body = |from: usize, to: usize| {
            let series = (from..to).map(|n| format!(r#"{{"metric":{{"node":"n{n}","app":"x"}},"value":[1,"{n}"]}}"#));
            let series = series.collect::<Vec<_>>().join(",");
            format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
        };
        let mut snapshot = Snapshot::empty(config);
        for (from, to) in [(0, 4000), (3990, 4000)] {
            let body = body(from, to);
            let (policy, book) = (&snapshot.config.policies[0], NodeBook::default());
            let values = Values::read(policy, &[body.as_bytes()], &book, &mut snapshot.index, Instant::now());
            snapshot.values = vec![Arc::new(values.expect("an answer"))];
        }
        assert_eq!(snapshot.index.names().len(), 4000);
        let compacted = compact(snapshot);
        assert_eq!(compacted.index.names().len(), 10);
        let choice = crate::select::Choice { mask: 1, keys: vec![Some("x".to_owned())], ..Default::default() };
        let columns = compacted.columns(&choice, Instant::now());
        for number in 3990..4000 {
            let position = compacted.index.position(&format!("n{number}"));
            assert!((columns[0].value(position) - f64::from(number)).abs() < 1e-9);
        }
    }

    #[test]
    fn a_changed_weight_keeps_the_values_and_a_changed_query_does_not() {
        let config = |weight: u8, query: &str| {
            let text = format!(
                "prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: a, query: {query}, prefer: lower, weight: {weight}}}\n"
            );
            Arc::new(parse("test.yaml".as_ref(), &text).expect("valid"))
        };
        let mut old = Snapshot::empty(config(1, "q"));
        let mut values = Values::default();
        values.plain.push(1.0);
        old.values = vec![Arc::new(values)];
        assert_eq!(carry_over(&old, &config(2, "q"))[0].plain, [1.0]);
        assert!(carry_over(&old, &config(1, "other"))[0].plain.is_empty());
    }
}
