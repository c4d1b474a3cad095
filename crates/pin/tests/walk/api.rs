//! An API server in the process, under the same client as the real one: nodes, pods, bindings, watches, faults on command,
//! and a judge of every binding. No sockets, so that time can be turned.

use std::collections::{BTreeMap, BTreeSet};
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
use tokio::time::Instant;

use crate::objects;
use crate::select::selects;

/// What is wrong with the API.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    None,
    /// Connections are refused
    Refuse,
    /// Questions get no answer, and open watches say nothing
    Hang,
    /// Every question gets this code
    Code(u16),
    /// Every question reaches the server so many milliseconds late
    Slow(u64),
    /// Bindings are done, but the answer is lost
    LoseAnswers,
    /// Watches say nothing, though everything else answers
    Mute,
}

pub type Answer = Response<UnsyncBoxBody<Bytes, io::Error>>;
type Chunk = Result<Frame<Bytes>, io::Error>;

struct Watch {
    kind: &'static str,
    fields: String,
    labels: String,
    seen: u64,
    sender: UnboundedSender<Chunk>,
}

/// One version of an object.
struct Version {
    number: u64,
    kind: &'static str,
    old: Option<Value>,
    new: Option<Value>,
}

#[derive(Default)]
pub struct State {
    version: u64,
    compacted: u64,
    pub objects: BTreeMap<&'static str, BTreeMap<String, Value>>,
    history: Vec<Version>,
    watches: Vec<Watch>,
    pub fault: Option<Fault>,
    pub may_watch: bool,
    /// A kind whose watches say nothing
    muted: Option<&'static str>,
    /// Replicas whose questions get no answer
    pub cut_off: BTreeSet<usize>,
    /// Replicas whose questions reach the server so much later
    pub held_up: BTreeMap<usize, Duration>,
    /// Kinds that nobody may read
    pub forbidden: BTreeSet<&'static str>,
    /// When a label of a node went away
    pub unlabelled: BTreeMap<(String, String), Instant>,
    /// Replicas and UIDs of pods whose binding was answered with success
    pub bound: BTreeMap<(usize, String), String>,
    pub violations: Vec<String>,
    pub requests: BTreeMap<String, u64>,
    pub events: Vec<Value>,
}

#[derive(Clone)]
pub struct Api(Arc<Mutex<State>>);

impl Api {
    pub fn new() -> Self {
        Self(Arc::new(Mutex::new(State { may_watch: true, ..State::default() })))
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panics with it")
    }

    /// The client of one of several replicas.
    pub fn client(&self, replica: usize) -> Client {
        let api = self.clone();
        Client::new(
            tower::service_fn(move |request: Request<Body>| {
                let api = api.clone();
                async move { api.answer(replica, request).await }
            }),
            "default",
        )
    }

    pub fn set_fault(&self, fault: Fault) {
        let mut state = self.state();
        state.fault = Some(fault);
        if fault == Fault::Refuse {
            state.reset();
        }
        state.tell_watches();
    }

    pub fn fault(&self) -> Fault {
        self.state().fault.unwrap_or(Fault::None)
    }

    /// Watches of this kind say nothing any more.
    pub fn mute(&self, kind: &'static str) {
        self.state().muted = Some(kind);
    }

    pub fn reset_watches(&self) {
        self.state().reset();
    }

    /// Forgets old versions: who watches from there gets 410.
    pub fn compact(&self) {
        let mut state = self.state();
        state.compacted = state.version;
        state.history.clear();
        state.reset();
    }

    /// Puts, changes or removes an object.
    pub fn change(&self, kind: &'static str, name: &str, change: impl FnOnce(Option<Value>) -> Option<Value>) {
        self.state().change(kind, name, change);
    }

    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        self.state().objects.get(kind)?.get(name).cloned()
    }

    pub fn names(&self, kind: &str) -> Vec<String> {
        self.state().objects.get(kind).map(|objects| objects.keys().cloned().collect()).unwrap_or_default()
    }

    async fn answer(&self, replica: usize, request: Request<Body>) -> Result<Answer, io::Error> {
        let (parts, body) = request.into_parts();
        if let Fault::Slow(millis) = self.fault() {
            tokio::time::sleep(Duration::from_millis(millis)).await;
        }
        let held_up = self.state().held_up.get(&replica).copied();
        if let Some(held_up) = held_up {
            tokio::time::sleep(held_up).await;
        }
        if self.state().cut_off.contains(&replica) {
            std::future::pending::<()>().await;
        }
        match self.fault() {
            Fault::Hang => std::future::pending().await,
            Fault::Refuse => return Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
            Fault::Code(code) => return Ok(failure(code, "as told")),
            _ => {}
        }
        let bytes = body.collect().await.map_err(io::Error::other)?.to_bytes();
        let object: Value = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        let query: BTreeMap<String, String> = parts.uri.query().map(pairs).unwrap_or_default();
        let path = parts.uri.path().to_owned();
        let parts_of_path: Vec<&str> = path.trim_matches('/').split('/').collect();
        *self.state().requests.entry(format!("{} {}", parts.method, shape(&parts_of_path))).or_default() += 1;
        Ok(match (parts.method, parts_of_path.as_slice()) {
            (Method::GET, ["api", "v1", kind @ ("nodes" | "pods")]) => {
                let kind = if *kind == "nodes" { "nodes" } else { "pods" };
                self.list_or_watch(kind, &query)
            }
            (Method::POST, ["api", "v1", "namespaces", namespace, "pods", name, "binding"]) => {
                let answer = self.state().bind(replica, &format!("{namespace}/{name}"), &object);
                if self.fault() == Fault::LoseAnswers {
                    return Err(io::Error::from(io::ErrorKind::ConnectionReset));
                }
                answer
            }
            (Method::PATCH, ["api", "v1", "namespaces", namespace, "pods", name]) => {
                let answer = self.state().lift(replica, &format!("{namespace}/{name}"), &object);
                if self.fault() == Fault::LoseAnswers {
                    return Err(io::Error::from(io::ErrorKind::ConnectionReset));
                }
                answer
            }
            (Method::POST, path) if path.last() == Some(&"events") => {
                self.state().events.push(object.clone());
                answer(StatusCode::CREATED, &object)
            }
            (method, path) if objects::is_served(path) => self.state().serve(&method, path, &object),
            (method, _) => failure(404, &format!("no such thing: {method} {path}")),
        })
    }

    fn list_or_watch(&self, kind: &'static str, query: &BTreeMap<String, String>) -> Answer {
        let fields = query.get("fieldSelector").cloned().unwrap_or_default();
        let labels = query.get("labelSelector").cloned().unwrap_or_default();
        let mut state = self.state();
        if query.get("watch").is_none_or(|watch| watch != "true") {
            let all = state.objects.get(kind).into_iter().flat_map(BTreeMap::values);
            let items: Vec<&Value> = all.filter(|object| selects(object, &fields, &labels)).collect();
            return answer(
                StatusCode::OK,
                &json!({ "kind": "List", "metadata": { "resourceVersion": state.version.to_string() }, "items": items }),
            );
        }
        if !state.may_watch {
            return failure(403, "you may not watch");
        }
        let since: u64 = query.get("resourceVersion").and_then(|version| version.parse().ok()).unwrap_or(0);
        if since < state.compacted {
            return failure(410, "too old");
        }
        let (sender, receiver) = unbounded_channel();
        state.watches.push(Watch { kind, fields, labels, seen: since, sender });
        state.tell_watches();
        Response::new(StreamBody::new(stream(receiver).boxed()).boxed_unsync())
    }
}

impl State {
    pub fn change(&mut self, kind: &'static str, name: &str, change: impl FnOnce(Option<Value>) -> Option<Value>) {
        let old = self.objects.get(kind).and_then(|objects| objects.get(name)).cloned();
        let mut new = change(old.clone());
        if old == new {
            return;
        }
        self.version += 1;
        let number = self.version;
        if let Some(new) = &mut new {
            new["metadata"]["resourceVersion"] = json!(number.to_string());
        }
        if kind == "nodes" {
            self.note_labels(name, old.as_ref(), new.as_ref());
        }
        let objects = self.objects.entry(kind).or_default();
        match &new {
            Some(new) => objects.insert(name.to_owned(), new.clone()),
            None => objects.remove(name),
        };
        self.history.push(Version { number, kind, old, new });
        self.tell_watches();
    }

    fn note_labels(&mut self, node: &str, old: Option<&Value>, new: Option<&Value>) {
        let labels = |node: Option<&Value>| {
            node.and_then(|node| node["metadata"]["labels"].as_object().cloned()).unwrap_or_default()
        };
        let (old, new) = (labels(old), labels(new));
        for key in old.keys().filter(|key| !new.contains_key(*key)) {
            self.unlabelled.insert((node.to_owned(), key.clone()), Instant::now());
        }
        for key in new.keys() {
            self.unlabelled.remove(&(node.to_owned(), key.clone()));
        }
    }

    fn tell_watches(&mut self) {
        if matches!(self.fault, Some(Fault::Hang | Fault::Refuse | Fault::Mute)) {
            return;
        }
        for watch in self.watches.iter_mut().filter(|watch| self.muted != Some(watch.kind)) {
            for version in self.history.iter().filter(|version| version.kind == watch.kind) {
                if version.number <= watch.seen {
                    continue;
                }
                watch.seen = version.number;
                let is_selected = |object: &Option<Value>| {
                    object.as_ref().is_some_and(|object| selects(object, &watch.fields, &watch.labels))
                };
                let (kind, object) = match (is_selected(&version.old), is_selected(&version.new)) {
                    (false, true) => ("ADDED", &version.new),
                    (true, true) => ("MODIFIED", &version.new),
                    // what is no longer selected is shown as it was, with the new version
                    (true, false) => ("DELETED", &version.old),
                    (false, false) => continue,
                };
                let mut object = object.clone().unwrap_or_default();
                object["metadata"]["resourceVersion"] = json!(version.number.to_string());
                let line = json!({ "type": kind, "object": object }).to_string() + "\n";
                let _ = watch.sender.send(Ok(Frame::data(Bytes::from(line))));
            }
        }
        self.watches.retain(|watch| !watch.sender.is_closed());
    }

    fn reset(&mut self) {
        for watch in self.watches.drain(..) {
            let _ = watch.sender.send(Err(io::Error::from(io::ErrorKind::ConnectionReset)));
        }
    }
}

/// A path without names.
fn shape(path: &[&str]) -> String {
    match path {
        ["api", "v1", "namespaces", _, kind, _, sub] => format!("{kind}/{sub}"),
        ["api", "v1", "namespaces", _, kind, _] => (*kind).to_owned(),
        other => other.last().copied().unwrap_or_default().to_owned(),
    }
}

fn stream(receiver: UnboundedReceiver<Chunk>) -> impl futures_util::Stream<Item = Chunk> {
    futures_util::stream::unfold(receiver, |mut receiver| async {
        receiver.recv().await.map(|chunk| (chunk, receiver))
    })
}

fn pairs(query: &str) -> BTreeMap<String, String> {
    let decoded = |text: &str| text.replace("%3D", "=").replace("%2F", "/").replace("%2C", ",");
    let pairs = query.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(key, value)| (decoded(key), decoded(value))).collect()
}

pub fn failure(code: u16, message: &str) -> Answer {
    let reason = if code == 404 { "NotFound" } else { "Told" };
    let status = json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": message, "reason": reason, "code": code });
    answer(StatusCode::from_u16(code).expect("a code"), &status)
}

pub fn answer(code: StatusCode, object: &Value) -> Answer {
    let body = Full::new(Bytes::from(object.to_string())).map_err(|never: Infallible| match never {});
    let mut response = Response::new(body.boxed_unsync());
    *response.status_mut() = code;
    response
}
