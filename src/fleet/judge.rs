//! From the API's objects to one row for each node, and whether all is proven. Pure.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Container, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::gap::{self, gap};
use super::{AgentPod, Counts, FORMAT_VERSION, Fleet, NodeAnnotations, NodeRow, Wanted, wanted};
use crate::finding::Finding;
use crate::rollout::Record;
use crate::target;

const HOSTNAME: &str = "kubernetes.io/hostname";

/// What the API said.
#[derive(Clone, Debug)]
pub struct ClusterObjects {
    /// The control-plane nodes
    pub nodes: Vec<ObjectMeta>,
    /// The agents' DaemonSet
    pub set: Option<DaemonSet>,
    /// The agents' pods
    pub agents: Vec<Pod>,
    /// Pods that may be a scheduler's
    pub schedulers: Vec<Pod>,
    /// What the agents' sources show, by name
    pub config_maps: BTreeMap<String, ConfigMap>,
    /// Who leads, or why that is unknown
    pub lease: Result<Option<Lease>, Finding>,
    /// What the rollout's Lease says, if we may know
    pub rollout: Option<Record>,
}

/// Judges.
pub fn judge(answers: &ClusterObjects) -> Fleet {
    let ClusterObjects { nodes, set, agents, schedulers, config_maps, lease, rollout } = answers;
    let mut findings = Vec::new();
    let wanted = match set.as_ref().map(|set| what_is_wanted(set, config_maps)) {
        None => {
            findings.push(no_agents());
            Wanted::default()
        }
        Some((wanted, trouble)) => {
            findings.extend(trouble);
            wanted
        }
    };
    let mut rows: BTreeMap<String, NodeRow> = BTreeMap::new();
    for node in nodes {
        let row = row(&mut rows, node.name.as_deref().unwrap_or_default());
        (row.control_plane, row.said) = (true, said(node));
    }
    for pod in agents.iter().filter(|pod| is_alive(pod)) {
        let Some(node) = node_of(pod) else { continue };
        let agent = agent(pod, set.as_ref());
        let known = &mut row(&mut rows, node).agent;
        // while one replaces another, the newer one is the one that will stay
        if known.as_ref().is_none_or(|known| !known.current) {
            *known = Some(agent);
        }
    }
    for scheduler in target::schedulers_elsewhere(schedulers) {
        let row = row(&mut rows, &scheduler.node);
        row.scheduler = Some(scheduler.into());
    }
    let leader = match lease {
        Ok(lease) => lease.as_ref().and_then(|lease| lease.spec.as_ref()?.holder_identity.clone()),
        Err(finding) => {
            findings.push(finding.clone());
            None
        }
    }
    .filter(|leader| !leader.is_empty());
    let leading = leader.as_deref().map(|leader| leading(leader, nodes));
    let mut rows: Vec<NodeRow> = rows.into_values().collect();
    for row in &mut rows {
        row.leader = leading.as_ref().map(|leading| leading.as_ref() == Some(&row.name));
        let is_out = rollout.as_ref().is_some_and(|record| record.must_restore(&row.name));
        row.gap = if is_out { Some(gap::uninstalled()) } else { gap(row, wanted.digest.as_deref()) };
        row.proven = row.gap.is_none();
    }
    let count = |is: fn(&NodeRow) -> bool| rows.iter().filter(|row| is(row)).count();
    let counts = Counts {
        control_planes: count(|row| row.control_plane),
        agents: count(|row| row.agent.is_some()),
        schedulers: count(|row| row.scheduler.is_some()),
        proven: count(|row| row.proven),
    };
    let proven = !rows.is_empty() && counts.proven == rows.len();
    Fleet { version: FORMAT_VERSION, scope: "cluster", proven, wanted, counts, leader, nodes: rows, findings }
}

fn row<'r>(rows: &'r mut BTreeMap<String, NodeRow>, name: &str) -> &'r mut NodeRow {
    rows.entry(name.to_owned()).or_insert_with(|| NodeRow { name: name.to_owned(), ..NodeRow::default() })
}

/// What is wanted, and why that is not known.
fn what_is_wanted(set: &DaemonSet, maps: &BTreeMap<String, ConfigMap>) -> (Wanted, Option<Finding>) {
    let namespace = set.metadata.namespace.as_deref().unwrap_or_default();
    let full = |name: &str| format!("{namespace}/{name}");
    let daemon_set = set.metadata.name.as_deref().map(full);
    match wanted::sources(set) {
        Err(finding) => (Wanted { daemon_set, ..Wanted::default() }, Some(finding)),
        Ok(sources) => {
            let names: BTreeSet<String> = sources.iter().map(|source| full(&source.config_map)).collect();
            let missing = sources.iter().find(|source| !source.optional && !maps.contains_key(&source.config_map));
            let digest = missing.is_none().then(|| wanted::digest(set, &sources, maps).to_string());
            let wanted = Wanted { digest, daemon_set, config_maps: names.into_iter().collect() };
            (wanted, missing.map(|source| no_config_map(&full(&source.config_map))))
        }
    }
}

fn annotation<'m>(metadata: &'m ObjectMeta, key: &str) -> Option<&'m String> {
    metadata.annotations.as_ref()?.get(key)
}

pub(super) fn said(node: &ObjectMeta) -> NodeAnnotations {
    let said = |key: &str| annotation(node, &format!("schedpatch.io/{key}")).cloned();
    NodeAnnotations {
        phase: said("phase"),
        reason: said("reason"),
        message: said("message"),
        since: said("since"),
        platform: said("platform"),
        scheduler_version: said("scheduler-version"),
        digest: said("digest"),
        verified_digest: said("verified-digest"),
        revision: said("revision"),
        generation: said("generation"),
        extenders_unreachable: said("extenders-unreachable"),
        scheduler_image: said("scheduler-image"),
    }
}

pub(super) fn node_of(pod: &Pod) -> Option<&str> {
    pod.spec.as_ref()?.node_name.as_deref()
}

fn name_of(pod: &Pod) -> String {
    pod.metadata.name.clone().unwrap_or_default()
}

/// Neither on its way out nor thrown out.
fn is_alive(pod: &Pod) -> bool {
    let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
    pod.metadata.deletion_timestamp.is_none() && !matches!(phase, Some("Failed" | "Succeeded"))
}

fn agent(pod: &Pod, set: Option<&DaemonSet>) -> AgentPod {
    let own = pod.spec.as_ref().and_then(wanted::agent_of);
    let asked = set.and_then(wanted::template).and_then(wanted::agent_of);
    let status = pod.status.as_ref();
    let statuses = status.and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let status = own.and_then(|own| statuses.into_iter().find(|status| status.name == own.name));
    let state = status.and_then(|status| status.state.as_ref());
    let waiting = state.and_then(|state| state.waiting.as_ref()?.reason.clone());
    let is_running = state.is_some_and(|state| state.running.is_some());
    AgentPod {
        pod: name_of(pod),
        current: own.zip(asked).is_some_and(|(own, asked)| runs_as(own, asked)),
        stopped: (!is_running).then(|| waiting.unwrap_or_else(|| "it was not started yet".to_owned())),
        ready: status.is_some_and(|status| status.ready),
    }
}

/// Whether a container has the flags and variables that were asked for. Others may have added to it, or changed its image.
fn runs_as(own: &Container, asked: &Container) -> bool {
    let variables = own.env.as_deref().unwrap_or_default();
    (&own.command, &own.args) == (&asked.command, &asked.args)
        && asked.env.iter().flatten().all(|variable| variables.contains(variable))
}

/// The node that leads. The holder is a host's name and something random; the node may be called a little differently.
pub(crate) fn leading(holder: &str, nodes: &[ObjectMeta]) -> Option<String> {
    let host = holder.rsplit_once('_').map_or(holder, |(host, _)| host).to_lowercase();
    let names = |node: &ObjectMeta| {
        let label = node.labels.as_ref().and_then(|labels| labels.get(HOSTNAME));
        [node.name.as_ref(), label].into_iter().flatten().map(|name| name.to_lowercase()).collect::<Vec<_>>()
    };
    let first = |name: &str| name.split('.').next().unwrap_or_default().to_owned();
    let exact = nodes.iter().find(|node| names(node).contains(&host));
    let mut alike = nodes.iter().filter(|node| names(node).iter().any(|name| first(name) == first(&host)));
    let alike = alike.next().filter(|_| alike.next().is_none());
    exact.or(alike)?.name.clone()
}

fn no_agents() -> Finding {
    let message = "there is no DaemonSet of agents (labels app.kubernetes.io/part-of=schedpatch, component=agent)";
    Finding::warning(
        "no-agents",
        message,
        "install it: docs/use/install.md; where it is in another namespace: --namespace",
    )
}

fn no_config_map(name: &str) -> Finding {
    let message = format!("the ConfigMap {name}, which says what is wanted, is not there");
    Finding::warning(
        "configmap-missing",
        message,
        "create it, or install the chart again; until then the agents keep what is applied",
    )
}
