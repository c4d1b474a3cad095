//! The other control-plane nodes, their agents and their schedulers, as the API shows them in this moment.

use std::collections::BTreeMap;

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ContainerState, ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::options::Release;
use crate::cluster::{AskError, CONTROL_PLANE_LABELS, asked};
use crate::fleet;
use crate::report::PeerCounts;
use crate::revision::Digest;
use crate::rollout::{self, AgentState, Other, OtherEtcd, Scheduler};
use crate::target::{self, SCHEDULER_PODS, SchedulerElsewhere};

/// Where kubelets renew their Leases: a node's own has its name.
const KUBELETS: &str = "kube-node-lease";
/// The DaemonSet controller counts the templates of a DaemonSet, and says on each pod from which one it is.
const TEMPLATE: &str = "deprecated.daemonset.template.generation";

/// What the API shows beside the own node.
#[allow(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug, Default)]
pub(super) struct Peers {
    pub others: Vec<Other>,
    /// Whether the API lists this node among the control-plane nodes, and which ones it lists
    pub is_listed: bool,
    pub names: Vec<String>,
    /// This node's own scheduler
    pub is_healthy: bool,
    pub is_leader: bool,
    /// Whether this node has a member of etcd
    pub runs_etcd: bool,
    /// UID of the agents' DaemonSet, and the generation of its newest pod template: that of this agent may be older
    pub agents: (String, i64),
    pub is_outdated: bool,
    /// Whether a node says that something of ours was applied there
    pub has_traces: bool,
    pub counts: PeerCounts,
}

/// The label of nodes that have a member of etcd.
const ETCD_LABEL: &str = "node-role.kubernetes.io/etcd";

/// Objects of which only a part is read.
#[derive(Debug, Deserialize)]
struct List<T> {
    items: Vec<T>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeItem {
    metadata: ObjectMeta,
    spec: Option<NodeSpec>,
    status: Option<NodeStatus>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeSpec {
    unschedulable: Option<bool>,
}

#[derive(Clone, Debug, Deserialize)]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Clone, Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

#[derive(Debug, Deserialize)]
struct MetadataOnly {
    metadata: ObjectMeta,
}

/// Asks for everything; `holder` is the node whose turn it is, of whose kubelet the last report is asked for too. Where the
/// scheduler is part of a server (`are_servers`), no pod shows it, and its Node says whether it serves.
pub(super) async fn read(
    client: &Client,
    node: &str,
    release: &Release,
    holder: Option<&str>,
    are_servers: bool,
) -> Result<Peers, AskError> {
    let (namespace, labels) = SCHEDULER_PODS;
    let (nodes, old_nodes, schedulers, more_schedulers, agents, leader, set, heartbeat) = tokio::try_join!(
        list::<NodeItem>(client, "/api/v1/nodes", CONTROL_PLANE_LABELS[0]),
        list::<NodeItem>(client, "/api/v1/nodes", CONTROL_PLANE_LABELS[1]),
        pods(client, namespace, labels[0]),
        pods(client, namespace, labels[1]),
        agents(client, release),
        leader(client),
        daemon_set(client, release),
        heartbeat(client, holder),
    )?;
    let mut all: BTreeMap<String, NodeItem> = BTreeMap::new();
    for item in nodes.into_iter().chain(old_nodes) {
        all.insert(item.metadata.name.clone().unwrap_or_default(), item);
    }
    let schedulers: Vec<Pod> = schedulers.into_iter().chain(more_schedulers).collect();
    let schedulers: BTreeMap<String, SchedulerElsewhere> =
        target::schedulers_elsewhere(&schedulers).into_iter().map(|one| (one.node.clone(), one)).collect();
    let metadata: Vec<ObjectMeta> = all.values().map(|item| item.metadata.clone()).collect();
    let leader = leader.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty());
    let leading = leader.and_then(|holder| fleet::leading(&holder, &metadata));
    let agents = agent_states(&agents);
    let is_well = |name: &str| schedulers.get(name).is_some_and(|one| one.ready && !one.ending);
    let is_healthy = |name: &str| if are_servers { all.get(name).is_some_and(is_ready) } else { is_well(name) };
    let others = all.iter().filter(|(name, _)| *name != node).map(|(name, item)| {
        let beat = heartbeat.clone().filter(|_| holder == Some(name.as_str())).unwrap_or_default();
        let agent = agents.get(name).copied().unwrap_or(AgentState::Unknown);
        Other { is_server: are_servers, ..other(name, item, schedulers.get(name), agent, beat) }
    });
    let template = |metadata: &ObjectMeta| metadata.annotations.as_ref()?.get(TEMPLATE)?.parse::<i64>().ok();
    let newest = set.as_ref().and_then(template).map_or(release.template, |newest| newest.max(release.template));
    let has_traces = |item: &NodeItem| {
        let ours = |key: &String| key.strip_prefix("schedpatch.io/").map(str::to_owned);
        let is_trace = |(key, value): (&String, &String)| ours(key).is_some_and(|key| rollout::is_trace(&key, value));
        item.metadata.annotations.iter().flatten().any(is_trace)
    };
    Ok(Peers {
        others: others.collect(),
        is_listed: all.contains_key(node),
        names: all.keys().cloned().collect(),
        is_healthy: is_healthy(node),
        is_leader: leading.as_deref() == Some(node),
        runs_etcd: all.get(node).is_some_and(runs_etcd),
        agents: (set.as_ref().and_then(|set| set.uid.clone()).unwrap_or_default(), newest),
        is_outdated: newest > release.template,
        has_traces: all.values().any(has_traces) || schedulers.values().any(|one| one.revision.is_some()),
        counts: PeerCounts {
            control_planes: all.len(),
            schedulers: all.keys().filter(|name| is_healthy(name)).count(),
            agents: agents.values().filter(|state| **state == AgentState::Running).count(),
        },
    })
}

fn other(
    name: &str,
    item: &NodeItem,
    scheduler: Option<&SchedulerElsewhere>,
    agent: AgentState,
    heartbeat: String,
) -> Other {
    let said = |key: &str| item.metadata.annotations.as_ref()?.get(&format!("schedpatch.io/{key}")).cloned();
    let digest = |key: &str| said(key).and_then(|text| Digest::try_from(text).ok());
    let phase = said("phase").unwrap_or_default();
    Other {
        name: name.to_owned(),
        is_ready: is_ready(item),
        heartbeat,
        agent,
        // a node that a person holds gets nothing either
        is_blocked: matches!(phase.as_str(), "Blocked" | "Restored"),
        is_changing: matches!(phase.as_str(), "Applying" | "Verifying" | "Restoring"),
        wanted: digest("digest"),
        proven: digest("verified-digest"),
        scheduler: scheduler.map(of_pod).unwrap_or_default(),
        is_server: false,
        etcd: OtherEtcd {
            runs: runs_etcd(item),
            is_cordoned: item.spec.as_ref().and_then(|spec| spec.unschedulable) == Some(true),
        },
    }
}

fn is_ready(item: &NodeItem) -> bool {
    let mut conditions = item.status.iter().flat_map(|status| status.conditions.iter().flatten());
    conditions.any(|condition| condition.kind == "Ready" && condition.status == "True")
}

/// k3s says on the node itself that it runs etcd there.
fn runs_etcd(item: &NodeItem) -> bool {
    item.metadata.labels.as_ref().and_then(|labels| labels.get(ETCD_LABEL)).is_some_and(|value| value == "true")
}

fn of_pod(one: &SchedulerElsewhere) -> Scheduler {
    Scheduler {
        revision: one.revision.clone(),
        generation: one.generation.as_ref().and_then(|generation| generation.parse().ok()),
        rolled_back_from: one.rolled_back_from.clone(),
        instance: one.instance.clone(),
        is_healthy: one.ready && !one.ending,
    }
}

/// Whether the kubelet saw the container end, and has not started it again: it waits before it does (`CrashLoopBackOff`).
fn has_ended(container: &ContainerStatus) -> bool {
    let ended = |state: &Option<ContainerState>| state.as_ref().is_some_and(|state| state.terminated.is_some());
    let waits = container.state.as_ref().is_some_and(|state| state.waiting.is_some());
    ended(&container.state) || waits && ended(&container.last_state)
}

/// Of several agents on a node, as while one replaces another, one that runs counts.
fn agent_states(pods: &[Pod]) -> BTreeMap<String, AgentState> {
    let mut states: BTreeMap<String, AgentState> = BTreeMap::new();
    for pod in pods {
        let Some(node) = pod.spec.as_ref().and_then(|spec| spec.node_name.clone()) else { continue };
        let statuses = pod.status.iter().flat_map(|status| status.container_statuses.iter().flatten());
        let containers: Vec<_> = statuses.collect();
        let state = if containers.iter().any(|one| one.state.as_ref().is_some_and(|state| state.running.is_some())) {
            AgentState::Running
        } else if !containers.is_empty() && containers.iter().all(|one| has_ended(one)) {
            AgentState::Ended
        } else {
            AgentState::Unknown
        };
        let known = states.entry(node).or_insert(state);
        if state == AgentState::Running {
            *known = state;
        }
    }
    states
}

async fn list<T: DeserializeOwned + Clone + std::fmt::Debug>(
    client: &Client,
    path: &str,
    label: &str,
) -> Result<Vec<T>, AskError> {
    let request = kube::core::Request::new(path).list(&ListParams::default().labels(label)).map_err(malformed)?;
    let list: List<T> = asked(client, "list nodes", client.request(request)).await?;
    Ok(list.items)
}

async fn pods(client: &Client, namespace: &str, labels: &str) -> Result<Vec<Pod>, AskError> {
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let right = format!("list pods in namespace {namespace}");
    Ok(asked(client, &right, pods.list(&ListParams::default().labels(labels))).await?.items)
}

/// The agents' pods; none where this agent was not installed by a DaemonSet.
async fn agents(client: &Client, release: &Release) -> Result<Vec<Pod>, AskError> {
    if release.daemon_set.is_none() {
        return Ok(Vec::new());
    }
    pods(client, &release.namespace, fleet::AGENT_LABELS).await
}

async fn daemon_set(client: &Client, release: &Release) -> Result<Option<ObjectMeta>, AskError> {
    let Some(name) = &release.daemon_set else { return Ok(None) };
    let path = format!("/apis/apps/v1/namespaces/{}/daemonsets", release.namespace);
    let request = kube::core::Request::new(path).get(name, &kube::api::GetParams::default()).map_err(malformed)?;
    let right = format!("get the DaemonSet {name} in namespace {}", release.namespace);
    let set: MetadataOnly = asked(client, &right, client.request(request)).await?;
    Ok(Some(set.metadata))
}

/// A Lease, if it exists.
async fn lease(client: &Client, (namespace, name): (&str, &str)) -> Result<Option<Lease>, AskError> {
    let path = format!("/apis/coordination.k8s.io/v1/namespaces/{namespace}/leases");
    let request = kube::core::Request::new(path).get(name, &kube::api::GetParams::default()).map_err(malformed)?;
    let right = format!("get the Lease {name} in namespace {namespace}");
    match asked(client, &right, client.request(request)).await {
        Ok(lease) => Ok(Some(lease)),
        Err(AskError::Missing) => Ok(None),
        Err(error) => Err(error),
    }
}

/// The leader among the schedulers. One that this agent may not know is nobody.
async fn leader(client: &Client) -> Result<Option<Lease>, AskError> {
    match lease(client, (crate::cluster::LEASE_NAMESPACE, "kube-scheduler")).await {
        Err(AskError::Forbidden(_)) => Ok(None),
        answer => answer,
    }
}

/// Changes whenever the node's kubelet reports.
async fn heartbeat(client: &Client, node: Option<&str>) -> Result<Option<String>, AskError> {
    let Some(node) = node else { return Ok(None) };
    let lease = lease(client, (KUBELETS, node)).await?;
    Ok(lease.and_then(|lease| lease.spec?.renew_time).map(|time| format!("{:?}", time.0)))
}

#[expect(clippy::needless_pass_by_value, reason = "it is what map_err gives")]
fn malformed(error: kube::core::request::Error) -> AskError {
    AskError::Away(error.to_string())
}
