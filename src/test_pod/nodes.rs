//! The nodes that could take the test pod: with fewer than two a scheduler does not score.

use kube::Client;
use kube::api::ListParams;
use kube::core::Request;
use serde::Deserialize;

use crate::cluster::{CONTROL_PLANE_LABELS, answer};

/// Taints that the test pod tolerates: a small cluster may have control-plane nodes alone.
pub(super) const TOLERATED: [&str; 2] = CONTROL_PLANE_LABELS;

/// A node that may take the pod, or why it cannot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its name
    pub name: String,
    /// Why it cannot take the pod; none if it can
    pub obstacle: Option<String>,
}

#[derive(Debug, Deserialize)]
struct List {
    items: Vec<Node>,
}

#[derive(Debug, Deserialize)]
struct Node {
    metadata: Metadata,
    spec: Option<Spec>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
struct Spec {
    unschedulable: Option<bool>,
    taints: Option<Vec<Taint>>,
}

#[derive(Debug, Deserialize)]
struct Taint {
    key: String,
    effect: String,
}

/// All nodes.
pub async fn candidates(client: &Client) -> Result<Vec<Candidate>, String> {
    let request = Request::new("/api/v1/nodes").list(&ListParams::default()).map_err(|error| error.to_string())?;
    let list: List = answer(client.request(request)).await?;
    Ok(list.items.into_iter().map(candidate).collect())
}

fn candidate(node: Node) -> Candidate {
    let (unschedulable, taints) = node.spec.map_or((None, None), |spec| (spec.unschedulable, spec.taints));
    let stops = |taint: &&Taint| {
        taint.effect != "PreferNoSchedule" && !(taint.effect == "NoSchedule" && TOLERATED.contains(&taint.key.as_str()))
    };
    let taint =
        taints.iter().flatten().find(stops).map(|taint| format!("has the taint {}:{}", taint.key, taint.effect));
    let cordoned = (unschedulable == Some(true)).then(|| "is cordoned".to_owned());
    Candidate { name: node.metadata.name, obstacle: cordoned.or(taint) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_that_cannot_take_the_pod_says_why() {
        let of = |spec: &str| {
            let text = format!(r#"{{"metadata":{{"name":"n"}},"spec":{spec}}}"#);
            candidate(serde_json::from_str(&text).expect("a node")).obstacle
        };
        assert_eq!(of("{}"), None);
        assert_eq!(of(r#"{"taints":[{"key":"node-role.kubernetes.io/control-plane","effect":"NoSchedule"}]}"#), None);
        assert_eq!(of(r#"{"unschedulable":true}"#).as_deref(), Some("is cordoned"));
        let gpu = of(r#"{"taints":[{"key":"gpu","effect":"NoSchedule"}]}"#);
        assert_eq!(gpu.as_deref(), Some("has the taint gpu:NoSchedule"));
    }
}
