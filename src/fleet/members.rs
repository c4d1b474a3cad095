//! The nodes and the agents in short, for those who steer a rollout.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::core::v1::{Node, Pod};
use kube::api::ListParams;
use kube::{Api, Client};

use super::ask::{AGENT_LABELS, Unanswered, answer, nodes, the_one};
use super::judge::{node_of, said};
use crate::rollout::is_trace;

/// The DaemonSet controller counts the templates of a DaemonSet here.
const TEMPLATE: &str = "deprecated.daemonset.template.generation";

/// What a control-plane node says of itself; empty where it says nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeSummary {
    /// The node
    pub name: String,
    /// Its phase
    pub phase: String,
    /// Why, in one word
    pub reason: String,
    /// Why, in words
    pub message: String,
    /// Since when
    pub since: String,
    /// What it wants
    pub wanted: String,
    /// What it has proven
    pub proven: String,
    /// The revision in place
    pub revision: String,
    /// The number of its commit
    pub generation: String,
    /// Version of the scheduler
    pub scheduler: String,
    /// Whether it has any annotation of an agent
    pub is_annotated: bool,
    /// Whether they show that something was begun there
    pub has_begun: bool,
}

/// The agents of a cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Agents {
    /// UID of their DaemonSet
    pub uid: String,
    /// Generation of its pod template
    pub template: i64,
    /// The nodes that have one
    pub nodes: BTreeSet<String>,
}

/// The control-plane nodes.
pub async fn nodes_now(client: &Client) -> Result<Vec<NodeSummary>, Unanswered> {
    let summaries = nodes(client).await?.into_iter().map(|node| {
        let said = said(&node);
        let annotations = || node.annotations.iter().flatten();
        let ours = || annotations().filter_map(|(key, value)| Some((key.strip_prefix("schedpatch.io/")?, value)));
        let (is_annotated, has_begun) = (ours().next().is_some(), ours().any(|(key, value)| is_trace(key, value)));
        let text = |text: Option<String>| text.unwrap_or_default();
        NodeSummary {
            name: text(node.name.clone()),
            phase: text(said.phase),
            reason: text(said.reason),
            message: text(said.message),
            since: text(said.since),
            wanted: text(said.digest),
            proven: text(said.verified_digest),
            revision: text(said.revision),
            generation: text(said.generation),
            scheduler: text(said.scheduler_version),
            is_annotated,
            has_begun,
        }
    });
    Ok(summaries.collect())
}

/// The agents; none where no DaemonSet of them is installed.
pub async fn agents(client: &Client, namespace: Option<&str>) -> Result<Option<Agents>, Unanswered> {
    let sets: Api<DaemonSet> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let of_agents = ListParams::default().labels(AGENT_LABELS);
    let sets = answer("list daemonsets.apps".to_owned(), sets.list(&of_agents)).await?;
    let Some(set) = the_one(sets.items).map_err(Unanswered::Refused)? else { return Ok(None) };
    let namespace = set.metadata.namespace.clone().unwrap_or_default();
    let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = answer(format!("list pods in namespace {namespace}"), pods.list(&of_agents)).await?;
    let template = set.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE)?.parse().ok());
    Ok(Some(Agents {
        uid: set.metadata.uid.unwrap_or_default(),
        template: template.unwrap_or_default(),
        nodes: pods.items.iter().filter_map(node_of).map(str::to_owned).collect(),
    }))
}

/// Whether a node's agent runs and its kubelet reports that the node is Ready: then it can go on by itself.
pub async fn is_alive(client: &Client, node: &str) -> Result<bool, Unanswered> {
    let pods: Api<Pod> = Api::all(client.clone());
    let here = ListParams::default().labels(AGENT_LABELS).fields(&format!("spec.nodeName={node}"));
    let pods = answer("list pods in all namespaces".to_owned(), pods.list(&here)).await?;
    let statuses = pods.items.iter().filter_map(|pod| pod.status.as_ref()?.container_statuses.as_ref()).flatten();
    let runs = statuses.filter_map(|status| status.state.as_ref()).any(|state| state.running.is_some());
    let nodes: Api<Node> = Api::all(client.clone());
    let named = ListParams::default().fields(&format!("metadata.name={node}"));
    let nodes = answer("list nodes".to_owned(), nodes.list(&named)).await?;
    let conditions = nodes.items.iter().filter_map(|node| node.status.as_ref()?.conditions.as_ref()).flatten();
    Ok(runs && conditions.into_iter().any(|condition| condition.type_ == "Ready" && condition.status == "True"))
}
