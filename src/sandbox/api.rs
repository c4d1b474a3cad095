//! The simulated API server: one node, the scheduler's mirror pod and the Lease of the rollout; events are accepted and dropped.
//! The usual client calls it inside this process, without a socket.

use std::convert::Infallible;
use std::sync::Arc;

use futures_util::{StreamExt as _, stream};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::watch;

/// Name of the simulated node.
pub(super) const NODE: &str = "sandbox";

type Answer = Response<UnsyncBoxBody<Bytes, Infallible>>;

/// The API server. Clones share its objects.
#[derive(Clone, Debug)]
pub(super) struct Api {
    /// The mirror pod; null before the kubelet shows it
    pod: Arc<watch::Sender<Value>>,
    /// The Lease of the rollout, in which there is only this node
    lease: Arc<watch::Sender<Value>>,
}

impl Api {
    pub fn new() -> Self {
        let lease = json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "schedpatch-rollout", "namespace": "kube-system", "resourceVersion": "1" } });
        Self { pod: Arc::new(watch::Sender::new(Value::Null)), lease: Arc::new(watch::Sender::new(lease)) }
    }

    pub fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let api = api.clone();
            async move { Ok::<_, Infallible>(api.answer(request).await) }
        });
        Client::new(service, "default")
    }

    /// Replaces the mirror pod, as the kubelet does.
    pub fn put_pod(&self, mut pod: Value) {
        self.pod.send_modify(|current| {
            pod["metadata"]["resourceVersion"] = json!((version(current) + 1).to_string());
            *current = pod;
        });
    }

    /// What the API says of the scheduler's only container.
    fn is_ready(&self) -> bool {
        self.pod.borrow()["status"]["containerStatuses"][0]["ready"] == true
    }

    async fn answer(&self, request: Request<Body>) -> Answer {
        let (parts, body) = request.into_parts();
        let (path, query) = (parts.uri.path(), parts.uri.query().unwrap_or_default());
        match parts.method {
            Method::GET if path == "/api/v1/nodes" => {
                let list = json!({ "apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": [node()] });
                json_answer(StatusCode::OK, &list)
            }
            // the annotations show what /readyz and the log show too, so nobody needs them here
            Method::PATCH if path.starts_with("/api/v1/nodes/") => json_answer(StatusCode::OK, &node()),
            Method::GET if path.ends_with("/pods") && query.contains("watch=true") => watch_object(&self.pod, query),
            Method::GET if path.ends_with("/pods") => list_object(&self.pod, "PodList"),
            Method::GET if path.ends_with("/leases") && query.contains("watch=true") => {
                watch_object(&self.lease, query)
            }
            Method::GET if path.ends_with("/leases") => list_object(&self.lease, "LeaseList"),
            Method::GET if path.ends_with("/leases/schedpatch-rollout") => {
                json_answer(StatusCode::OK, &self.lease.borrow())
            }
            Method::PUT if path.ends_with("/leases/schedpatch-rollout") => {
                let bytes = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                self.replace_lease(serde_json::from_slice(&bytes).unwrap_or_default())
            }
            Method::GET if path.contains("/pods/") => match &*self.pod.borrow() {
                Value::Null => not_found(path),
                pod => json_answer(StatusCode::OK, pod),
            },
            Method::POST | Method::PATCH if path.contains("/events") => {
                let event = body.collect().await.map(http_body_util::Collected::to_bytes).unwrap_or_default();
                answer(StatusCode::CREATED, event)
            }
            // the scheduler's own endpoint, for a manifest without a readiness probe
            Method::GET if path == "/livez" && self.is_ready() => json_answer(StatusCode::OK, &json!("ok")),
            _ => not_found(path),
        }
    }

    /// Replaces the Lease, unless it was written since it was read.
    fn replace_lease(&self, mut lease: Value) -> Answer {
        let known = version(&self.lease.borrow());
        if version(&lease) != known {
            let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
                "message": "the object has been modified", "reason": "Conflict", "code": 409 });
            return json_answer(StatusCode::CONFLICT, &status);
        }
        lease["metadata"]["resourceVersion"] = json!((known + 1).to_string());
        self.lease.send_replace(lease.clone());
        json_answer(StatusCode::OK, &lease)
    }
}

fn list_object(object: &watch::Sender<Value>, kind: &str) -> Answer {
    let object = object.borrow();
    let items: Vec<&Value> = Some(&*object).filter(|object| !object.is_null()).into_iter().collect();
    let metadata = json!({ "resourceVersion": version(&object).to_string() });
    json_answer(StatusCode::OK, &json!({ "apiVersion": "v1", "kind": kind, "metadata": metadata, "items": items }))
}

/// Sends the object whenever it is newer than what the watcher has.
fn watch_object(object: &watch::Sender<Value>, query: &str) -> Answer {
    let since = query.split('&').find_map(|pair| pair.strip_prefix("resourceVersion=")?.parse().ok());
    let begin = (object.subscribe(), since.unwrap_or(0));
    let events = stream::unfold(begin, |(mut objects, seen)| async move {
        let object = objects.wait_for(|object| version(object) > seen).await.ok()?.clone();
        let line = json!({ "type": "MODIFIED", "object": &object }).to_string() + "\n";
        Some((Ok(Frame::data(Bytes::from(line))), (objects, version(&object))))
    });
    Response::new(StreamBody::new(events.boxed()).boxed_unsync())
}

fn node() -> Value {
    let labels = json!({ "node-role.kubernetes.io/control-plane": "" });
    json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": NODE, "labels": labels },
        "status": { "conditions": [{ "type": "Ready", "status": "True" }] } })
}

fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

fn not_found(path: &str) -> Answer {
    let message = format!("the simulated API does not serve {path}");
    let status = json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": message, "reason": "NotFound", "code": 404 });
    json_answer(StatusCode::NOT_FOUND, &status)
}

fn json_answer(code: StatusCode, object: &Value) -> Answer {
    answer(code, Bytes::from(object.to_string()))
}

fn answer(code: StatusCode, body: Bytes) -> Answer {
    let mut response = Response::new(Full::new(body).boxed_unsync());
    *response.status_mut() = code;
    response
}
