//! A small pod that a scheduler must bind: whether scheduling works, by whom, and how fast. Made and removed with the rights of
//! whoever asks.

mod needs;
mod nodes;

use std::time::Duration;

use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::answer;
pub use needs::{Need, SCHEDULER_USER, missing};
pub use nodes::{Candidate, candidates};

/// How often the pod is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Nobody needs to have this image: the pod is removed once it is bound.
const IMAGE: &str = "registry.k8s.io/pause:3.10";

/// What is asked for.
#[derive(Clone, Debug)]
pub struct TestPod {
    /// Where the pod is made
    pub namespace: String,
    /// The scheduler that shall bind it
    pub scheduler: Option<String>,
    /// How long to wait
    pub timeout: Duration,
}

/// What became of the pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A scheduler bound it
    Bound {
        /// To this node
        node: String,
        /// After this time
        after: Duration,
    },
    /// Nobody did in time; what the scheduler says, if it says anything
    Waiting {
        /// Its words
        words: Option<String>,
    },
}

#[derive(Debug, Deserialize)]
struct Pod {
    metadata: Metadata,
    spec: Option<Spec>,
    status: Option<Status>,
}

#[derive(Debug, Deserialize)]
struct Metadata {
    name: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Spec {
    node_name: Option<String>,
}

#[derive(Debug, Deserialize)]
struct Status {
    conditions: Option<Vec<Condition>>,
}

#[derive(Debug, Deserialize)]
struct Condition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    message: Option<String>,
}

/// Makes a pod, waits until a scheduler has bound it, and removes it; also when `stop` ends before that.
pub async fn run(client: &Client, wanted: &TestPod, stop: impl Future<Output = ()>) -> Result<Outcome, String> {
    let path = format!("/api/v1/namespaces/{}/pods", wanted.namespace);
    let body = serde_json::to_vec(&manifest(wanted)).map_err(|error| error.to_string())?;
    let create = Request::new(&path).create(&PostParams::default(), body).map_err(|error| error.to_string())?;
    let began = Instant::now();
    let made: Pod = answer(client.request(create)).await?;
    let outcome = tokio::select! {
        outcome = wait(client, &path, &made.metadata.name, began, wanted.timeout) => outcome,
        () = stop => Err("interrupted".to_owned()),
    };
    let removed = remove(client, &path, &made.metadata.name).await;
    let left = |why: String| format!("the pod {}/{} could not be removed: {why}", wanted.namespace, made.metadata.name);
    outcome.and_then(|outcome| removed.map(|()| outcome).map_err(left))
}

fn manifest(wanted: &TestPod) -> Value {
    let mut spec = json!({
        "containers": [{
            "name": "verify", "image": IMAGE, "imagePullPolicy": "Never",
            "resources": { "requests": { "cpu": "1m", "memory": "1Mi" }, "limits": { "cpu": "10m", "memory": "16Mi" } },
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        "automountServiceAccountToken": false,
        "tolerations": nodes::TOLERATED.map(|key| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" })),
    });
    if let Some(scheduler) = &wanted.scheduler {
        spec["schedulerName"] = json!(scheduler);
    }
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "generateName": "schedpatch-verify-" }, "spec": spec })
}

async fn wait(client: &Client, path: &str, name: &str, began: Instant, timeout: Duration) -> Result<Outcome, String> {
    let mut words = None;
    while began.elapsed() < timeout {
        let get = Request::new(path).get(name, &kube::api::GetParams::default()).map_err(|error| error.to_string())?;
        let pod: Pod = answer(client.request(get)).await?;
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty()) {
            return Ok(Outcome::Bound { node, after: began.elapsed() });
        }
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let refused = conditions.into_iter().find(|own| own.kind == "PodScheduled" && own.status != "True");
        words = refused.and_then(|own| own.message).or(words);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    Ok(Outcome::Waiting { words })
}

async fn remove(client: &Client, path: &str, name: &str) -> Result<(), String> {
    let delete = Request::new(path).delete(name, &kube::api::DeleteParams::default().grace_period(0));
    let delete = delete.map_err(|error| error.to_string())?;
    answer(client.request::<Value>(delete)).await.map(drop)
}
