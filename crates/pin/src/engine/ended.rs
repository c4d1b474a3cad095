//! What follows from the end of an attempt.

use std::collections::BTreeMap;
use std::time::Duration;

use tokio::time::Instant;

use super::{Engine, Work};
use crate::api::ApiError;
use crate::attempt::Outcome;
use crate::decide::Mode;
use crate::events::Event;
use crate::model::Pod;
use crate::reason::Wait;
use crate::state::PodId;

/// First and longest pause after the API server failed.
const PAUSES: [Duration; 2] = [Duration::from_millis(250), Duration::from_secs(30)];
/// An event that still holds is written again after this time, since events are forgotten after an hour.
const EVENT_AGAIN: Duration = Duration::from_mins(30);

impl Engine {
    /// Takes up how an attempt ended.
    pub(super) fn ended(&mut self, id: PodId, pod: &Pod, outcome: Outcome) {
        self.trying = self.trying.saturating_sub(1);
        let again = matches!(self.work.remove(&id), Some(Work::Trying { again: true }));
        let is_there = self.state.pod(&id).is_some();
        match outcome {
            Outcome::Placed(node) => {
                self.placed(&id, pod, &node);
                if is_there {
                    self.work.insert(id, Work::Placed);
                }
                return;
            }
            Outcome::Wait(wait) if is_there => {
                let needs_retry = wait.needs_retry();
                self.tries.remove(&id);
                self.waits_for(&id, wait);
                if needs_retry && !again {
                    self.work.insert(id.clone(), Work::Later { at: Instant::now() + self.retry, hard: false });
                }
            }
            Outcome::Moved(node, error) => {
                self.counters.add("schedpatch_pin_conflicts_total", "");
                self.count_failure(id.1, pod, &node, &error);
                tracing::debug!(pod = pod.full_name(), node, "not placed: {error}");
                // the watch shows what became of it; if it does not, look again
                if is_there && !again {
                    self.work.insert(id.clone(), Work::Later { at: Instant::now() + self.retry, hard: false });
                }
            }
            Outcome::Failed(node, error) => {
                self.failures += 1;
                self.counters.add("schedpatch_pin_failures_total", "");
                if let Some(node) = &node {
                    self.count_failure(id.1, pod, node, &error);
                }
                let pause = self.pause(&id);
                tracing::warn!(pod = pod.full_name(), node, "cannot place the pod, trying again in {pause:?}: {error}");
                if is_there {
                    self.work.insert(id, Work::Later { at: Instant::now() + pause, hard: true });
                }
                return;
            }
            Outcome::Wait(_) | Outcome::NotLeading => {}
        }
        if again && is_there {
            self.consider(vec![id]);
        }
    }

    /// The next pause after failures in a row.
    fn pause(&mut self, id: &PodId) -> Duration {
        let tries = self.tries.entry(id.clone()).or_default();
        *tries = (*tries + 1).min(16);
        PAUSES[0].saturating_mul(1 << (*tries - 1)).min(PAUSES[1])
    }

    fn placed(&mut self, id: &PodId, pod: &Pod, node: &str) {
        let meta = &pod.metadata;
        self.waits.remove(id);
        self.tries.remove(id);
        match id.1 {
            Mode::Bind => {
                self.counters.request(&meta.namespace, node, &meta.name);
                self.counters.success(&meta.namespace, node, &meta.name);
                self.counters.add("schedpatch_pin_placed_total", "bind");
                tracing::info!(namespace = meta.namespace, "Pod {} scheduled on node {node}", meta.name);
                self.record(Event::placed(pod, node, "Scheduled"));
            }
            Mode::Gate => {
                self.counters.add("schedpatch_pin_placed_total", "gate");
                tracing::info!(namespace = meta.namespace, "Pod {} pinned to node {node}, gate lifted", meta.name);
                self.record(Event::placed(pod, node, "Pinned"));
            }
        }
    }

    fn count_failure(&self, mode: Mode, pod: &Pod, node: &str, error: &ApiError) {
        if mode == Mode::Bind {
            let (namespace, name) = (&pod.metadata.namespace, &pod.metadata.name);
            self.counters.request(namespace, node, name);
            let reason = match error {
                ApiError::Refused { reason, .. } => reason.as_str(),
                ApiError::Silent(_) => "NoAnswer",
                ApiError::Unreadable(_) => "UnreadableAnswer",
            };
            self.counters.failure(namespace, node, name, error.code(), reason);
        }
    }

    /// Notes why a pod waits, and says so once.
    pub(super) fn waits_for(&mut self, id: &PodId, wait: Wait) {
        let Some(pod) = self.state.pod(id) else { return };
        let is_known = self.waits.get(id).is_some_and(|(old, since)| *old == wait && since.elapsed() < EVENT_AGAIN);
        if is_known {
            return;
        }
        tracing::info!(namespace = pod.metadata.namespace, "Pod {} waits: {wait}", pod.metadata.name);
        let events = Event::waiting(pod, &wait);
        self.waits.insert(id.clone(), (wait, Instant::now()));
        for event in events {
            self.record(event);
        }
    }

    fn record(&self, event: Event) {
        if let Some(recorder) = &self.recorder {
            recorder.record(event);
        }
    }

    /// Brings the gauges up to date, once the queue is empty.
    pub(super) fn publish(&self) {
        if self.trying > 0 || !self.queue.is_empty() {
            return;
        }
        let mut waiting = BTreeMap::new();
        for (wait, _) in self.waits.values() {
            *waiting.entry(wait.word()).or_default() += 1;
        }
        self.counters.set_waiting(waiting);
        let gauge = |name, label, count: usize| {
            self.counters.set(name, label, f64::from(u32::try_from(count).unwrap_or(u32::MAX)));
        };
        gauge("schedpatch_pin_pins", "", self.state.pins().count());
        gauge("schedpatch_pin_open_pods", "bind", self.state.open(Mode::Bind));
        gauge("schedpatch_pin_open_pods", "gate", self.state.open(Mode::Gate));
        gauge("schedpatch_pin_leader", "", usize::from(self.is_leading()));
        gauge("schedpatch_pin_synced", "", usize::from(self.readiness.borrow().values().all(Result::is_ok)));
    }
}
