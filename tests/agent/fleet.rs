//! Several control planes: one API, an agent and a kubelet on each node, and somebody who counts the schedulers in change.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use schedpatch::agent::Release;
use schedpatch::phase::Phase;
use schedpatch::rollout::Record;
use serde_json::json;
use tokio::task::JoinHandle;

use crate::api::{Api, CONFIG_MAPS, DAEMON_SETS, LEASES, ROLLOUT};
use crate::node::{Node, config};

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];

/// Three control planes.
pub struct Fleet {
    pub api: Api,
    pub nodes: Vec<Node>,
    /// The most schedulers that were down at once, since somebody asked
    pub most_down: Rc<RefCell<usize>>,
    tasks: Vec<JoinHandle<()>>,
}

pub fn fleet<F: Future<Output = ()>>(tell: impl FnOnce(Fleet) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().expect("a runtime");
    let local = tokio::task::LocalSet::new();
    local.block_on(&runtime, async { tell(Fleet::new()).await });
}

fn release() -> Release {
    Release {
        namespace: "schedpatch".to_owned(),
        daemon_set: Some("schedpatch".to_owned()),
        template: 1,
        config_maps: vec!["schedpatch".to_owned()],
    }
}

impl Fleet {
    fn new() -> Self {
        let api = Api::new(&NODES);
        let template = json!({ "deprecated.daemonset.template.generation": "1" });
        api.put(
            DAEMON_SETS,
            "schedpatch",
            json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": { "name": "schedpatch", "uid": "set", "annotations": template } }),
        );
        let nodes = NODES.iter().map(|name| Node::of(name, api.clone(), release())).collect();
        let mut fleet = Self { api, nodes, most_down: Rc::default(), tasks: Vec::new() };
        fleet.tasks.push(fleet.elect());
        fleet
    }

    /// The first scheduler that serves leads until it does not; and the schedulers that do not serve are counted.
    fn elect(&self) -> JoinHandle<()> {
        let serves: Vec<_> = self.nodes.iter().map(|node| node.kubelet.borrow().serves.clone()).collect();
        let (api, most_down) = (self.api.clone(), Rc::clone(&self.most_down));
        tokio::task::spawn_local(async move {
            let mut leader = None;
            loop {
                let up: Vec<bool> = serves.iter().map(|one| one.load(Ordering::Relaxed)).collect();
                leader = leader.filter(|one: &usize| up[*one]).or_else(|| up.iter().position(|is_up| *is_up));
                let holder = leader.map(|one| format!("{}_x", NODES[one])).unwrap_or_default();
                api.put(
                    LEASES,
                    "kube-scheduler",
                    json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
                        "metadata": { "name": "kube-scheduler" }, "spec": { "holderIdentity": holder } }),
                );
                let down = up.iter().filter(|is_up| !**is_up).count();
                let most = (*most_down.borrow()).max(down);
                *most_down.borrow_mut() = most;
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
        })
    }

    pub fn want(&self, extender: &str) {
        self.want_text(&config(extender));
    }

    pub fn want_text(&self, text: &str) {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "schedpatch", "uid": "map" }, "data": { "config.yaml": text } });
        self.api.put(CONFIG_MAPS, "schedpatch", map);
    }

    /// Schedulers that run, and agents.
    pub async fn start(&mut self) {
        self.pass(10).await;
        // the leader's agent comes last, when the others have said what they want
        for node in [1, 2, 0] {
            self.nodes[node].start();
            self.pass(1).await;
        }
        *self.most_down.borrow_mut() = 0;
    }

    /// The same, and all have proven one configuration.
    pub async fn bring_up(&mut self) {
        self.want("one");
        self.start().await;
        self.until_all(Phase::Ready, 300).await;
        self.pass(30).await;
    }

    pub async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    pub fn record(&self) -> Record {
        let lease = self.api.object(LEASES, ROLLOUT).expect("it is there");
        let text = lease["metadata"]["annotations"]["schedpatch.io/rollout"].as_str().expect("somebody wrote");
        Record::read(text).expect("it is sound")
    }

    pub fn annotate_lease(&self, key: &str, value: &str) {
        self.api.annotate_lease(key, value);
    }

    /// Replaces the record, as a person's program does.
    pub fn change_record(&self, change: impl FnOnce(&mut Record)) {
        let mut record = self.record();
        change(&mut record);
        self.annotate_lease("schedpatch.io/rollout", &record.write().expect("JSON"));
    }

    /// The node whose scheduler leads.
    pub fn leader(&self) -> usize {
        let lease = self.api.object(LEASES, "kube-scheduler").expect("it is there");
        let holder = lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned();
        self.nodes.iter().position(|node| holder == format!("{}_x", node.name)).expect("one leads")
    }

    /// Somebody removes the record.
    pub fn lose_record(&self) {
        let mut lease = self.api.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"] = json!({});
        self.api.put(LEASES, ROLLOUT, lease);
    }

    /// Waits until a node is in a phase.
    pub async fn until(&self, node: usize, phase: Phase, within: u64) {
        for _ in 0..within {
            if self.nodes[node].phase() == phase {
                return;
            }
            self.pass(1).await;
        }
        panic!("{} is not {phase:?} within {within} s\n{}", self.nodes[node].name, self.story());
    }

    pub fn story(&self) -> String {
        let of_node = |node: &Node| {
            format!("{}: {:?}\n  {:?}\n", node.name, node.report.borrow().node_state, node.history.borrow())
        };
        self.nodes.iter().map(of_node).collect::<String>() + &format!("{:#?}", self.api.object(LEASES, ROLLOUT))
    }

    /// Waits until every node is in a phase and nobody has a turn.
    pub async fn until_all(&self, phase: Phase, within: u64) {
        for _ in 0..within {
            let is_written = self
                .api
                .object(LEASES, ROLLOUT)
                .is_some_and(|lease| lease["metadata"]["annotations"]["schedpatch.io/rollout"].is_string());
            if is_written && self.nodes.iter().all(|node| node.phase() == phase) && self.record().entry.is_none() {
                return;
            }
            self.pass(1).await;
        }
        panic!("not all {phase:?} within {within} s\n{}", self.story());
    }

    /// The order in which the nodes got something new.
    pub fn revisions(&self) -> Vec<Option<String>> {
        self.nodes.iter().map(Node::revision).collect()
    }

    pub fn starts(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.kubelet.borrow().started()).collect()
    }
}
