//! Pods that were just bound, whom the metrics do not show yet; and pods that a threshold keeps waiting.

mod recent;
#[cfg(test)]
mod tests;
mod waiting;

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use schedpatch_service::feed::{Change, Query, Watched};
use serde::Deserialize;
use tokio::time::Instant;

use crate::config::Herd;
use crate::judge::SIGNATURE;
use crate::snapshot::{Index, Snapshot};

use recent::Recent;
use waiting::{MAX_WAITING, Waits};

pub use recent::EXPECTED_FOR;
pub use waiting::{Judged, PAUSES, Waiting, Wake};

/// The few fields of a pod that are followed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct Pod {
    /// Metadata
    pub metadata: PodMeta,
    /// What is wanted
    pub spec: PodSpec,
    /// What is seen
    pub status: PodStatus,
}

/// Metadata of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodMeta {
    /// Namespace
    pub namespace: String,
    /// Name
    pub name: String,
    /// UID
    pub uid: String,
    /// Version
    pub resource_version: String,
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it is bound
    pub node_name: String,
}

/// What is seen of a pod; of it only conditions.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodStatus {
    /// Conditions
    pub conditions: Vec<Condition>,
}

/// A condition of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// Its name
    #[serde(rename = "type")]
    pub kind: String,
    /// `True`, `False` or `Unknown`
    pub status: String,
    /// In words
    pub message: String,
    /// When `status` changed last; Go writes null for a time that was never set
    pub last_transition_time: Option<String>,
}

impl Watched for Pod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// Pods that do not run yet: they wait, or were just bound. Others would only cost traffic.
pub fn query() -> Query {
    Query { path: "/api/v1/pods", fields: "status.phase=Pending".to_owned(), labels: String::new() }
}

/// Follows pods.
#[derive(Debug, Default)]
pub struct Tracker {
    recent: Recent,
    waits: Waits,
    /// Whether pods were listed before
    was_listed: bool,
}

impl Tracker {
    /// Takes up what the watch shows. `clock` is the time of day, which is compared with times that the API server reports.
    pub fn take(&mut self, change: Change<Pod>, now: Instant, clock: Timestamp) {
        match change {
            Change::Reset(pods) => {
                let there: HashSet<&str> = pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
                self.recent.retain(|uid| there.contains(uid));
                self.waits.listed(|uid| there.contains(uid), now);
                for pod in pods.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
                    // nobody saw when it was bound
                    self.bind(pod, bound_since(pod, now, clock));
                }
                if !std::mem::replace(&mut self.was_listed, true) {
                    for pod in pods.iter().filter(|pod| was_refused(pod)).take(MAX_WAITING) {
                        self.waits.inherit(waiting(pod), now);
                    }
                }
            }
            Change::Set(pod) if pod.spec.node_name.is_empty() => {}
            Change::Set(pod) => self.bind(&pod, Some(now)),
            Change::Gone(pod) => {
                self.recent.end(&pod.metadata.uid);
                self.waits.end(&pod.metadata.uid);
            }
            Change::Lost(why) => tracing::debug!(why, "pods are not followed for now"),
            Change::Found => {}
        }
    }

    fn bind(&mut self, pod: &Pod, at: Option<Instant>) {
        self.waits.end(&pod.metadata.uid);
        self.recent.bind(&pod.metadata.uid, &pod.spec.node_name, at);
    }

    /// Forgets bound pods, which nobody follows any more. The next list counts as the first one. Pods that wait stay: the change
    /// that ended the need may be what lets them go on.
    pub fn forget(&mut self) {
        let waits = std::mem::take(&mut self.waits);
        *self = Self { waits, ..Self::default() };
    }

    /// How many pods were bound within the window; older ones are forgotten.
    pub fn forget_old(&mut self, window: Duration, now: Instant) -> usize {
        self.recent.forget_old(window, now)
    }

    /// For the nodes that are asked for: what recently bound pods cost each, `perPod × (1 − age / window)` for a pod. A pod
    /// that was scored and is not bound yet costs the best of its nodes `perPod`, except when it is asked for itself (`uid`).
    /// None if there are no such pods. `name` is only asked of nodes that no series is about.
    pub fn penalties<'n>(
        &mut self,
        herd: &Herd,
        uid: &str,
        (index, asked): (&Index, &[u32]),
        name: impl Fn(usize) -> &'n str,
        now: Instant,
    ) -> Option<Vec<f64>> {
        self.recent.penalties(herd, uid, (index, asked), name, now)
    }

    /// A pod will probably be bound to one of these nodes, which got the most points.
    pub fn expect<'n>(&mut self, uid: &str, nodes: impl Iterator<Item = &'n str>, now: Instant) {
        self.recent.expect(uid, nodes, now);
    }

    /// Remembers which nodes refused a pod.
    pub fn judged(&mut self, uid: &str, pod: impl FnOnce() -> Waiting, judged: Judged<'_>, now: Instant) {
        self.waits.judged(uid, pod, judged, now);
    }

    /// How many pods wait.
    pub fn waiting(&self) -> usize {
        self.waits.len()
    }

    /// Waiting pods that shall be tried again: a node that refused them has recovered, policies have changed, or they were
    /// refused before this program started.
    pub fn recovered(&mut self, snapshot: &Snapshot, now: Instant) -> Vec<Wake> {
        if !snapshot.config.recovery.enabled {
            self.waits.clear();
        }
        self.waits.recovered(snapshot, now)
    }

    /// The pod to be woken now, if it still waits for that.
    pub fn begin_wake(&mut self, uid: &str, now: Instant) -> Option<Waiting> {
        self.waits.begin_wake(uid, now)
    }

    /// Whether a pod still waits that is woken once more after a failure. What recovered meanwhile counts with this attempt.
    pub fn resume_wake(&mut self, uid: &str) -> bool {
        self.waits.resume_wake(uid)
    }

    /// The API server did not take the attempts to wake a pod. The recovery that they were about still counts, so the pod
    /// shall be tried again after its pause.
    pub fn wake_failed(&mut self, uid: &str) {
        self.waits.wake_failed(uid);
    }

    /// Whether a pod still waits.
    pub fn is_waiting(&self, uid: &str) -> bool {
        self.waits.holds(uid)
    }

    /// A pod does not exist any more.
    pub fn gone(&mut self, uid: &str) {
        self.recent.end(uid);
        self.waits.end(uid);
    }
}

/// When a listed pod was bound, if its status says so. The clocks of two machines may differ: a time in the future is now.
fn bound_since(pod: &Pod, now: Instant, clock: Timestamp) -> Option<Instant> {
    let is_bound = |one: &&Condition| one.kind == "PodScheduled" && one.status == "True";
    let condition = pod.status.conditions.iter().find(is_bound)?;
    let bound: Timestamp = condition.last_transition_time.as_ref()?.parse().ok()?;
    let age = Duration::try_from(clock.duration_since(bound)).unwrap_or(Duration::ZERO);
    now.checked_sub(age)
}

/// Whether the scheduler says that a pod waits because of this extender.
fn was_refused(pod: &Pod) -> bool {
    pod.spec.node_name.is_empty() && pod.status.conditions.iter().any(|one| one.message.contains(SIGNATURE))
}

fn waiting(pod: &Pod) -> Waiting {
    let PodMeta { namespace, name, uid, .. } = pod.metadata.clone();
    Waiting { namespace, name, uid }
}
