//! What to do with a pod: bind it, wait, or leave it alone. Pure: the same facts give the same decision.

use std::collections::{BTreeMap, BTreeSet};

use crate::affinity;
use crate::labels::{Labels, PodKey, Rank};
use crate::model::{GATE, Node, OPT_IN_LABEL, Pod};
use crate::reason::{Reason, Wait};

/// How a pod gets its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// We bind it
    Bind,
    /// We add an affinity and lift the gate; kube-scheduler binds it
    Gate,
}

/// What is checked before a pod gets its node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Checks {
    /// Everything that the kubelet or the pod itself would refuse
    Safe,
    /// Only the label
    None,
}

/// What to do with a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Decision {
    /// Nothing: it is bound, over, being deleted, or not ours
    Leave,
    /// Nothing yet
    Wait(Wait),
    /// Try these nodes, in this order
    Try(Vec<String>),
}

/// Which nodes are labelled for which pods.
#[derive(Clone, Debug, Default)]
pub struct Pins {
    by_pod: BTreeMap<PodKey, BTreeSet<(Rank, String)>>,
    /// The last labelled node of pods that lost it by its deletion
    missing: BTreeMap<PodKey, String>,
}

impl Pins {
    /// Takes up the pins of a node, and returns the pods whose pins changed.
    pub fn set(&mut self, node: &str, old: &BTreeMap<PodKey, Rank>, new: &BTreeMap<PodKey, Rank>) -> BTreeSet<PodKey> {
        let mut changed = BTreeSet::new();
        for (pod, rank) in old.iter().filter(|(pod, rank)| new.get(*pod) != Some(rank)) {
            if let Some(nodes) = self.by_pod.get_mut(pod) {
                nodes.remove(&(rank.clone(), node.to_owned()));
                if nodes.is_empty() {
                    self.by_pod.remove(pod);
                }
            }
            changed.insert(pod.clone());
        }
        for (pod, rank) in new.iter().filter(|(pod, rank)| old.get(*pod) != Some(rank)) {
            self.by_pod.entry(pod.clone()).or_default().insert((rank.clone(), node.to_owned()));
            self.missing.remove(pod);
            changed.insert(pod.clone());
        }
        changed
    }

    /// Remembers that a labelled node was deleted, to say so.
    pub fn node_deleted(&mut self, node: &str, pins: &BTreeMap<PodKey, Rank>) {
        for pod in pins.keys().filter(|pod| !self.by_pod.contains_key(pod)) {
            self.missing.insert(pod.clone(), node.to_owned());
        }
    }

    /// The nodes of a pod, in order.
    pub fn nodes(&self, pod: &PodKey) -> Vec<String> {
        self.by_pod.get(pod).into_iter().flatten().map(|(_, node)| node.clone()).collect()
    }

    /// All pins.
    pub fn all(&self) -> impl Iterator<Item = (&PodKey, &Rank, &str)> {
        self.by_pod.iter().flat_map(|(pod, nodes)| nodes.iter().map(move |(rank, node)| (pod, rank, node.as_str())))
    }

    /// How many pins there are.
    pub fn count(&self) -> usize {
        self.by_pod.values().map(BTreeSet::len).sum()
    }

    /// Why a pod without a labelled node waits.
    pub fn absence(&self, labels: &Labels, pod: &PodKey) -> Wait {
        match self.missing.get(pod) {
            Some(node) => Wait(vec![(Some(node.clone()), Reason::NodeMissing)]),
            None => Wait::alone(Reason::NoNodeLabelled(labels.write(pod))),
        }
    }
}

/// Whether a pod is ours and still without a node.
pub fn is_open(pod: &Pod, mode: Mode, name: &str) -> bool {
    let is_ours = match mode {
        Mode::Bind => pod.spec.scheduler_name == name,
        Mode::Gate => pod.metadata.labels.get(OPT_IN_LABEL).is_some_and(|value| value == name) && pod.has_gate(GATE),
    };
    is_ours && pod.spec.node_name.is_empty() && pod.metadata.deletion_timestamp.is_none() && !pod.is_over()
}

/// The decision for a pod, by what the watches showed.
pub fn decide(
    pod: &Pod,
    mode: Mode,
    checks: Checks,
    labels: &Labels,
    pins: &Pins,
    nodes: &BTreeMap<String, Node>,
) -> Decision {
    if !is_open(pod, mode, labels.name()) {
        return Decision::Leave;
    }
    if mode == Mode::Bind && !pod.spec.scheduling_gates.is_empty() {
        let gates: Vec<&str> = pod.spec.scheduling_gates.iter().map(|gate| gate.name.as_str()).collect();
        return Decision::Wait(Wait::alone(Reason::SchedulingGated(gates.join(", "))));
    }
    let key = PodKey::of(&pod.metadata.namespace, &pod.metadata.name);
    let labelled = pins.nodes(&key);
    if labelled.is_empty() {
        return Decision::Wait(pins.absence(labels, &key));
    }
    let problem = |name: &String| nodes.get(name).map_or(Some(Reason::NodeMissing), |node| problem(pod, node, checks));
    let problems: Vec<_> = labelled.iter().map(|name| (Some(name.clone()), problem(name))).collect();
    if problems.iter().any(|(_, problem)| problem.is_none()) {
        return Decision::Try(labelled);
    }
    let reasons = problems.into_iter().filter_map(|(node, problem)| Some((node, problem?)));
    Decision::Wait(Wait(reasons.collect()))
}

/// What is wrong with a node for this pod, as far as the node itself shows.
pub fn problem(pod: &Pod, node: &Node, checks: Checks) -> Option<Reason> {
    if checks == Checks::None {
        return None;
    }
    if !node.is_ready() {
        return Some(Reason::NodeNotReady);
    }
    if node.spec.unschedulable {
        return Some(Reason::NodeCordoned);
    }
    if let Some(taint) = affinity::intolerable(pod, node) {
        let value = taint.value.as_ref().map(|value| format!("={value}")).unwrap_or_default();
        return Some(Reason::NodeTainted(format!("{}{value}:{}", taint.key, taint.effect)));
    }
    affinity::mismatch(pod, node).map(Reason::NodeMismatch)
}
