//! The nodes and the agents in short, for those who steer a rollout.

use std::collections::BTreeSet;

use k8s_openapi::api::apps::v1::DaemonSet;
use kube::api::ListParams;
use kube::{Api, Client};

use super::ask::{AGENT_LABELS, Unanswered, answer, nodes, the_one};
use super::judge::{node_of, said};

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
        let text = |text: Option<String>| text.unwrap_or_default();
        NodeSummary {
            name: text(node.name),
            phase: text(said.phase),
            reason: text(said.reason),
            message: text(said.message),
            since: text(said.since),
            wanted: text(said.digest),
            proven: text(said.verified_digest),
            revision: text(said.revision),
            generation: text(said.generation),
            scheduler: text(said.scheduler_version),
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
    let pods: Api<k8s_openapi::api::core::v1::Pod> = Api::namespaced(client.clone(), &namespace);
    let pods = answer(format!("list pods in namespace {namespace}"), pods.list(&of_agents)).await?;
    let template = set.metadata.annotations.as_ref().and_then(|all| all.get(TEMPLATE)?.parse().ok());
    Ok(Some(Agents {
        uid: set.metadata.uid.unwrap_or_default(),
        template: template.unwrap_or_default(),
        nodes: pods.items.iter().filter_map(node_of).map(str::to_owned).collect(),
    }))
}
