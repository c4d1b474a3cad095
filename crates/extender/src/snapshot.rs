//! What is known at one moment: values of all policies for all nodes, in columns. Requests only read it.

mod bits;
mod index;
mod values;

use std::borrow::Cow;
use std::sync::Arc;

use tokio::time::Instant;

use crate::config::{Config, Policy};
use crate::select::Choice;

pub use bits::Bits;
pub use index::{Index, UNKNOWN};
pub use values::{MAX_BYTES, Reader, Report, Values};

/// One policy's values as a pod sees them.
#[derive(Clone, Debug)]
pub struct Column<'s> {
    /// Number of the policy in the file
    pub number: usize,
    /// The policy
    pub policy: &'s Policy,
    /// By position; empty if the values are stale or were never there
    pub values: Cow<'s, [f64]>,
}

impl Column<'_> {
    /// A node's value, NaN if missing.
    pub fn value(&self, position: u32) -> f64 {
        usize::try_from(position).ok().and_then(|at| self.values.get(at)).copied().unwrap_or(f64::NAN)
    }
}

/// What is known at one moment.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// What counts
    pub config: Arc<Config>,
    /// Positions of nodes
    pub index: Arc<Index>,
    /// By policy
    pub values: Vec<Arc<Values>>,
    /// When it was put together
    pub made: Instant,
    /// Since when the configuration counts
    pub since: Instant,
}

impl Snapshot {
    /// Nothing is known yet.
    pub fn empty(config: Arc<Config>) -> Self {
        let values = config.policies.iter().map(|_| Arc::default()).collect();
        let now = Instant::now();
        Self { config, index: Arc::default(), values, made: now, since: now }
    }

    /// Whether each threshold has values, or has had none for so long that it refuses nothing.
    pub fn knows_thresholds(&self, now: Instant) -> bool {
        let age = now.saturating_duration_since(self.since);
        let mut thresholds = self.config.policies.iter().zip(&self.values).filter(|(policy, _)| policy.refuses());
        thresholds.all(|(policy, values)| values.taken.is_some() || age > policy.stale_after)
    }

    /// The columns of a pod's policies.
    pub fn columns(&self, choice: &Choice, now: Instant) -> Vec<Column<'_>> {
        let all = self.config.policies.iter().zip(&self.values).enumerate();
        let chosen = all.filter(|(number, _)| choice.holds(*number));
        let columns = chosen.map(|(number, (policy, values))| {
            let is_stale = values.is_stale(policy, now);
            let values = if is_stale { Cow::Borrowed(&[][..]) } else { values.column(choice.key(number)) };
            Column { number, policy, values }
        });
        columns.collect()
    }
}
