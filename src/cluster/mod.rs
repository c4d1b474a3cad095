//! The way to the API server, and the few questions that are asked of it.

mod ask;
mod config_maps;
mod follow;
mod lease;
mod room;

use std::path::Path;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};
use serde::Deserialize;

use crate::finding::Finding;
pub(crate) use ask::{AskError, asked};
pub(crate) use config_maps::{ConfigMaps, Sources};
pub(crate) use follow::{Followed, Known};
pub use lease::{LeaseError, LeaseNow, RolloutLease};
pub(crate) use lease::{NAME as LEASE_NAME, NAMESPACE as LEASE_NAMESPACE};
pub(crate) use room::free_pods;
pub(crate) use schedpatch_service::client::root_cause;

/// An API server that does not take a connection in this time counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);
/// So long an answer may take.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(10);

/// Either label marks a control-plane node; the second is that of clusters before 1.24.
pub(crate) const CONTROL_PLANE_LABELS: [&str; 2] =
    ["node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"];

/// Connects: by a kubeconfig, or as the pod's service account.
pub async fn connect(kubeconfig: Option<&Path>, context: Option<&str>) -> Result<Client, Finding> {
    let wrong = |error: &(dyn std::error::Error + 'static)| {
        let way_out = "give --kubeconfig FILE, or run in a pod with a service account; without any API: --standalone";
        // the outermost error names the file that was tried, the innermost what is wrong with it
        let (outer, inner) = (error.to_string().replace('\n', " "), root_cause(error));
        let why = if outer.contains(&inner) { outer } else { format!("{outer}: {inner}") };
        let finding = Finding::error("api-config", format!("do not know how to reach the API: {why}"), way_out);
        kubeconfig.iter().fold(finding, |finding, file| finding.in_file(file.display().to_string()))
    };
    let options = KubeConfigOptions { context: context.map(str::to_owned), ..KubeConfigOptions::default() };
    let mut config = match kubeconfig {
        Some(file) => {
            let read = Kubeconfig::read_from(file).map_err(|error| wrong(&error))?;
            Config::from_custom_kubeconfig(read, &options).await.map_err(|error| wrong(&error))?
        }
        None if context.is_some() => Config::from_kubeconfig(&options).await.map_err(|error| wrong(&error))?,
        None => Config::infer().await.map_err(|error| wrong(&error))?,
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    Client::try_from(config).map_err(|error| wrong(&error))
}

/// Waits for an answer, but not for ever.
pub(crate) async fn answer<T>(asked: impl Future<Output = Result<T, kube::Error>>) -> Result<T, String> {
    match tokio::time::timeout(ANSWER_TIMEOUT, asked).await {
        Ok(Ok(answer)) => Ok(answer),
        Ok(Err(error)) => Err(root_cause(&error)),
        Err(_) => Err(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())),
    }
}

/// Whether an API server that refused something refuses everything. One that was started without a quorum of etcd could not read
/// any role, and answers 403 to everybody: that is no answer. Its version it tells to everybody whose rights it knows. A server that
/// does not know the caller's token refuses its version too.
pub(crate) async fn refuses_everything(client: &Client) -> bool {
    let asked = tokio::time::timeout(ANSWER_TIMEOUT, client.apiserver_version()).await;
    matches!(asked, Ok(Err(kube::Error::Api(status))) if matches!(status.code, 401 | 403))
}

/// Of a node only whether its kubelet reports.
#[derive(Debug, Deserialize)]
struct NodeList {
    items: Vec<NodeItem>,
}

#[derive(Debug, Deserialize)]
struct NodeItem {
    status: Option<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
}

/// The scheduler that leads, by the holder of its Lease; none if nobody does.
pub async fn scheduler_leader(client: &Client) -> Result<Option<String>, String> {
    let leases: Api<k8s_openapi::api::coordination::v1::Lease> = Api::namespaced(client.clone(), "kube-system");
    let lease = answer(leases.get_opt("kube-scheduler")).await?;
    Ok(lease.and_then(|lease| lease.spec?.holder_identity).filter(|holder| !holder.is_empty()))
}

/// The release of the API server, as `v1.36.4`.
pub async fn release(client: &Client) -> Result<String, String> {
    answer(client.apiserver_version()).await.map(|info| info.git_version)
}

/// Whether the kubelet of a node reports, well or not. The API turns the condition to Unknown when it does not hear of it.
pub async fn has_kubelet(client: &Client, node: &str) -> Result<bool, String> {
    let request = ListParams::default().fields(&format!("metadata.name={node}"));
    let request = kube::core::Request::new("/api/v1/nodes").list(&request).map_err(|error| error.to_string())?;
    let nodes: NodeList = answer(client.request(request)).await?;
    let conditions = nodes.items.into_iter().filter_map(|node| node.status?.conditions).flatten();
    Ok(conditions.into_iter().any(|condition| condition.kind == "Ready" && condition.status != "Unknown"))
}

/// Names of the control-plane nodes.
pub async fn control_planes(client: &Client) -> Result<Vec<String>, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let with = |label: &str| {
        let (nodes, labelled) = (nodes.clone(), ListParams::default().labels(label));
        async move { answer(nodes.list_metadata(&labelled)).await }
    };
    let [label, old_label] = CONTROL_PLANE_LABELS;
    let (found, found_by_old) = tokio::try_join!(with(label), with(old_label))?;
    let found = found.items.into_iter().chain(found_by_old.items);
    let mut names: Vec<String> = found.filter_map(|node| node.metadata.name).collect();
    names.sort();
    names.dedup();
    Ok(names)
}
