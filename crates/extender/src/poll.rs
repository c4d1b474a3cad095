//! Asks Prometheus in the background and publishes what is known. Nobody waits for it.

mod round;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::config::{Config, Policy};
use crate::metrics as m;
use crate::nodes::Nodes;
use crate::pods::Wake;
use crate::snapshot::{Snapshot, Values};
use crate::state::State;

use round::Round;

/// The first round of a configuration waits this long for the list of nodes, where series are mapped by more than names.
const NODES_TIMEOUT: Duration = Duration::from_secs(10);
/// A changed file counts after this time, even if its queries are not answered yet.
const ADOPT_AFTER: Duration = Duration::from_secs(1);
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
    pub woken: mpsc::UnboundedSender<Vec<Wake>>,
}

impl Poller {
    /// Runs until the configuration's sender is gone.
    pub async fn run(mut self) {
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
        if config.needs_nodes() && tokio::time::timeout(NODES_TIMEOUT, self.nodes.known(config)).await.is_err() {
            tracing::warn!(
                "nodes are not known yet: series that are mapped by address or label belong to no node for now"
            );
        }
        loop {
            let started = Instant::now();
            self.round(config).await;
            tokio::time::sleep_until(started + config.prometheus.interval).await;
        }
    }

    /// One round: every policy's queries, some at a time. The values of each policy count as soon as they are there; those of a
    /// changed file count together, or after a moment.
    pub async fn round(&self, config: &Arc<Config>) {
        let round = Round::new(&self.state, config, self.nodes.book(config), self.woken.clone());
        let mut workers = round.workers();
        let adopt_at = Instant::now() + ADOPT_AFTER;
        loop {
            tokio::select! {
                done = workers.join_next() => if done.is_none() { break },
                () = tokio::time::sleep_until(adopt_at), if !round.is_live() => round.adopt().await,
            }
        }
        round.end().await;
    }
}

/// Brings the metrics of a policy up to date.
fn measure(state: &State, policy: &Policy, values: &Values) {
    let (name, report) = (&policy.name, &values.report);
    let known = values.plain.iter().filter(|value| !value.is_nan()).count();
    for (metric, number) in [
        (m::SERIES, report.series),
        (m::UNMAPPED, report.unmapped),
        (m::DUPLICATES, report.duplicates),
        (m::NOT_NUMBERS, report.not_numbers),
        (m::NODES, if values.is_stale(policy, Instant::now()) { 0 } else { known }),
    ] {
        #[expect(clippy::cast_precision_loss, reason = "numbers of series stay far below 2^52")]
        state.metrics.set(metric, name, number as f64);
    }
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
        let is_same = |other: &Policy| asks(other) == asks(policy);
        let policies = &old.config.policies;
        let namesake = policies.iter().position(|other| other.name == policy.name && is_same(other));
        let at = namesake.or_else(|| policies.iter().position(is_same))?;
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
