//! The last decisions, for people who ask why.

use std::collections::VecDeque;
use std::sync::Arc;

use serde_json::{Value, json};

use crate::select::Exemption;
use crate::snapshot::{Index, UNKNOWN};

/// So many are kept.
const KEPT: usize = 64;
/// Points of so many nodes are kept in all: 64 decisions about 8,000 nodes.
const KEPT_NODES: usize = 512 * 1024;
/// Memory of names that only decisions keep, beside the last one. Where a label of changing values is taken for a node's name,
/// each round brings other names.
const KEPT_INDEX_BYTES: usize = 4 * 1024 * 1024;
/// So many names of nodes that no series is about are kept for each.
const KEPT_UNKNOWN: usize = 32;
/// So many nodes are named for each.
const NAMED: usize = 5;

/// What was asked, and what was answered.
#[derive(Clone, Debug)]
pub struct Decision {
    /// When, as people read it
    pub time: String,
    /// `filter` or `prioritize`
    pub verb: &'static str,
    /// Namespace and name
    pub pod: String,
    /// The pod's UID
    pub uid: String,
    /// How many nodes were asked for
    pub asked: usize,
    /// Which ones, if they were looked up
    pub nodes: Option<AskedNodes>,
    /// What was answered
    pub outcome: Outcome,
}

/// The nodes that were asked for.
#[derive(Clone, Debug)]
pub struct AskedNodes {
    /// Names of the nodes
    pub index: Arc<Index>,
    /// Where they are in it
    pub positions: Vec<u32>,
    /// Some of those that no series is about
    pub unknown: Vec<Box<str>>,
}

impl AskedNodes {
    /// Remembers the nodes at these positions; `name` gives the name of one by its place.
    pub fn new<'n>(index: &Arc<Index>, positions: Vec<u32>, name: impl Fn(usize) -> &'n str) -> Self {
        let unknown = positions.iter().enumerate().filter(|(_, position)| **position == UNKNOWN);
        let unknown = unknown.take(KEPT_UNKNOWN).map(|(at, _)| name(at).into()).collect();
        Self { index: Arc::clone(index), positions, unknown }
    }

    /// Their names, as far as they are known.
    pub fn names(&self) -> Vec<String> {
        let known = self.positions.iter().filter_map(|position| Some(self.index.name(*position)?.to_string()));
        known.chain(self.unknown.iter().map(ToString::to_string)).collect()
    }
}

/// What was answered.
#[derive(Clone, Debug)]
pub enum Outcome {
    /// No policy counts for the pod
    Exempt(Exemption),
    /// Points of the nodes
    Scored(Vec<u8>),
    /// Refusals: how many, and some of them with their reason
    Filtered(usize, Vec<(String, String)>),
}

/// The last decisions, oldest first.
#[derive(Debug, Default)]
pub struct Decisions(VecDeque<Decision>);

impl Decisions {
    /// Remembers one.
    pub fn push(&mut self, decision: Decision) {
        if self.0.len() == KEPT {
            self.0.pop_front();
        }
        self.0.push_back(decision);
        while self.0.len() > 1 && self.0.iter().map(|decision| decision.asked).sum::<usize>() > KEPT_NODES {
            self.0.pop_front();
        }
        self.forget_names();
    }

    /// Gives up the nodes of older decisions where their names take too much memory.
    fn forget_names(&mut self) {
        let (mut kept, mut bytes, mut is_full) = (Vec::<Arc<Index>>::new(), 0, false);
        for decision in self.0.iter_mut().rev() {
            let Some(nodes) = &decision.nodes else { continue };
            if kept.iter().any(|own| Arc::ptr_eq(own, &nodes.index)) {
                continue;
            }
            // the last one is in use anyway
            bytes += if kept.is_empty() { 0 } else { nodes.index.bytes() };
            is_full |= bytes > KEPT_INDEX_BYTES;
            if is_full {
                decision.nodes = None;
                continue;
            }
            kept.push(Arc::clone(&nodes.index));
        }
    }

    /// The last decision of this verb about a pod. With a UID, another pod that had the same name before does not count.
    pub fn last(&self, verb: &str, pod: &str, uid: &str) -> Option<&Decision> {
        let is_same = |own: &str| own == uid || own.is_empty() || uid.is_empty();
        self.0.iter().rev().find(|decision| decision.verb == verb && decision.pod == pod && is_same(&decision.uid))
    }

    /// The nodes that the scheduler asked for last about a pod, and when. Those of `filter` are preferred, since those of
    /// `prioritize` are what `filter` left of them.
    pub fn nodes_of(&self, pod: &str, uid: &str) -> Option<(&AskedNodes, &str)> {
        let nodes = |verb| self.last(verb, pod, uid).and_then(|one| Some((one.nodes.as_ref()?, one.time.as_str())));
        nodes("filter").or_else(|| nodes("prioritize"))
    }

    /// All of them, newest first.
    pub fn json(&self) -> Value {
        self.0.iter().rev().map(Decision::json).collect()
    }
}

impl Decision {
    /// The points that a node got, if it was asked for.
    pub fn points_of(&self, node: &str) -> Option<u8> {
        let (Outcome::Scored(points), Some(AskedNodes { index, positions, .. })) = (&self.outcome, &self.nodes) else {
            return None;
        };
        let position = index.position(node);
        let at = positions.iter().position(|own| *own == position && index.name(position).is_some())?;
        points.get(at).copied()
    }

    /// The most points that a node got.
    pub fn most_points(&self) -> Option<u8> {
        let Outcome::Scored(points) = &self.outcome else { return None };
        points.iter().copied().max()
    }

    fn json(&self) -> Value {
        let outcome = match &self.outcome {
            Outcome::Exempt(why) => json!({ "exempt": why.name() }),
            Outcome::Scored(_) if self.nodes.is_none() => json!({ "forgotten": "names would take too much memory" }),
            Outcome::Scored(points) => {
                let name = |at: usize| {
                    let nodes = self.nodes.as_ref()?;
                    nodes.index.name(*nodes.positions.get(at)?)
                };
                let mut order: Vec<usize> = (0..points.len()).collect();
                order.sort_by_key(|at| std::cmp::Reverse(points[*at]));
                let best = order.iter().take(NAMED).map(|at| {
                    json!({ "node": name(*at).map_or("(no metric knows it)", |name| name), "points": points[*at] })
                });
                let unknown = (0..points.len()).filter(|at| name(*at).is_none()).count();
                json!({ "best": best.collect::<Vec<_>>(), "nodesWithoutMetrics": unknown })
            }
            Outcome::Filtered(refused, some) => {
                let some = some.iter().take(NAMED).map(|(node, why)| json!({ "node": node, "reason": why }));
                json!({ "refused": refused, "some": some.collect::<Vec<_>>() })
            }
        };
        json!({ "time": self.time, "verb": self.verb, "pod": self.pod, "uid": self.uid, "nodes": self.asked, "answer": outcome })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_last_decisions_are_kept_and_the_newest_comes_first() {
        let mut decisions = Decisions::default();
        let decision = |number: usize, asked| Decision {
            time: String::new(),
            verb: "filter",
            pod: format!("n/p{number}"),
            uid: String::new(),
            asked,
            nodes: None,
            outcome: Outcome::Exempt(Exemption::Own),
        };
        for number in 0..KEPT + 3 {
            decisions.push(decision(number, 1));
        }
        let all = decisions.json();
        assert_eq!(all.as_array().map(Vec::len), Some(KEPT));
        assert_eq!(all[0]["pod"], format!("n/p{}", KEPT + 2));
        assert_eq!(all[0]["answer"]["exempt"], "own");
        assert!(decisions.last("filter", "n/p0", "").is_none() && decisions.last("filter", "n/p9", "").is_some());
        for number in 0..9 {
            decisions.push(decision(number, KEPT_NODES / 4));
        }
        assert_eq!(decisions.json().as_array().map(Vec::len), Some(4), "large requests push the others out");
    }

    #[test]
    fn the_nodes_of_a_pods_last_question_are_kept_those_of_filter_first() {
        let mut index = Arc::default();
        let read = |index: &mut Arc<Index>| {
            let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n";
            let config = crate::config::parse("test.yaml".as_ref(), text).expect("valid");
            let series =
                ["x", "y"].map(|node| format!(r#"{{"metric":{{"node":"{node}"}},"value":[1,"1"]}}"#)).join(",");
            let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
            let now = tokio::time::Instant::now();
            let read =
                crate::snapshot::Values::read(&config.policies[0], &[body.as_bytes()], &Arc::default(), index, now);
            read.expect("an answer")
        };
        read(&mut index);
        let mut decisions = Decisions::default();
        let mut push = |verb: &'static str, names: &[&str]| {
            let positions = names.iter().map(|name| index.position(name)).collect();
            let nodes = Some(AskedNodes::new(&index, positions, |at| names[at]));
            let (time, uid, outcome) = (verb.to_owned(), "old".to_owned(), Outcome::Scored(vec![1; names.len()]));
            decisions.push(Decision { time, verb, pod: "n/p".to_owned(), uid, asked: names.len(), nodes, outcome });
        };
        push("filter", &["new", "y", "x"]);
        push("prioritize", &["x"]);
        let (nodes, time) = decisions.nodes_of("n/p", "").expect("asked for");
        assert_eq!((nodes.names(), time), (["y", "x", "new"].map(str::to_owned).to_vec(), "filter"));
        assert!(decisions.nodes_of("n/other", "").is_none());
        assert_eq!(decisions.last("prioritize", "n/p", "").and_then(|one| one.points_of("x")), Some(1));
        assert!(decisions.nodes_of("n/p", "old").is_some());
        assert!(decisions.nodes_of("n/p", "new").is_none(), "a pod that was made anew is another pod");
        assert!(decisions.last("prioritize", "n/p", "new").is_none());
    }

    #[test]
    fn names_of_older_decisions_are_given_up_where_each_round_brings_others() {
        let mut decisions = Decisions::default();
        let config = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n";
        let config = crate::config::parse("test.yaml".as_ref(), config).expect("valid");
        let mut index: Arc<Index> = Arc::default();
        for round in 0..20 {
            let series = (0..500).map(|n| format!(r#"{{"metric":{{"node":"pod-{round}-{n}"}},"value":[1,"1"]}}"#));
            let series = series.collect::<Vec<_>>().join(",");
            let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
            let (policy, now) = (&config.policies[0], tokio::time::Instant::now());
            let read = crate::snapshot::Values::read(policy, &[body.as_bytes()], &Arc::default(), &mut index, now);
            read.expect("an answer");
            for (uid, positions) in [("one", vec![0]), ("two", vec![1])] {
                let nodes = Some(AskedNodes::new(&index, positions, |_| "x"));
                let (time, pod, outcome) = (String::new(), "n/p".to_owned(), Outcome::Scored(vec![1]));
                decisions.push(Decision { time, verb: "prioritize", pod, uid: uid.into(), asked: 1, nodes, outcome });
            }
        }
        let held: Vec<&AskedNodes> = decisions.0.iter().filter_map(|one| one.nodes.as_ref()).collect();
        let mut different: Vec<usize> = held.iter().map(|one| Arc::as_ptr(&one.index).addr()).collect();
        different.dedup();
        assert_eq!(different.len(), 3, "the last one, and two that fit into 4 MiB");
        assert_eq!(decisions.json()[0]["answer"]["best"][0]["node"], "pod-0-1");
        let oldest = decisions.json()[39]["answer"]["forgotten"].clone();
        assert!(
            oldest.is_string() && decisions.last("prioritize", "n/p", "two").is_some_and(|one| one.nodes.is_some())
        );
    }
}
