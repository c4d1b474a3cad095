//! Pods that were just bound, whom the metrics do not show yet; and pods that a threshold keeps waiting.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use schedpatch_service::feed::{Change, Query, Watched};
use serde::Deserialize;
use tokio::time::Instant;

use crate::config::Herd;
use crate::judge::SIGNATURE;
use crate::select::Choice;
use crate::snapshot::{Index, Snapshot};

/// More waiting pods than this are not remembered: they are tried again when the scheduler itself does so.
const MAX_WAITING: usize = 5000;
/// More recently bound pods than this are not counted.
const MAX_RECENT: usize = 50_000;

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
#[serde(default)]
pub struct Condition {
    /// In words
    pub message: String,
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

/// A pod that was refused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// Namespace
    pub namespace: String,
    /// Name
    pub name: String,
    /// UID
    pub uid: String,
    /// Its policies
    pub choice: Choice,
}

/// Follows pods.
#[derive(Debug, Default)]
pub struct Tracker {
    /// UIDs of pods that are bound and do not run yet
    bound: HashSet<Box<str>>,
    /// By node: when pods were bound
    recent: HashMap<Box<str>, Vec<Instant>>,
    /// By UID
    waiting: HashMap<Box<str>, Waiting>,
    /// Whether pods were listed before
    was_listed: bool,
    /// Pods that this extender refused before it was restarted
    inherited: Vec<Waiting>,
}

impl Tracker {
    /// Takes up what the watch shows.
    pub fn take(&mut self, change: Change<Pod>, now: Instant) {
        match change {
            Change::Reset(pods) => {
                let there: HashSet<&str> = pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
                self.bound.retain(|uid| there.contains(&**uid));
                self.waiting.retain(|uid, _| there.contains(&**uid));
                for pod in &pods {
                    self.set(pod, now);
                }
                if !std::mem::replace(&mut self.was_listed, true) {
                    self.inherited =
                        pods.iter().filter(|pod| was_refused(pod)).take(MAX_WAITING).map(waiting).collect();
                }
            }
            Change::Set(pod) => self.set(&pod, now),
            Change::Gone(pod) => {
                self.bound.remove(pod.metadata.uid.as_str());
                self.waiting.remove(pod.metadata.uid.as_str());
            }
            Change::Lost(why) => tracing::debug!(why, "pods are not followed for now"),
            Change::Found => {}
        }
    }

    fn set(&mut self, pod: &Pod, now: Instant) {
        let (uid, node) = (pod.metadata.uid.as_str(), pod.spec.node_name.as_str());
        if node.is_empty() {
            return;
        }
        self.waiting.remove(uid);
        if self.bound.insert(uid.into()) && self.recent.values().map(Vec::len).sum::<usize>() < MAX_RECENT {
            self.recent.entry(node.into()).or_default().push(now);
        }
    }

    /// How many pods were bound within the window; older ones are forgotten.
    pub fn forget_old(&mut self, window: Duration, now: Instant) -> usize {
        self.recent.retain(|_, times| {
            times.retain(|bound| now.saturating_duration_since(*bound) < window);
            !times.is_empty()
        });
        self.recent.values().map(Vec::len).sum()
    }

    /// For the nodes that are asked for, by their positions: what recently bound pods cost each, `perPod × (1 − age / window)`
    /// for a pod. None if there are none. `name` is only asked of nodes that no series is about.
    pub fn penalties<'n>(
        &self,
        herd: &Herd,
        index: &Index,
        asked: &[u32],
        name: impl Fn(usize) -> &'n str,
        now: Instant,
    ) -> Option<Vec<f64>> {
        if !herd.enabled || self.recent.is_empty() {
            return None;
        }
        let mut known = vec![0.0; index.names().len()];
        let mut unknown: HashMap<&str, f64> = HashMap::new();
        for (node, times) in &self.recent {
            let ages = times.iter().map(|bound| now.saturating_duration_since(*bound));
            let parts = ages.map(|age| 1.0 - age.as_secs_f64() / herd.window.as_secs_f64());
            let penalty = herd.per_pod * parts.filter(|part| *part > 0.0).sum::<f64>();
            match usize::try_from(index.position(node)).ok().and_then(|at| known.get_mut(at)) {
                Some(place) => *place = penalty,
                None => {
                    unknown.insert(node, penalty);
                }
            }
        }
        let penalty = |(at, position): (usize, &u32)| {
            let known = usize::try_from(*position).ok().and_then(|position| known.get(position)).copied();
            let unknown = || if unknown.is_empty() { None } else { unknown.get(name(at)).copied() };
            known.or_else(unknown).unwrap_or(0.0)
        };
        Some(asked.iter().enumerate().map(penalty).collect())
    }

    /// Remembers a pod that was refused.
    pub fn refused(&mut self, uid: &str, waiting: impl FnOnce() -> Waiting) {
        if !uid.is_empty() && (self.waiting.len() < MAX_WAITING || self.waiting.contains_key(uid)) {
            self.waiting.insert(uid.into(), waiting());
        }
    }

    /// How many pods wait.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// The pods that were refused before this program started, once: the scheduler tries them again, so that those that are
    /// refused now are known here.
    pub fn take_inherited(&mut self) -> Vec<Waiting> {
        std::mem::take(&mut self.inherited)
    }

    /// Forgets all waiting pods and returns them: their policies have changed.
    pub fn take_waiting(&mut self) -> Vec<Waiting> {
        self.waiting.drain().map(|(_, waiting)| waiting).collect()
    }

    /// Waiting pods for which some node exceeds no threshold any more that exceeded one before.
    pub fn recovered(&self, old: &Snapshot, new: &Snapshot) -> Vec<Waiting> {
        let mut known: HashMap<&Choice, bool> = HashMap::new();
        let is_recovered = |choice: &Choice| {
            let (before, after) = (old.columns(choice, old.made), new.columns(choice, new.made));
            let exceeds = |columns: &[crate::snapshot::Column<'_>], position: u32| {
                columns.iter().any(|column| column.policy.exceeds(column.value(position)))
            };
            (0..)
                .zip(old.index.names())
                .any(|(position, name)| exceeds(&before, position) && !exceeds(&after, new.index.position(name)))
        };
        let woken =
            self.waiting.values().filter(|pod| *known.entry(&pod.choice).or_insert_with(|| is_recovered(&pod.choice)));
        woken.cloned().collect()
    }
}

/// Whether the scheduler says that a pod waits because of this extender.
fn was_refused(pod: &Pod) -> bool {
    pod.spec.node_name.is_empty() && pod.status.conditions.iter().any(|one| one.message.contains(SIGNATURE))
}

fn waiting(pod: &Pod) -> Waiting {
    let PodMeta { namespace, name, uid, .. } = pod.metadata.clone();
    Waiting { namespace, name, uid, choice: Choice::default() }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::parse;
    use crate::mapping::NodeBook;
    use crate::snapshot::Values;

    fn pod(uid: &str, node: &str) -> Pod {
        let json = serde_json::json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
        serde_json::from_value(json).expect("a pod")
    }

    fn snapshot(threshold: &str, values: &[(&str, f64)]) -> Snapshot {
        let text = format!(
            "prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: cpu, query: q, prefer: lower, avoidAbove: {threshold}}}\n"
        );
        let config = Arc::new(parse("test.yaml".as_ref(), &text).expect("valid"));
        let series = values
            .iter()
            .map(|(node, value)| serde_json::json!({"metric": {"node": node}, "value": [1, value.to_string()]}));
        let body = serde_json::json!({"status": "success", "data": {"resultType": "vector", "result": series.collect::<Vec<_>>()}});
        let mut index = Arc::default();
        let values = Values::read(
            &config.policies[0],
            &[body.to_string().as_bytes()],
            &NodeBook::default(),
            &mut index,
            Instant::now(),
        );
        Snapshot { values: vec![Arc::new(values.expect("an answer"))], index, ..Snapshot::empty(config) }
    }

    #[tokio::test(start_paused = true)]
    async fn a_bound_pod_costs_its_node_less_and_less_until_the_window_is_over() {
        let mut tracker = Tracker::default();
        let herd = Herd { enabled: true, per_pod: 0.1, window: Duration::from_mins(1) };
        let known = snapshot("1", &[("a", 0.0), ("b", 0.0)]);
        let start = Instant::now();
        let names = ["a", "b", "unknown", "other"];
        let asked: Vec<u32> = names.iter().map(|name| known.index.position(name)).collect();
        let of =
            |tracker: &Tracker, herd: &Herd, now| tracker.penalties(herd, &known.index, &asked, |at| names[at], now);
        assert_eq!(of(&tracker, &herd, start), None);
        tracker.take(Change::Set(pod("1", "")), start);
        tracker.take(Change::Set(pod("1", "b")), start);
        tracker.take(Change::Set(pod("1", "b")), start);
        tracker.take(Change::Set(pod("2", "b")), start + Duration::from_secs(30));
        tracker.take(Change::Set(pod("3", "unknown")), start);
        tracker.take(Change::Gone(pod("1", "b")), start);
        let at = |seconds| of(&tracker, &herd, start + Duration::from_secs(seconds)).expect("some");
        assert!((at(30)[1] - 0.15).abs() < 1e-9 && (at(60)[1] - 0.05).abs() < 1e-9 && at(90)[1] == 0.0);
        assert!((at(30)[2] - 0.05).abs() < 1e-9 && at(30)[3] == 0.0, "a node that no series is about");
        assert_eq!(of(&tracker, &Herd { enabled: false, ..herd }, start), None);
        assert_eq!(tracker.forget_old(Duration::from_mins(1), start + Duration::from_mins(1)), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_pods_are_woken_when_a_node_comes_below_its_threshold() {
        let mut tracker = Tracker::default();
        let waiting = |name: &str| Waiting {
            namespace: "n".to_owned(),
            name: name.to_owned(),
            uid: name.to_owned(),
            choice: Choice { mask: 1, ..Choice::default() },
        };
        for name in ["a", "b", "bound"] {
            tracker.refused(name, || waiting(name));
        }
        tracker.refused("", || waiting("without a UID"));
        tracker.take(Change::Set(pod("bound", "x")), Instant::now());
        tracker.take(Change::Set(pod("a", "")), Instant::now());
        tracker.take(Change::Gone(pod("b", "")), Instant::now());
        assert_eq!(tracker.waiting(), 1);
        let high = snapshot("0.5", &[("x", 0.9), ("y", 0.9)]);
        assert!(tracker.recovered(&high, &high).is_empty());
        assert!(tracker.recovered(&high, &snapshot("0.5", &[("y", 0.6), ("x", 0.7)])).is_empty());
        assert_eq!(tracker.recovered(&high, &snapshot("0.5", &[("y", 0.9), ("x", 0.4)])), [waiting("a")]);
        assert_eq!(tracker.recovered(&high, &snapshot("0.5", &[("y", 0.9)])), [waiting("a")], "a missing value passes");
        let low = snapshot("0.5", &[("x", 0.1), ("y", 0.9)]);
        assert!(tracker.recovered(&low, &low).is_empty(), "nothing recovered since");
        tracker.take(Change::Reset(Vec::new()), Instant::now());
        assert_eq!(tracker.waiting(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn pods_that_were_refused_before_the_start_are_tried_once() {
        let said = |uid: &str, node: &str, message: &str| -> Pod {
            let json = serde_json::json!({
                "metadata": {"uid": uid, "name": uid, "namespace": "n"}, "spec": {"nodeName": node},
                "status": {"conditions": [{"type": "PodScheduled", "message": message}]},
            });
            serde_json::from_value(json).expect("a pod")
        };
        let ours = "0/3 nodes are available: 3 schedpatch-extender: cpu above 0.9. preemption: 0/3 nodes";
        let pods = vec![said("a", "", ours), said("b", "", "0/3 nodes: Insufficient cpu"), said("c", "x", ours)];
        let mut tracker = Tracker::default();
        tracker.take(Change::Reset(pods.clone()), Instant::now());
        let names: Vec<_> =
            tracker.take_inherited().into_iter().map(|pod| (pod.namespace, pod.name, pod.uid)).collect();
        assert_eq!(names, [("n".to_owned(), "a".to_owned(), "a".to_owned())]);
        tracker.take(Change::Reset(pods), Instant::now());
        assert!(tracker.take_inherited().is_empty(), "a list after a broken watch is no start");
    }
}
