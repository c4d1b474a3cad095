//! Whether a node has room for one more pod.

use k8s_openapi::api::core::v1::Pod;
use kube::api::ListParams;
use kube::{Api, Client};
use serde::Deserialize;

use super::answer;

/// Of a node only how many pods it may run.
#[derive(Debug, Deserialize)]
struct NodeList {
    items: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    status: Option<NodeStatus>,
}

#[derive(Debug, Deserialize)]
struct NodeStatus {
    allocatable: Option<Allocatable>,
}

#[derive(Debug, Deserialize)]
struct Allocatable {
    pods: Option<String>,
}

/// How many more pods the kubelet of a node admits; none where the API does not say how many it may run. Only a count is read,
/// no pod.
pub(crate) async fn free_pods(client: &Client, node: &str) -> Result<Option<u64>, String> {
    let own = ListParams::default().fields(&format!("metadata.name={node}"));
    let request = kube::core::Request::new("/api/v1/nodes").list(&own).map_err(|error| error.to_string())?;
    let own: NodeList = answer(client.request(request)).await?;
    let limit = |node: Node| node.status?.allocatable?.pods?.parse::<u64>().ok();
    let limit = own.items.into_iter().find_map(limit);
    let Some(limit) = limit else { return Ok(None) };
    let here = format!("spec.nodeName={node},status.phase!=Succeeded,status.phase!=Failed");
    let pods: Api<Pod> = Api::all(client.clone());
    let found = answer(pods.list_metadata(&ListParams::default().fields(&here))).await?;
    Ok(Some(limit.saturating_sub(found.items.len() as u64)))
}
