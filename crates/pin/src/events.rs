//! Events on pods and nodes: why a pod waits, and where it went. They come behind: while pods are being placed, nearly all of
//! the API server's time is left to the bindings.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use serde_json::{Value, json};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::watch;

use crate::api::Api;
use crate::counters::Counters;
use crate::model::Pod;
use crate::reason::Wait;

/// Events that wait to be written; more are dropped, since what they say is in the log and in `why` too.
const QUEUE: usize = 5_000;
/// While pods are being placed, only one event is written in this time.
const HOLD_BACK: Duration = Duration::from_millis(500);
/// Longer notes are refused by the API server.
const MAX_NOTE: usize = 1_000;

/// An event about a pod or a node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Namespace of the event
    pub namespace: String,
    /// The object that it is about
    pub regarding: Value,
    /// One word
    pub reason: &'static str,
    /// `Normal` or `Warning`
    pub kind: &'static str,
    /// The sentence
    pub note: String,
}

impl Event {
    /// A pod got its node.
    pub fn placed(pod: &Pod, node: &str, reason: &'static str) -> Self {
        Self {
            namespace: pod.metadata.namespace.clone(),
            regarding: pod_reference(pod),
            reason,
            kind: "Normal",
            note: format!("Successfully assigned {} to {node}", pod.full_name()),
        }
    }

    /// A pod waits: one event for the pod, and one for each node that keeps it waiting.
    pub fn waiting(pod: &Pod, wait: &Wait) -> Vec<Self> {
        let on_pod = Self {
            namespace: pod.metadata.namespace.clone(),
            regarding: pod_reference(pod),
            reason: wait.word(),
            kind: "Warning",
            note: wait.to_string(),
        };
        let on_nodes = wait.0.iter().filter_map(|(node, reason)| {
            let node = node.as_ref()?;
            Some(Self {
                namespace: "default".to_owned(),
                // kubectl describe looks for the events of a node by its name as UID
                regarding: json!({ "apiVersion": "v1", "kind": "Node", "name": node, "uid": node }),
                reason: reason.word(),
                kind: "Warning",
                note: format!("the pod {}, pinned to this node, waits: {reason}", pod.full_name()),
            })
        });
        std::iter::once(on_pod).chain(on_nodes).collect()
    }

    fn object(&self, controller: &str, instance: &str, now: Timestamp) -> Value {
        let name = self.regarding["name"].as_str().unwrap_or_default();
        // the API server adds to this, and lets it end in a dash, but not in a dot
        let prefix = format!("{}-", name.chars().take(200).collect::<String>().trim_end_matches(['.', '-']));
        let note: String = self.note.chars().take(MAX_NOTE).collect();
        json!({ "apiVersion": "events.k8s.io/v1", "kind": "Event",
            "metadata": { "generateName": prefix, "namespace": self.namespace },
            "eventTime": format!("{now:.6}"), "reportingController": controller, "reportingInstance": instance,
            "action": "Pinning", "reason": self.reason, "type": self.kind, "note": note, "regarding": self.regarding })
    }
}

fn pod_reference(pod: &Pod) -> Value {
    let meta = &pod.metadata;
    json!({ "apiVersion": "v1", "kind": "Pod", "name": meta.name, "namespace": meta.namespace, "uid": meta.uid })
}

/// Takes events without ever waiting.
#[derive(Clone, Debug)]
pub struct Recorder {
    queue: Sender<Event>,
    is_busy: watch::Sender<bool>,
    counters: Counters,
}

impl Recorder {
    /// Writes events in the background, one after the other.
    pub fn start(api: Api, scheduler: &str, instance: &str, counters: Counters) -> Self {
        let (queue, events) = channel(QUEUE);
        let (is_busy, busy) = watch::channel(false);
        tokio::spawn(write(api, format!("schedpatch.io/pin-{scheduler}"), instance.to_owned(), events, busy));
        Self { queue, is_busy, counters }
    }

    /// Says whether pods are being placed.
    pub fn set_busy(&self, is_busy: bool) {
        self.is_busy.send_if_modified(|known| std::mem::replace(known, is_busy) != is_busy);
    }

    /// Records an event, or drops it if too many wait.
    pub fn record(&self, event: Event) {
        if self.queue.try_send(event).is_err() {
            self.counters.add("schedpatch_pin_events_dropped_total", "");
        }
    }
}

async fn write(
    api: Api,
    controller: String,
    instance: String,
    mut events: Receiver<Event>,
    mut is_busy: watch::Receiver<bool>,
) {
    let mut is_forbidden = false;
    while let Some(event) = events.recv().await {
        if is_forbidden {
            continue;
        }
        let _ = tokio::time::timeout(HOLD_BACK, is_busy.wait_for(|is_busy| !is_busy)).await;
        let path = format!("/apis/events.k8s.io/v1/namespaces/{}/events", event.namespace);
        let Err(error) = api.create(&path, &event.object(&controller, &instance, Timestamp::now())).await else {
            continue;
        };
        if error.code() == 403 {
            tracing::info!(
                "not allowed to create events: why a pod waits is in the log and in `schedpatch-pin why POD` only"
            );
            is_forbidden = true;
        } else {
            tracing::warn!(reason = event.reason, "cannot write an event: {error}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reason::Reason;

    #[test]
    fn a_wait_for_a_node_is_told_on_the_pod_and_on_the_node_under_names_that_the_api_takes() {
        let pod = json!({ "metadata": { "name": "web-0", "namespace": "db", "uid": "u" } });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let events = Event::waiting(&pod, &Wait(vec![(Some("n1.example.com".to_owned()), Reason::NodeCordoned)]));
        let objects: Vec<Value> = events.iter().map(|event| event.object("c", "i", Timestamp::UNIX_EPOCH)).collect();
        let text = |object: &Value, pointer: &str| object.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let names: Vec<_> = objects.iter().filter_map(|object| text(object, "/metadata/generateName")).collect();
        assert_eq!(names, ["web-0-", "n1.example.com-"]);
        let spaces: Vec<_> = objects.iter().filter_map(|object| text(object, "/metadata/namespace")).collect();
        assert_eq!(spaces, ["db", "default"]);
        assert_eq!(text(&objects[0], "/eventTime").as_deref(), Some("1970-01-01T00:00:00.000000Z"));
        assert!(objects.iter().all(|object| object["reason"] == "NodeCordoned"));
    }
}
