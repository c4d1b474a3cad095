//! What is asked of the API, and what a refusal means in words. Reads only.

use std::collections::BTreeMap;
use std::path::Path;

use k8s_openapi::api::apps::v1::DaemonSet;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::ListParams;
use kube::config::Kubeconfig;
use kube::{Api, Client};

use super::judge::ClusterObjects;
use super::wanted;
use crate::cluster::{self, ANSWER_TIMEOUT, CONTROL_PLANE_LABELS, root_cause};
use crate::finding::{Finding, Level};
use crate::target::SCHEDULER_PODS;

/// Agents and their DaemonSet are found by these, whatever they are called.
pub(crate) const AGENT_LABELS: &str = "app.kubernetes.io/part-of=schedpatch,app.kubernetes.io/component=agent";
/// Where the Lease of the schedulers is.
const SYSTEM: &str = "kube-system";
const LEASE: &str = "kube-scheduler";

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Unanswered {
    /// The API server cannot be reached now, perhaps later
    Away(Finding),
    /// It answered, and asking again would not help
    Refused(Finding),
}

impl Unanswered {
    /// In words.
    pub fn finding(self) -> Finding {
        match self {
            Self::Away(finding) | Self::Refused(finding) => finding,
        }
    }
}

/// Connects as a person does: by a kubeconfig, or else as the pod's service account.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, Finding> {
    if let Some(context) = context {
        // what cannot be read is reported below
        let read = kubeconfig.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        let names = read.map(|read| read.contexts.into_iter().map(|known| known.name).collect::<Vec<_>>());
        if let Ok(names) = names
            && !names.iter().any(|name| name == context)
        {
            let message = format!("the kubeconfig has no context {context:?}; it has: {}", names.join(", "));
            return Err(Finding::error("no-such-context", message, "give one of them with --context NAME"));
        }
    }
    cluster::connect(kubeconfig, context).await.map_err(|finding| {
        let way_out = "see kubectl config get-contexts; give --kubeconfig FILE and --context NAME, or set KUBECONFIG";
        Finding { way_out: way_out.to_owned(), ..finding }
    })
}

/// Asks for everything once.
pub async fn ask(client: &Client, namespace: Option<&str>) -> Result<ClusterObjects, Unanswered> {
    let sets: Api<DaemonSet> = match namespace {
        Some(namespace) => Api::namespaced(client.clone(), namespace),
        None => Api::all(client.clone()),
    };
    let everywhere =
        namespace.map_or_else(|| "all namespaces".to_owned(), |namespace| format!("namespace {namespace}"));
    let of_agents = ListParams::default().labels(AGENT_LABELS);
    let rollout = cluster::RolloutLease::new(client.clone());
    let (nodes, schedulers, sets, lease, rollout) = tokio::join!(
        nodes(client),
        schedulers(client),
        answer(format!("list daemonsets.apps in {everywhere}"), sets.list(&of_agents)),
        lease(client),
        rollout.read(),
    );
    // good to know, and nothing depends on it
    let rollout = rollout.ok().flatten().and_then(|lease| lease.record().ok()?);
    let (nodes, schedulers, sets) = (nodes?, schedulers?, sets?);
    let set = the_one(sets.items).map_err(Unanswered::Refused)?;
    let (mut agents, mut config_maps) = (Vec::new(), BTreeMap::new());
    if let Some(set) = &set {
        let namespace = set.metadata.namespace.clone().unwrap_or_default();
        let pods: Api<Pod> = Api::namespaced(client.clone(), &namespace);
        agents = answer(format!("list pods in namespace {namespace}"), pods.list(&of_agents)).await?.items;
        let maps: Api<ConfigMap> = Api::namespaced(client.clone(), &namespace);
        // sources that show no ConfigMap are judged later
        for source in wanted::sources(set).unwrap_or_default() {
            let name = source.config_map;
            let right = format!("get the configmap {name} in namespace {namespace}");
            if let Some(map) = answer(right, maps.get_opt(&name)).await? {
                config_maps.insert(name, map);
            }
        }
    }
    Ok(ClusterObjects { nodes, set, agents, schedulers, config_maps, lease, rollout })
}

/// The control-plane nodes: what we need stands in their metadata.
pub(super) async fn nodes(client: &Client) -> Result<Vec<ObjectMeta>, Unanswered> {
    let nodes: Api<Node> = Api::all(client.clone());
    let mut found = BTreeMap::new();
    for label in CONTROL_PLANE_LABELS {
        let labelled = ListParams::default().labels(label);
        let list = answer("list nodes".to_owned(), nodes.list_metadata(&labelled)).await?;
        found.extend(list.items.into_iter().map(|node| (node.metadata.name.clone(), node.metadata)));
    }
    Ok(found.into_values().collect())
}

async fn schedulers(client: &Client) -> Result<Vec<Pod>, Unanswered> {
    let (namespace, all_labels) = SCHEDULER_PODS;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let mut found = BTreeMap::new();
    for labels in all_labels {
        let labelled = ListParams::default().labels(labels);
        let list = answer(format!("list pods in namespace {namespace}"), pods.list(&labelled)).await?;
        found.extend(list.items.into_iter().map(|pod| (pod.metadata.name.clone(), pod)));
    }
    Ok(found.into_values().collect())
}

/// Who leads is good to know, and nothing depends on it.
async fn lease(client: &Client) -> Result<Option<Lease>, Finding> {
    let leases: Api<Lease> = Api::namespaced(client.clone(), SYSTEM);
    let right = format!("get the lease {LEASE} in namespace {SYSTEM}");
    let answered = answer(right, leases.get_opt(LEASE)).await;
    answered.map_err(|unanswered| Finding { level: Level::Warning, ..unanswered.finding() })
}

/// There may be none, but not several.
pub(super) fn the_one(mut sets: Vec<DaemonSet>) -> Result<Option<DaemonSet>, Finding> {
    if sets.len() < 2 {
        return Ok(sets.pop());
    }
    let name = |set: DaemonSet| {
        let (namespace, name) = (set.metadata.namespace.unwrap_or_default(), set.metadata.name.unwrap_or_default());
        format!("{namespace}/{name}")
    };
    let names: Vec<String> = sets.into_iter().map(name).collect();
    let message =
        format!("there are several DaemonSets of agents, which fight over the same nodes: {}", names.join(", "));
    Err(Finding::error("several-agent-sets", message, "uninstall all but one; or ask for one with --namespace"))
}

/// Waits for an answer, but not for ever. `right` is what the caller must be allowed to do, in words.
pub(super) async fn answer<T>(
    right: String,
    asked: impl Future<Output = Result<T, kube::Error>>,
) -> Result<T, Unanswered> {
    let away = |why: String| {
        let message = format!("the API server does not answer: {why}");
        let way_out = "check the address in the kubeconfig and the way there: kubectl get --raw /readyz";
        Unanswered::Away(Finding::error("api-away", message, way_out))
    };
    let refused = |rule, message: String, way_out| Unanswered::Refused(Finding::error(rule, message, way_out));
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(kube::Error::Api(status))) => Err(match status.code {
            401 => {
                let message = format!("the API server does not know you (401): {}", status.message);
                let way_out = "log in again, or give another --context: see kubectl auth whoami";
                refused("api-unauthorized", message, way_out)
            }
            403 => {
                let message = format!("you may not {right} (403): {}", status.message);
                refused(
                    "api-forbidden",
                    message,
                    "docs/operate/status.md has the rights that this needs, ready to apply",
                )
            }
            429 | 500.. => away(format!("{} ({})", status.message, status.code)),
            code => {
                let message = format!("cannot {right} ({code}): {}", status.message);
                refused("api-refused", message, "see whether --kubeconfig and --context name a Kubernetes API")
            }
        }),
        Ok(Err(kube::Error::Auth(error))) => {
            let message = format!("the kubeconfig's way to log in failed: {}", root_cause(&error));
            Err(refused("api-unauthorized", message, "log in again, or give another --context"))
        }
        Ok(Err(error)) => Err(away(root_cause(&error))),
        Err(_) => Err(away(format!("nothing came in {} s", ANSWER_TIMEOUT.as_secs()))),
    }
}
