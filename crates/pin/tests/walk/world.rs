//! A small cluster for walks: pods, nodes, labels, and the daemon's replicas.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use schedpatch_pin::counters::Counters;
use schedpatch_pin::decide::{Checks, Mode};
use schedpatch_pin::labels::Labels;
use schedpatch_pin::lead::Candidate;
use schedpatch_pin::run::{Daemon, Settings};
use serde_json::{Value, json};
use tokio::sync::oneshot;

use crate::api::Api;

pub const PODS: usize = 12;
pub const NODES: usize = 4;

/// Numbers that look random and are the same for the same seed (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        usize::try_from((mixed ^ (mixed >> 31)) % limit as u64).expect("it is below the limit")
    }
}

pub struct World {
    pub api: Api,
    stops: Mutex<BTreeMap<usize, oneshot::Sender<()>>>,
}

impl World {
    /// A cluster with its nodes, and this many replicas of the daemon, all of which act.
    pub fn new(replicas: usize) -> Self {
        let world = Self { api: Api::new(), stops: Mutex::default() };
        for node in 0..NODES {
            world.create_node(node);
        }
        for replica in 0..replicas {
            world.start(replica);
        }
        world
    }

    /// Starts a replica that always acts.
    pub fn start(&self, replica: usize) -> tokio::task::JoinHandle<()> {
        self.start_with(replica, None)
    }

    /// Starts a replica that acts only while it leads.
    pub fn start_candidate(&self, replica: usize) -> tokio::task::JoinHandle<()> {
        let identity = format!("replica-{replica}");
        self.start_with(replica, Some(Candidate::new(self.api.client(replica), "default", "test", &identity)))
    }

    fn start_with(&self, replica: usize, candidate: Option<Candidate>) -> tokio::task::JoinHandle<()> {
        let settings = Settings {
            labels: Labels::new("test", false).expect("a good name"),
            checks: Checks::Safe,
            modes: vec![Mode::Bind, Mode::Gate],
            delay: Duration::from_secs(10),
        };
        let daemon = Daemon::new(self.api.client(replica), settings, candidate, "walk", Counters::new("test"));
        let (stop, stopped) = oneshot::channel::<()>();
        self.stops.lock().expect("nobody panics with it").insert(replica, stop);
        tokio::spawn(daemon.run(async {
            if stopped.await.is_err() {
                std::future::pending::<()>().await;
            }
        }))
    }

    /// Asks a replica to end.
    pub fn stop(&self, replica: usize) {
        if let Some(stop) = self.stops.lock().expect("nobody panics with it").remove(&replica) {
            let _ = stop.send(());
        }
    }

    pub async fn settle(&self) {
        tokio::time::sleep(Duration::from_mins(6)).await;
    }

    pub fn create_pod(&self, number: usize, is_gated: bool) {
        let name = format!("web-{number}");
        let mut state = self.api.state();
        let uid = format!("{name}-{}", state.requests.values().sum::<u64>() + state.violations.len() as u64 + serial());
        state.change("pods", &format!("default/{name}"), |old| {
            old.or_else(|| {
                Some(if is_gated {
                    json!({ "metadata": { "name": name, "namespace": "default", "uid": uid, "labels": { "schedpatch.io/pin": "test" } },
                        "spec": { "schedulerName": "default-scheduler", "schedulingGates": [{ "name": "schedpatch.io/pin" }] } })
                } else {
                    json!({ "metadata": { "name": name, "namespace": "default", "uid": uid }, "spec": { "schedulerName": "test",
                        "containers": [{ "resources": { "requests": { "cpu": "100m" } } }] } })
                })
            })
        });
    }

    /// Deletes a pod at once, or marks it first.
    pub fn delete_pod(&self, number: usize, at_once: bool) {
        self.api.change("pods", &format!("default/web-{number}"), |old| {
            let mut pod = old?;
            if at_once || pod["metadata"].get("deletionTimestamp").is_some() {
                return None;
            }
            pod["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
            Some(pod)
        });
    }

    pub fn create_node(&self, number: usize) {
        self.api.change("nodes", &format!("n{number}"), |old| {
            old.or_else(|| {
                Some(json!({ "metadata": { "name": format!("n{number}"), "uid": format!("n{number}"), "labels": {} }, "spec": {},
                    "status": { "allocatable": { "cpu": "4", "pods": "110" }, "conditions": [{ "type": "Ready", "status": "True" }] } }))
            })
        });
    }

    pub fn delete_node(&self, number: usize) {
        self.api.change("nodes", &format!("n{number}"), |_| None);
    }

    fn change_node(&self, number: usize, change: impl FnOnce(&mut Value)) {
        self.api.change("nodes", &format!("n{number}"), |old| {
            let mut node = old?;
            change(&mut node);
            Some(node)
        });
    }

    /// Labels a node for a pod, in the older or the newer form.
    pub fn label(&self, node: usize, pod: usize, is_older: bool, value: usize) {
        let key = if is_older {
            format!("rf.scheduler.test/web-{pod}")
        } else {
            format!("rf.scheduler.test.default/web-{pod}")
        };
        self.change_node(node, |node| node["metadata"]["labels"][key.as_str()] = json!(value.to_string()));
    }

    pub fn unlabel(&self, node: usize, pod: usize) {
        self.change_node(node, |node| {
            let labels = node["metadata"]["labels"].as_object_mut().expect("labels");
            labels.remove(&format!("rf.scheduler.test/web-{pod}"));
            labels.remove(&format!("rf.scheduler.test.default/web-{pod}"));
        });
    }

    pub fn set_ready(&self, node: usize, is_ready: bool) {
        let status = if is_ready { "True" } else { "Unknown" };
        self.change_node(node, |node| node["status"]["conditions"][0]["status"] = json!(status));
    }

    pub fn cordon(&self, node: usize, is_cordoned: bool) {
        self.change_node(node, |node| node["spec"]["unschedulable"] = json!(is_cordoned));
    }

    /// Somebody else binds the pod.
    pub fn bind_behind_our_back(&self, pod: usize, node: usize) {
        self.api.change("pods", &format!("default/web-{pod}"), |old| {
            let mut pod = old?;
            let is_free = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
            if is_free && pod["spec"]["schedulerName"] == "test" {
                pod["spec"]["nodeName"] = json!(format!("n{node}"));
            }
            Some(pod)
        });
    }

    /// Pods that wait though a good node is labelled for them.
    pub fn wrongly_waiting(&self) -> Vec<String> {
        let nodes: Vec<Value> = self.api.names("nodes").iter().filter_map(|name| self.api.get("nodes", name)).collect();
        let is_good = |node: &&Value| {
            node["status"]["conditions"][0]["status"] == "True" && node["spec"]["unschedulable"] != true
        };
        let is_pinned = |pod: &str| {
            let name = pod.trim_start_matches("default/");
            nodes.iter().filter(is_good).any(|node| {
                let labels = &node["metadata"]["labels"];
                let forms = [format!("rf.scheduler.test/{name}"), format!("rf.scheduler.test.default/{name}")];
                forms.iter().any(|form| labels.get(form).is_some())
            })
        };
        let is_open = |pod: &Value| {
            let is_free = pod["spec"]["nodeName"].as_str().unwrap_or_default().is_empty();
            let is_gated = pod["spec"]["schedulingGates"].as_array().is_some_and(|gates| !gates.is_empty());
            let is_ours = pod["spec"]["schedulerName"] == "test" || is_gated;
            is_free && is_ours && pod["metadata"].get("deletionTimestamp").is_none()
        };
        let pods = self.api.names("pods").into_iter();
        pods.filter(|name| self.api.get("pods", name).is_some_and(|pod| is_open(&pod)) && is_pinned(name)).collect()
    }
}

fn serial() -> u64 {
    use std::sync::atomic::{AtomicU64, Ordering};
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1_000_000, Ordering::SeqCst)
}
