//! Policies whose series are about other nodes than those that the scheduler asks for: without a word they would look healthy
//! and do nothing. A policy that knows some nodes only, such as those with a GPU, is none of these.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::time::Instant;

use crate::config::{NodeField, Policy};
use crate::snapshot::{Column, Report, Snapshot};

/// Policies that did not fit when the scheduler asked last.
#[derive(Debug, Default)]
pub struct Misfits {
    /// By policy, in words
    known: Mutex<BTreeMap<String, String>>,
    /// Policies that were logged, which happens once for each configuration
    logged: Mutex<BTreeMap<String, Policy>>,
    is_any: AtomicBool,
    /// By policy: a node that the scheduler asked for and that had a value, by its position and the index' generation
    fitted: Mutex<BTreeMap<String, (u64, u32)>>,
}

/// Why a policy has a value for none of the nodes although Prometheus answers. `node` is one of the nodes.
pub fn words(policy: &Policy, report: &Report, node: &str) -> String {
    let label = &policy.node.label;
    let field = match (policy.node.is, &policy.node.node_label) {
        (NodeField::Name, _) => "name".to_owned(),
        (NodeField::InternalIp, _) => "InternalIP".to_owned(),
        (NodeField::Hostname, _) => "hostname".to_owned(),
        (NodeField::NodeLabel, key) => format!("label {}", key.as_deref().unwrap_or_default()),
    };
    let side = match &report.sample {
        None => format!("none of them has the label {label} and a number"),
        Some(sample) => format!("their label {label} holds for example {sample:?}, which must be a node's {field}"),
    };
    let (name, series) = (&policy.name, report.series);
    format!(
        "{name}: the scheduler asks for nodes like {node:?}, and none of them has a value, although Prometheus answers with {series} series: {side}; see node.label and node.is"
    )
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Misfits {
    /// Numbers of the columns that have fresh series and a value for none of these nodes, nor for the node that they knew when
    /// the scheduler asked before.
    pub fn find(&self, snapshot: &Snapshot, columns: &[Column<'_>], asked: &[u32], now: Instant) -> Vec<usize> {
        let mut fitted = locked(&self.fitted);
        let generation = snapshot.index.generation();
        let mut is_misfit = |column: &Column<'_>| {
            let name = &column.policy.name;
            // of nodes with values the first one nearly always has one
            if let Some(known) = asked.iter().find(|position| !column.value(**position).is_nan()) {
                match fitted.get_mut(name) {
                    Some(last) => *last = (generation, *known),
                    None => drop(fitted.insert(name.clone(), (generation, *known))),
                }
                return false;
            }
            let values = &snapshot.values[column.number];
            if values.report.series == 0 || values.is_stale(column.policy, now) {
                return false;
            }
            let last = fitted.get(name).filter(|(own, _)| *own == generation);
            last.is_none_or(|(_, position)| column.value(*position).is_nan())
        };
        let all = columns.iter().enumerate().filter(|(_, column)| !asked.is_empty() && is_misfit(column));
        all.map(|(at, _)| at).collect()
    }

    /// Remembers which of these columns do not fit, and logs each policy once. `node` is one of the nodes that were asked for.
    pub fn note(&self, snapshot: &Snapshot, columns: &[Column<'_>], misfits: &[usize], node: &str) {
        if misfits.is_empty() && !self.is_any.load(Ordering::Relaxed) {
            return;
        }
        let mut known = locked(&self.known);
        for (at, column) in columns.iter().enumerate() {
            let policy = column.policy;
            if !misfits.contains(&at) {
                known.remove(&policy.name);
                continue;
            }
            let words = words(policy, &snapshot.values[column.number].report, node);
            let mut logged = locked(&self.logged);
            if logged.get(&policy.name) != Some(policy) {
                tracing::warn!(policy = policy.name, "{words}");
                logged.insert(policy.name.clone(), policy.clone());
            }
            known.insert(policy.name.clone(), words);
        }
        self.is_any.store(!known.is_empty(), Ordering::Relaxed);
    }

    /// Forgets policies that are gone.
    pub fn keep(&self, is_there: impl Fn(&str) -> bool) {
        locked(&self.known).retain(|name, _| is_there(name));
        locked(&self.logged).retain(|name, _| is_there(name));
        locked(&self.fitted).retain(|name, _| is_there(name));
    }

    /// In words, by policy.
    pub fn all(&self) -> BTreeMap<String, String> {
        locked(&self.known).clone()
    }
}
