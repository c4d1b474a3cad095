//! What an uninstall still waits for, and which nodes a person must not go on without.

use std::collections::BTreeSet;

use super::NodeSummary;
use crate::finding::Finding;
use crate::rollout::Record;

/// The nodes from which everything must be removed, by how far that is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Leftover {
    /// Everything is removed
    pub done: Vec<String>,
    /// The agent has not said yet that it is done
    pub waits: Vec<String>,
    /// The agent is done, and its annotations are still on the node
    pub annotated: Vec<String>,
    /// Nobody can do it: the node has annotations of an agent, and no agent
    pub without_agent: Vec<String>,
    /// A person said to go on without it
    pub forgotten: Vec<String>,
}

impl Leftover {
    /// Sorts the nodes. `agents` are those with an agent now, `meant` those that must be restored in any case; every node with
    /// annotations must be restored too, unless only `asked` ones are meant.
    pub fn of(
        record: &Record,
        nodes: &[NodeSummary],
        agents: &BTreeSet<String>,
        meant: &BTreeSet<String>,
        asked: &BTreeSet<String>,
    ) -> Self {
        let mut sorted = Self::default();
        for node in nodes {
            let name = &node.name;
            let is_meant = if asked.is_empty() {
                node.is_annotated || agents.contains(name) || meant.contains(name)
            } else {
                asked.contains(name)
            };
            if !is_meant {
                continue;
            }
            let group = if record.forgotten.contains(name) {
                &mut sorted.forgotten
            } else if record.restored.contains_key(name) {
                if node.is_annotated { &mut sorted.annotated } else { &mut sorted.done }
            } else if node.is_annotated && !agents.contains(name) {
                &mut sorted.without_agent
            } else {
                &mut sorted.waits
            };
            group.push(name.clone());
        }
        sorted
    }

    /// Whether nothing is left that anybody waits for.
    pub fn is_done(&self) -> bool {
        self.waits.is_empty() && self.annotated.is_empty() && self.without_agent.is_empty()
    }

    /// Whether only nodes are left on which nobody can do anything.
    pub fn is_stuck(&self) -> bool {
        self.waits.is_empty() && self.annotated.is_empty() && !self.without_agent.is_empty()
    }
}

/// Why a person must not go on without this node.
pub fn must_not_forget(name: &str, record: &Record, nodes: &[NodeSummary], is_alive: bool) -> Option<Finding> {
    let is_in_record = record.entry.as_ref().is_some_and(|entry| entry.node == name)
        || record.stopped.as_ref().is_some_and(|stopped| stopped.node == name);
    if !is_in_record && !nodes.iter().any(|node| node.name == name) {
        let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
        let message = format!("there is no control-plane node {name}; there are: {}", names.join(", "));
        return Some(Finding::error("no-such-node", message, "give one of these"));
    }
    // a node that only stopped the rollout has no turn that another one could collide with
    let has_turn = record.entry.as_ref().is_some_and(|entry| entry.node == name);
    let is_only_stopped = !has_turn && record.stopped.as_ref().is_some_and(|stopped| stopped.node == name);
    (is_alive && !is_only_stopped).then(|| {
        let message = format!("node {name} is Ready and its agent runs, so it goes on by itself");
        let way_out = "see schedpatch rollout status for what it waits for; --force ends its turn all the same, and another node \
                       may begin while this one is in the middle of a change";
        Finding::error("node-lives", message, way_out)
    })
}
