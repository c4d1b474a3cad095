//! What the watches showed: nodes, their pins, and the pods that wait.

use std::collections::{BTreeMap, BTreeSet};

use crate::decide::{Checks, Decision, Mode, Pins, decide};
use crate::labels::{Labels, PodKey};
use crate::model::{Node, Pod};

/// A pod's UID and how it gets its node.
pub type PodId = (String, Mode);

/// Nodes, pins and open pods.
#[derive(Clone, Debug)]
pub struct State {
    labels: Labels,
    checks: Checks,
    nodes: BTreeMap<String, Node>,
    pins: Pins,
    pods: BTreeMap<PodId, Pod>,
    by_key: BTreeMap<PodKey, BTreeSet<PodId>>,
}

impl State {
    /// Knows nothing yet.
    pub fn new(labels: Labels, checks: Checks) -> Self {
        Self {
            labels,
            checks,
            nodes: BTreeMap::new(),
            pins: Pins::default(),
            pods: BTreeMap::new(),
            by_key: BTreeMap::new(),
        }
    }

    /// All pins.
    pub fn pins(&self) -> &Pins {
        &self.pins
    }

    /// How many pods are open in a mode.
    pub fn open(&self, mode: Mode) -> usize {
        self.pods.keys().filter(|(_, its)| *its == mode).count()
    }

    /// All open pods.
    pub fn ids(&self) -> Vec<PodId> {
        self.pods.keys().cloned().collect()
    }

    /// An open pod.
    pub fn pod(&self, id: &PodId) -> Option<&Pod> {
        self.pods.get(id)
    }

    /// The decision for an open pod.
    pub fn decide(&self, id: &PodId) -> Decision {
        self.pods
            .get(id)
            .map_or(Decision::Leave, |pod| decide(pod, id.1, self.checks, &self.labels, &self.pins, &self.nodes))
    }

    /// Takes up a node; returns the pods that it concerns.
    pub fn set_node(&mut self, node: Node) -> BTreeSet<PodId> {
        let name = node.metadata.name.clone();
        let old = self.nodes.get(&name);
        let is_same_labels = old.is_some_and(|old| old.metadata.labels == node.metadata.labels);
        if is_same_labels && old.is_some_and(|old| old.spec == node.spec && old.status == node.status) {
            return BTreeSet::new();
        }
        let new_pins = self.labels.pins(&node.metadata.labels);
        let old_pins = old.map(|old| self.labels.pins(&old.metadata.labels)).unwrap_or_default();
        let mut keys = self.pins.set(&name, &old_pins, &new_pins);
        // another state of the node concerns all pods that are pinned to it
        keys.extend(new_pins.into_keys());
        self.nodes.insert(name, node);
        self.ids_of(&keys)
    }

    /// Forgets a node; returns the pods that it concerns.
    pub fn drop_node(&mut self, name: &str) -> BTreeSet<PodId> {
        let Some(node) = self.nodes.remove(name) else { return BTreeSet::new() };
        let pins = self.labels.pins(&node.metadata.labels);
        let keys = self.pins.set(name, &pins, &BTreeMap::new());
        self.pins.node_deleted(name, &pins);
        self.ids_of(&keys)
    }

    /// Takes up all nodes at once.
    pub fn reset_nodes(&mut self, nodes: Vec<Node>) -> BTreeSet<PodId> {
        let there: BTreeSet<&str> = nodes.iter().map(|node| node.metadata.name.as_str()).collect();
        let gone: Vec<String> = self.nodes.keys().filter(|name| !there.contains(name.as_str())).cloned().collect();
        let mut ids: BTreeSet<PodId> = gone.iter().flat_map(|name| self.drop_node(name)).collect();
        for node in nodes {
            ids.extend(self.set_node(node));
        }
        ids
    }

    /// Takes up a pod. Returns whether anything changed.
    pub fn set_pod(&mut self, mode: Mode, pod: Pod) -> bool {
        let id = (pod.metadata.uid.clone(), mode);
        if self.pods.get(&id) == Some(&pod) {
            return false;
        }
        let key = PodKey::of(&pod.metadata.namespace, &pod.metadata.name);
        self.by_key.entry(key).or_default().insert(id.clone());
        self.pods.insert(id, pod);
        true
    }

    /// Forgets a pod.
    pub fn drop_pod(&mut self, id: &PodId) {
        let Some(pod) = self.pods.remove(id) else { return };
        let key = PodKey::of(&pod.metadata.namespace, &pod.metadata.name);
        if let Some(ids) = self.by_key.get_mut(&key) {
            ids.remove(id);
            if ids.is_empty() {
                self.by_key.remove(&key);
            }
        }
    }

    /// Takes up all pods of a mode at once. Returns those that are gone, and those that are new or changed.
    pub fn reset_pods(&mut self, mode: Mode, pods: Vec<Pod>) -> (Vec<PodId>, Vec<PodId>) {
        let there: BTreeSet<&str> = pods.iter().map(|pod| pod.metadata.uid.as_str()).collect();
        let is_gone = |id: &&PodId| id.1 == mode && !there.contains(id.0.as_str());
        let gone: Vec<PodId> = self.pods.keys().filter(is_gone).cloned().collect();
        for id in &gone {
            self.drop_pod(id);
        }
        let mut changed = Vec::new();
        for pod in pods {
            let id = (pod.metadata.uid.clone(), mode);
            if self.set_pod(mode, pod) {
                changed.push(id);
            }
        }
        (gone, changed)
    }

    fn ids_of(&self, keys: &BTreeSet<PodKey>) -> BTreeSet<PodId> {
        keys.iter().filter_map(|key| self.by_key.get(key)).flatten().cloned().collect()
    }
}
