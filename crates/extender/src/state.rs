//! What requests, the poller and the watches share.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock};

use crate::decisions::Decisions;
use crate::metrics::Metrics;
use crate::misfit::Misfits;
use crate::pods::Tracker;
use crate::snapshot::Snapshot;

/// Shared state. Each request takes each lock once, for a moment.
#[derive(Debug)]
pub struct State {
    snapshot: RwLock<Arc<Snapshot>>,
    tracker: Mutex<Tracker>,
    decisions: Mutex<Decisions>,
    /// By policy: why its last query gave nothing
    failures: Mutex<BTreeMap<String, String>>,
    /// Policies that fit no node
    pub misfits: Misfits,
    /// Metrics
    pub metrics: Metrics,
    /// Where schedpatch is installed
    pub own_namespace: Option<String>,
    /// The weight that the scheduler gives this extender, for explanations
    pub weight: u32,
}

impl State {
    /// State at the start.
    pub fn new(snapshot: Snapshot, own_namespace: Option<String>, weight: u32) -> Self {
        Self {
            snapshot: RwLock::new(Arc::new(snapshot)),
            tracker: Mutex::default(),
            decisions: Mutex::default(),
            failures: Mutex::default(),
            misfits: Misfits::default(),
            metrics: Metrics::default(),
            own_namespace,
            weight,
        }
    }

    /// What is known now.
    pub fn snapshot(&self) -> Arc<Snapshot> {
        Arc::clone(&self.snapshot.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// Puts a new one in its place and returns the old one.
    pub fn replace(&self, snapshot: Snapshot) -> Arc<Snapshot> {
        let mut place = self.snapshot.write().unwrap_or_else(PoisonError::into_inner);
        std::mem::replace(&mut place, Arc::new(snapshot))
    }

    /// Pods that were just bound, and pods that wait.
    pub fn tracker(&self) -> MutexGuard<'_, Tracker> {
        self.tracker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The last decisions.
    pub fn decisions(&self) -> MutexGuard<'_, Decisions> {
        self.decisions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// By policy: why its last query gave nothing.
    pub fn failures(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.failures.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
