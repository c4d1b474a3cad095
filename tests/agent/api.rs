//! An API server in the process, under the same client as the real one: nodes, pods, Leases, ConfigMaps, events, watches, and
//! faults on command. No sockets, so that time can be turned.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use futures_util::StreamExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt as _, Full, StreamBody};
use hyper::body::{Bytes, Frame};
use hyper::{Method, Request, Response, StatusCode};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

pub const PODS: &str = "/api/v1/namespaces/kube-system/pods";
pub const AGENTS: &str = "/api/v1/namespaces/schedpatch/pods";
pub const CONFIG_MAPS: &str = "/api/v1/namespaces/schedpatch/configmaps";
pub const DAEMON_SETS: &str = "/apis/apps/v1/namespaces/schedpatch/daemonsets";
pub const LEASES: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-system/leases";
const KUBELETS: &str = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases";
pub const ROLLOUT: &str = "schedpatch-rollout";

/// What is wrong with the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// Nothing
    None,
    /// Connections are refused
    Refuse,
    /// Questions get no answer, and open watches say nothing
    Hang,
    /// Every question gets this code
    Code(u16),
    /// What has this in its path is forbidden
    Forbid(&'static str),
    /// What has this in its path gets no answer
    Stall(&'static str),
    /// Questions are answered, and every write of an object fails: the disk of etcd is full
    ReadOnly,
    /// Every answer takes so many milliseconds
    Slow(u64),
    /// Lists of nodes are empty
    NoNodes,
    /// Pods that are asked for are somebody else's
    WrongPods,
}

type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;
type Chunk = Result<Frame<Bytes>, io::Error>;

/// Path of the collection, and name.
type Key = (String, String);

#[derive(Default)]
struct State {
    version: u64,
    nodes: BTreeMap<String, Value>,
    objects: BTreeMap<Key, Value>,
    /// Version, collection, kind of change and object
    history: Vec<(u64, String, &'static str, Value)>,
    watches: Vec<Watch>,
    events: Vec<Value>,
    questions: usize,
    /// The release of the API server, where it is not v1.36.4
    release: Option<String>,
    fault: Option<Fault>,
    /// Who cannot reach the API, by the client's name
    cut_off: Vec<String>,
    /// Watches that are opened from now on say nothing
    is_mute: bool,
}

struct Watch {
    client: String,
    collection: String,
    name: String,
    seen: u64,
    sender: UnboundedSender<Chunk>,
}

/// The API server.
#[derive(Clone, Default)]
pub struct Api(Arc<Mutex<State>>);

impl Api {
    pub fn new(nodes: &[&str]) -> Self {
        let api = Self::default();
        for node in nodes {
            api.add_node(node);
        }
        api.put(
            LEASES,
            ROLLOUT,
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                "metadata": { "name": ROLLOUT, "namespace": "kube-system", "uid": "lease" } }),
        );
        api
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// A client that can be cut off by its name.
    pub fn client_of(&self, name: &str) -> Client {
        let (api, name) = (self.clone(), name.to_owned());
        let service = tower::service_fn(move |request: Request<Body>| {
            let (api, name) = (api.clone(), name.clone());
            async move { api.answer(&name, request).await }
        });
        Client::new(service, "default")
    }

    pub fn add_node(&self, name: &str) {
        let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "uid": name,
            "labels": { "node-role.kubernetes.io/control-plane": "" }, "annotations": {} }, "status": { "conditions": [{ "type": "Ready", "status": "True" }] } });
        self.state().nodes.insert(name.to_owned(), node);
    }

    pub fn node(&self, name: &str) -> Option<Value> {
        self.state().nodes.get(name).cloned()
    }

    /// Annotates the Lease of the rollout.
    pub fn annotate_lease(&self, key: &str, value: &str) {
        let mut lease = self.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"][key] = Value::from(value);
        self.put(LEASES, ROLLOUT, lease);
    }

    /// Sets an annotation of a node, as its kubelet or server does.
    pub fn annotate(&self, name: &str, key: &str, value: &str) {
        if let Some(node) = self.state().nodes.get_mut(name) {
            node["metadata"]["annotations"][key] = json!(value);
        }
    }

    /// What a node says of itself.
    pub fn annotation(&self, node: &str, key: &str) -> Option<String> {
        let key = format!("schedpatch.io/{key}");
        self.node(node)?["metadata"]["annotations"][key].as_str().map(str::to_owned)
    }

    /// How many pods the kubelet of a node admits. None is counted as running.
    pub fn set_room(&self, name: &str, pods: u64) {
        if let Some(node) = self.state().nodes.get_mut(name) {
            node["status"]["allocatable"] = json!({ "pods": pods.to_string() });
        }
    }

    /// The API server is upgraded.
    pub fn set_release(&self, release: &str) {
        self.state().release = Some(release.to_owned());
    }

    /// The kubelet of a node renews its Lease.
    pub fn beat(&self, name: &str, second: u32) {
        let time = format!("2026-11-17T00:{:02}:{:02}.000000Z", second / 60, second % 60);
        self.put(
            KUBELETS,
            name,
            json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": { "name": name }, "spec": { "renewTime": time } }),
        );
    }

    /// Whether the kubelet of a node reports.
    pub fn set_node_ready(&self, name: &str, is_ready: bool) {
        if let Some(node) = self.state().nodes.get_mut(name) {
            node["status"]["conditions"][0]["status"] = json!(if is_ready { "True" } else { "Unknown" });
        }
    }

    /// What the nodes' events say: reason and note.
    pub fn events(&self) -> Vec<(String, String)> {
        let text = |event: &Value, key: &str| event[key].as_str().unwrap_or_default().to_owned();
        self.state().events.iter().map(|event| (text(event, "reason"), text(event, "note"))).collect()
    }

    /// How many requests came.
    pub fn questions(&self) -> usize {
        self.state().questions
    }

    /// What is wrong from now on. What watches had to say meanwhile they say when it is over.
    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        if matches!(fault, Fault::Refuse) {
            state.reset(|_| true);
        }
        state.tell_watches();
    }

    pub fn fault(&self) -> Fault {
        self.state().fault.unwrap_or(Fault::None)
    }

    /// One client cannot reach the API, or can again.
    pub fn cut_off(&self, client: &str, is_cut_off: bool) {
        let mut state = self.state();
        state.cut_off.retain(|name| name != client);
        if is_cut_off {
            state.cut_off.push(client.to_owned());
            state.reset(|watch| watch.client == client);
        }
    }

    pub fn is_cut_off(&self, client: &str) -> bool {
        self.state().cut_off.iter().any(|name| name == client)
    }

    /// Cuts every open watch, as a TCP reset does.
    pub fn reset_watches(&self) {
        self.state().reset(|_| true);
    }

    /// Watches that are opened from now on say nothing, though everything else answers.
    pub fn mute_watches(&self, is_mute: bool) {
        self.state().is_mute = is_mute;
    }

    /// Puts a pod, as the kubelet does, if it is not there just so.
    pub fn put_pod(&self, name: &str, pod: Value) {
        self.put(PODS, name, pod);
    }

    /// Removes a pod.
    pub fn remove_pod(&self, name: &str) {
        self.remove(PODS, name);
    }

    pub fn object(&self, collection: &str, name: &str) -> Option<Value> {
        self.state().objects.get(&(collection.to_owned(), name.to_owned())).cloned()
    }

    /// Puts an object, if it is not there just so.
    pub fn put(&self, collection: &str, name: &str, object: Value) {
        self.state().put(collection, name, object);
    }

    /// An object is as it was long ago, after a restore of etcd; no watch tells it.
    pub fn set_back(&self, collection: &str, name: &str, mut object: Value) {
        object["metadata"]["resourceVersion"] = json!("1");
        self.state().objects.insert((collection.to_owned(), name.to_owned()), object);
    }

    /// Removes an object.
    pub fn remove(&self, collection: &str, name: &str) {
        let mut state = self.state();
        if let Some(mut object) = state.objects.remove(&(collection.to_owned(), name.to_owned())) {
            state.version += 1;
            let version = state.version;
            object["metadata"]["resourceVersion"] = json!(version.to_string());
            state.history.push((version, collection.to_owned(), "DELETED", object));
            state.tell_watches();
        }
    }

    async fn answer(&self, client: &str, request: Request<Body>) -> Result<Answer, io::Error> {
        let (parts, body) = request.into_parts();
        let path = parts.uri.path().to_owned();
        self.state().questions += 1;
        if self.is_cut_off(client) {
            return Err(io::Error::from(io::ErrorKind::ConnectionRefused));
        }
        // an answer that takes its time is given by the API as it is then
        if let Fault::Slow(millis) = self.fault() {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        match self.fault() {
            Fault::Hang => std::future::pending().await,
            Fault::Stall(part) if path.contains(part) => std::future::pending().await,
            Fault::Refuse => return Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
            Fault::Code(code) => return Ok(failure(code, "as told")),
            Fault::Forbid(part) if path.contains(part) => return Ok(failure(403, "as told")),
            Fault::ReadOnly if parts.method != Method::GET => {
                return Ok(failure(500, "etcdserver: mvcc: database space exceeded"));
            }
            Fault::None
            | Fault::Forbid(_)
            | Fault::Stall(_)
            | Fault::ReadOnly
            | Fault::NoNodes
            | Fault::WrongPods
            | Fault::Slow(_) => {}
        }
        let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let is_apply =
            parts.headers.get("content-type").is_some_and(|kind| kind.as_bytes().starts_with(b"application/apply"));
        let object: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let query: BTreeMap<String, String> = parts.uri.query().map(pairs).unwrap_or_default();
        let (collection, name) = path.rsplit_once('/').unwrap_or_default();
        Ok(match (parts.method, path.as_str()) {
            (Method::GET, "/version") => answer(
                StatusCode::OK,
                &json!({ "major": "1", "minor": "", "gitVersion": self.state().release.as_deref().unwrap_or("v1.36.4"),
                "gitCommit": "", "gitTreeState": "", "buildDate": "", "goVersion": "", "compiler": "", "platform": "" }),
            ),
            (Method::GET, "/api/v1/pods") => answer(
                StatusCode::OK,
                &json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [] }),
            ),
            (Method::GET, "/api/v1/nodes") => self.list_nodes(&query, &parts.headers),
            (Method::PATCH, path) if path.starts_with("/api/v1/nodes/") => self.patch_node(name, &object, is_apply),
            (Method::GET, path) if path.starts_with("/api/v1/nodes/") => found(self.node(name)),
            (Method::POST | Method::PATCH, path) if path.contains("/events") => {
                self.state().events.push(object.clone());
                answer(StatusCode::CREATED, &object)
            }
            (Method::GET, path) if is_collection(path) => self.list_or_watch(client, path, &query),
            (Method::GET, _) if is_collection(collection) => {
                found(self.object(collection, name).map(|object| self.disguise(object)))
            }
            (Method::PUT, _) if is_collection(collection) => self.replace(collection, name, object),
            (method, path) => failure(404, &format!("no such thing: {method} {path}")),
        })
    }

    fn list_nodes(&self, query: &BTreeMap<String, String>, headers: &hyper::HeaderMap) -> Answer {
        let state = self.state();
        let label = query.get("labelSelector").cloned().unwrap_or_default();
        let name = query.get("fieldSelector").and_then(|field| field.strip_prefix("metadata.name="));
        let has_name = |node: &&Value| name.is_none_or(|name| node["metadata"]["name"] == name);
        let has_label = |node: &&Value| label.is_empty() || node["metadata"]["labels"].get(&label).is_some();
        let nodes: Vec<&Value> = state.nodes.values().filter(has_name).filter(has_label).collect();
        let nodes = if state.fault == Some(Fault::NoNodes) { Vec::new() } else { nodes };
        let wants_metadata =
            headers.get("accept").is_some_and(|accept| accept.to_str().unwrap_or_default().contains("PartialObject"));
        if !wants_metadata {
            return answer(
                StatusCode::OK,
                &json!({ "apiVersion": "v1", "kind": "NodeList", "metadata": {}, "items": nodes }),
            );
        }
        let items: Vec<Value> = nodes.into_iter().map(partial).collect();
        answer(
            StatusCode::OK,
            &json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList",
                "metadata": { "resourceVersion": state.version.to_string() }, "items": items }),
        )
    }

    /// Annotations alone are ever changed. A server-side apply of a node that is not there makes one, as the real API does.
    fn patch_node(&self, name: &str, patch: &Value, is_apply: bool) -> Answer {
        let mut state = self.state();
        if !state.nodes.contains_key(name) {
            if !is_apply || patch["metadata"].get("uid").is_some() || patch["metadata"].get("resourceVersion").is_some()
            {
                return failure(404, "no such node");
            }
            state.nodes.insert(name.to_owned(), json!({ "metadata": { "name": name } }));
        }
        let node = state.nodes.get_mut(name).expect("it is there");
        let annotations = patch["metadata"]["annotations"].as_object().cloned().unwrap_or_default();
        if is_apply && let Some(own) = node["metadata"]["annotations"].as_object_mut() {
            own.retain(|key, _| !key.starts_with("schedpatch.io/"));
        }
        for (key, value) in annotations {
            if value.is_null() {
                node["metadata"]["annotations"].as_object_mut().and_then(|own| own.remove(&key));
            } else {
                node["metadata"]["annotations"][&key] = value;
            }
        }
        let shown = partial(node);
        answer(StatusCode::OK, &shown)
    }

    /// An update, unless somebody else wrote since the object was read.
    fn replace(&self, collection: &str, name: &str, object: Value) -> Answer {
        let mut state = self.state();
        let Some(known) = state.objects.get(&(collection.to_owned(), name.to_owned())) else {
            return failure(404, "not found");
        };
        if object["metadata"]["resourceVersion"] != known["metadata"]["resourceVersion"] {
            return failure(409, "the object has been modified; please apply your changes to the latest version");
        }
        state.put(collection, name, object);
        found(state.objects.get(&(collection.to_owned(), name.to_owned())).cloned())
    }

    fn list_or_watch(&self, client: &str, collection: &str, query: &BTreeMap<String, String>) -> Answer {
        let name =
            query.get("fieldSelector").and_then(|field| field.strip_prefix("metadata.name=")).unwrap_or_default();
        let since: u64 = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        if query.get("watch").is_none_or(|watch| watch != "true") {
            let state = self.state();
            let labels = query.get("labelSelector").cloned().unwrap_or_default();
            let fits = |(key, object): &(&Key, &Value)| {
                key.0 == collection && (name.is_empty() || key.1 == name) && has_labels(object, &labels)
            };
            let items: Vec<Value> = state.objects.iter().filter(fits).map(|(_, object)| object.clone()).collect();
            drop(state);
            let items: Vec<Value> = items.into_iter().map(|object| self.disguise(object)).collect();
            let version = self.state().version.to_string();
            let list = json!({ "apiVersion": "v1", "kind": "List", "metadata": { "resourceVersion": version }, "items": items });
            return answer(StatusCode::OK, &list);
        }
        let (sender, receiver) = unbounded_channel();
        let mut state = self.state();
        // a mute one is kept open, and never told anything
        let seen = if state.is_mute { u64::MAX } else { since };
        let (client, collection, name) = (client.to_owned(), collection.to_owned(), name.to_owned());
        state.watches.push(Watch { client, collection, name, seen, sender });
        state.tell_watches();
        Response::new(StreamBody::new(stream(receiver).boxed()).boxed_unsync())
    }

    /// An API that lies: the pod of another revision.
    fn disguise(&self, mut object: Value) -> Value {
        if self.fault() == Fault::WrongPods && object["kind"] == "Pod" {
            object["metadata"]["annotations"]["schedpatch.io/revision"] = json!("000000000000");
        }
        object
    }
}

impl State {
    fn put(&mut self, collection: &str, name: &str, mut object: Value) {
        let key = (collection.to_owned(), name.to_owned());
        let before = self.objects.get(&key).cloned();
        let without_version = before.clone().map(|mut before| {
            before["metadata"]["resourceVersion"] = Value::Null;
            before
        });
        object["metadata"]["resourceVersion"] = Value::Null;
        if without_version.as_ref() == Some(&object) {
            return;
        }
        self.version += 1;
        let version = self.version;
        object["metadata"]["resourceVersion"] = json!(version.to_string());
        self.objects.insert(key, object.clone());
        let kind = if before.is_some() { "MODIFIED" } else { "ADDED" };
        self.history.push((version, collection.to_owned(), kind, object));
        self.tell_watches();
    }

    fn tell_watches(&mut self) {
        if matches!(self.fault, Some(Fault::Hang | Fault::Refuse)) {
            return;
        }
        for watch in &mut self.watches {
            for (version, collection, kind, object) in &self.history {
                let is_watched = *collection == watch.collection && object["metadata"]["name"] == watch.name.as_str();
                if *version <= watch.seen || !is_watched {
                    continue;
                }
                watch.seen = *version;
                let line = json!({ "type": kind, "object": object }).to_string() + "\n";
                let _ = watch.sender.send(Ok(Frame::data(Bytes::from(line))));
            }
        }
        self.watches.retain(|watch| !watch.sender.is_closed());
    }

    fn reset(&mut self, whose: impl Fn(&Watch) -> bool) {
        for watch in self.watches.extract_if(.., |watch| whose(watch)) {
            let _ = watch.sender.send(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
        }
    }
}

fn is_collection(path: &str) -> bool {
    ["/pods", "/leases", "/configmaps", "/daemonsets"].iter().any(|kind| path.ends_with(kind))
}

fn has_labels(object: &Value, selector: &str) -> bool {
    let own = |key: &str| object["metadata"]["labels"].get(key).and_then(Value::as_str).map(str::to_owned);
    selector.split(',').filter(|part| !part.is_empty()).all(|part| match part.split_once('=') {
        Some((key, value)) => own(key).as_deref() == Some(value),
        None => own(part).is_some(),
    })
}

fn stream(receiver: UnboundedReceiver<Chunk>) -> impl futures_util::Stream<Item = Chunk> {
    futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    })
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
    query
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(key, value)| (decoded(key), decoded(value)))
        .collect()
}

fn partial(node: &Value) -> Value {
    json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": node["metadata"] })
}

fn found(object: Option<Value>) -> Answer {
    object.map_or_else(|| failure(404, "not found"), |object| answer(StatusCode::OK, &object))
}

fn failure(code: u16, message: &str) -> Answer {
    let reason = match code {
        404 => "NotFound",
        409 => "Conflict",
        _ => "Told",
    };
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code });
    answer(StatusCode::from_u16(code).expect("a code"), &status)
}

fn answer(code: StatusCode, object: &Value) -> Answer {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    response
}

/// The scheduler's own endpoint: 200 while it is well.
pub fn endpoint(is_well: impl Fn() -> bool + Clone + Send + 'static) -> Client {
    let service = tower::service_fn(move |_: Request<Body>| {
        let is_well = is_well.clone();
        async move {
            Ok::<_, Infallible>(if is_well() { answer(StatusCode::OK, &json!("ok")) } else { failure(503, "dead") })
        }
    });
    Client::new(service, "default")
}
