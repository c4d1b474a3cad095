//! A small pod that a scheduler must bind: whether scheduling works, by whom, and how fast. Made and removed with the rights of
//! whoever asks.

mod needs;
mod nodes;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use kube::Client;
use kube::api::PostParams;
use kube::core::Request;
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::cluster::{ANSWER_TIMEOUT, answer, root_cause};
pub use needs::{Need, SCHEDULER_USER, missing};
pub use nodes::{Candidate, candidates};

/// How often the pod is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Pause after a question that was not answered.
const PAUSE: Duration = Duration::from_secs(1);
/// How often the pod's removal is tried.
const REMOVALS: u32 = 5;
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
    spec: Option<Spec>,
    status: Option<Status>,
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
    // the client names it: so it can be removed even where the answer to its creation is lost
    let name = format!("schedpatch-verify-{:08x}", RandomState::new().build_hasher().finish() >> 32);
    let outcome = tokio::select! {
        outcome = make_and_wait(client, &path, &name, wanted) => outcome,
        () = stop => Err(Trouble::After("interrupted".to_owned())),
    };
    let trouble = match outcome {
        Err(Trouble::NotMade(why)) => return Err(why),
        Err(Trouble::After(why)) => Err(why),
        Ok(outcome) => Ok(outcome),
    };
    let left = |why: String| format!("the pod {}/{name} could not be removed: {why}", wanted.namespace);
    match (trouble, remove(client, &path, &name).await.map_err(left)) {
        (outcome, Ok(())) => outcome,
        (Ok(_), Err(left)) => Err(left),
        (Err(why), Err(left)) => Err(format!("{why}; {left}")),
    }
}

/// What went wrong.
enum Trouble {
    /// The API refused the pod
    NotMade(String),
    /// The pod may be there
    After(String),
}

async fn make_and_wait(client: &Client, path: &str, name: &str, wanted: &TestPod) -> Result<Outcome, Trouble> {
    let not_made = |why: String| Trouble::NotMade(why);
    let body = serde_json::to_vec(&manifest(name, wanted)).map_err(|error| not_made(error.to_string()))?;
    let create = Request::new(path).create(&PostParams::default(), body);
    let create = create.map_err(|error| not_made(error.to_string()))?;
    let began = Instant::now();
    match tokio::time::timeout(ANSWER_TIMEOUT, client.request::<Value>(create)).await {
        Ok(Ok(_)) => {}
        Ok(Err(kube::Error::Api(status))) if status.code < 500 => return Err(not_made(status.message.clone())),
        Ok(Err(error)) => return Err(Trouble::After(root_cause(&error))),
        Err(_) => return Err(Trouble::After(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()))),
    }
    wait(client, path, name, began, wanted.timeout).await.map_err(Trouble::After)
}

fn manifest(name: &str, wanted: &TestPod) -> Value {
    let mut spec = json!({
        "containers": [{
            "name": "verify", "image": IMAGE, "imagePullPolicy": "Never",
            "resources": { "requests": { "cpu": "1m", "memory": "1Mi" }, "limits": { "cpu": "10m", "memory": "16Mi" } },
            "securityContext": { "allowPrivilegeEscalation": false, "capabilities": { "drop": ["ALL"] } },
        }],
        "securityContext": { "runAsNonRoot": true, "runAsUser": 65532, "seccompProfile": { "type": "RuntimeDefault" } },
        "restartPolicy": "Never",
        "terminationGracePeriodSeconds": 0,
        // should nobody be left to remove it
        "activeDeadlineSeconds": wanted.timeout.as_secs() + 60,
        "automountServiceAccountToken": false,
        "tolerations": nodes::TOLERATED.map(|key| json!({ "key": key, "operator": "Exists", "effect": "NoSchedule" })),
    });
    if let Some(scheduler) = &wanted.scheduler {
        spec["schedulerName"] = json!(scheduler);
    }
    let labels = json!({ "app.kubernetes.io/part-of": "schedpatch", "app.kubernetes.io/component": "test-pod" });
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "labels": labels }, "spec": spec })
}

async fn wait(client: &Client, path: &str, name: &str, began: Instant, timeout: Duration) -> Result<Outcome, String> {
    let (mut words, mut trouble) = (None, None);
    while began.elapsed() < timeout {
        let get = Request::new(path).get(name, &kube::api::GetParams::default()).map_err(|error| error.to_string())?;
        let pod: Pod = match answer(client.request(get)).await {
            Ok(pod) => pod,
            // one question without an answer is no answer
            Err(why) => {
                trouble = Some(why);
                tokio::time::sleep(PAUSE).await;
                continue;
            }
        };
        trouble = None;
        if let Some(node) = pod.spec.and_then(|spec| spec.node_name).filter(|node| !node.is_empty()) {
            return Ok(Outcome::Bound { node, after: began.elapsed() });
        }
        let conditions = pod.status.and_then(|status| status.conditions).unwrap_or_default();
        let refused = conditions.into_iter().find(|own| own.kind == "PodScheduled" && own.status != "True");
        words = refused.and_then(|own| own.message).or(words);
        tokio::time::sleep(LOOK_EVERY).await;
    }
    trouble.map_or(Ok(Outcome::Waiting { words }), Err)
}

/// Removes the pod, if it is there. Tried a few times: nobody else would do it.
async fn remove(client: &Client, path: &str, name: &str) -> Result<(), String> {
    let mut why = String::new();
    for _ in 0..REMOVALS {
        let delete = Request::new(path).delete(name, &kube::api::DeleteParams::default().grace_period(0));
        let delete = delete.map_err(|error| error.to_string())?;
        why = match tokio::time::timeout(ANSWER_TIMEOUT, client.request::<Value>(delete)).await {
            Ok(Ok(_)) => return Ok(()),
            Ok(Err(kube::Error::Api(status))) if status.code == 404 => return Ok(()),
            Ok(Err(error)) => root_cause(&error),
            Err(_) => format!("no answer in {} s", ANSWER_TIMEOUT.as_secs()),
        };
        tokio::time::sleep(PAUSE).await;
    }
    Err(why)
}
