//! Several control planes: one API, an agent and a kubelet on each node, and somebody who counts the schedulers in change.

use std::cell::RefCell;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use schedpatch::agent::Release;
use schedpatch::phase::Phase;
use schedpatch::rollout::Record;
use serde_json::{Value, json};
use tokio::task::JoinHandle;

use crate::api::{Api, CONFIG_MAPS, DAEMON_SETS, LEASES, ROLLOUT};
use crate::kubelet::FUSSY_IMAGE;
use crate::node::{MANIFEST, Node, config};

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];

/// Three control planes.
struct Fleet {
    api: Api,
    nodes: Vec<Node>,
    /// The most schedulers that were down at once, since somebody asked
    most_down: Rc<RefCell<usize>>,
    tasks: Vec<JoinHandle<()>>,
}

fn fleet<F: Future<Output = ()>>(tell: impl FnOnce(Fleet) -> F) {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
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

    fn want(&self, extender: &str) {
        self.want_text(&config(extender));
    }

    fn want_text(&self, text: &str) {
        let map = json!({ "apiVersion": "v1", "kind": "ConfigMap",
            "metadata": { "name": "schedpatch", "uid": "map" }, "data": { "config.yaml": text } });
        self.api.put(CONFIG_MAPS, "schedpatch", map);
    }

    /// Schedulers that run, and agents.
    async fn start(&mut self) {
        self.pass(10).await;
        // the leader's agent comes last, when the others have said what they want
        for node in [1, 2, 0] {
            self.nodes[node].start();
            self.pass(1).await;
        }
        *self.most_down.borrow_mut() = 0;
    }

    async fn pass(&self, seconds: u64) {
        tokio::time::sleep(Duration::from_secs(seconds)).await;
    }

    fn record(&self) -> Record {
        let lease = self.api.object(LEASES, ROLLOUT).expect("it is there");
        let text = lease["metadata"]["annotations"]["schedpatch.io/rollout"].as_str().expect("somebody wrote");
        Record::read(text).expect("it is sound")
    }

    fn annotate_lease(&self, key: &str, value: &str) {
        let mut lease = self.api.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"][key] = Value::from(value);
        self.api.put(LEASES, ROLLOUT, lease);
    }

    fn story(&self) -> String {
        let of_node = |node: &Node| {
            format!("{}: {:?}\n  {:?}\n", node.name, node.report.borrow().node_state, node.history.borrow())
        };
        self.nodes.iter().map(of_node).collect::<String>() + &format!("{:#?}", self.api.object(LEASES, ROLLOUT))
    }

    /// Waits until every node is in a phase and nobody has a turn.
    async fn until_all(&self, phase: Phase, within: u64) {
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
    fn revisions(&self) -> Vec<Option<String>> {
        self.nodes.iter().map(Node::revision).collect()
    }

    fn starts(&self) -> Vec<u32> {
        self.nodes.iter().map(|node| node.kubelet.borrow().started()).collect()
    }
}

#[test]
fn three_nodes_change_one_by_one_the_leader_last_and_seal_what_they_proved() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        // the leader is the first node
        let mut first = None;
        for _ in 0..120 {
            let changed: Vec<bool> = fleet.revisions().iter().map(Option::is_some).collect();
            if changed.contains(&true) {
                first.get_or_insert(changed);
            }
            fleet.pass(1).await;
        }
        assert_eq!(first, Some(vec![false, true, false]), "{}", fleet.story());
        fleet.until_all(Phase::Ready, 120).await;
        fleet.pass(30).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        let record = fleet.record();
        assert_eq!((record.seals, record.sealed.is_some(), record.failed.len()), (1, true, 0), "{record:?}");
        assert_eq!(fleet.starts(), [2, 2, 2], "each scheduler was restarted once");
        for node in &fleet.nodes {
            assert!(node.journal().sealed.is_some(), "{} knows the way back", node.name);
        }
        let events = fleet.api.events();
        for reason in ["RolloutBegan", "RolloutFinished"] {
            assert_eq!(events.iter().filter(|(own, _)| own == reason).count(), 1, "{reason}: {events:#?}");
        }
    });
}

#[test]
fn what_fails_on_the_first_node_reaches_no_other() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        let (good, starts) = (fleet.revisions(), fleet.starts());
        fleet.want("crash.");
        fleet.pass(5).await;
        fleet.until_all(Phase::RolledBack, 600).await;
        assert_eq!(fleet.revisions(), good);
        let touched = starts.iter().zip(fleet.starts()).filter(|(before, after)| **before != *after).count();
        assert_eq!(touched, 1, "{}", fleet.story());
        let elsewhere = fleet.nodes.iter().filter(|node| node.report.borrow().node_state.reason == "FailedElsewhere");
        for node in elsewhere {
            assert!(node.message().contains("the extender crash. is refused"), "{}", node.message());
        }
        assert_eq!(fleet.record().failed.len(), 1);
        // a person insists, and it fails again
        fleet.annotate_lease("schedpatch.io/retry", "now");
        fleet.pass(20).await;
        assert_eq!(fleet.record().retries, 1);
        fleet.until_all(Phase::RolledBack, 600).await;
        assert_eq!(fleet.record().failed.len(), 1, "{}", fleet.story());
        // another configuration is welcome
        fleet.want("two");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 300).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
    });
}

#[test]
fn what_fails_on_a_later_node_is_turned_back_on_those_before() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        // the leader, which goes last, has another release of the scheduler
        let text = MANIFEST.replace("v1.36.1", FUSSY_IMAGE);
        fleet.nodes[0].write_manifest(&text);
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        let good = fleet.revisions();
        fleet.want("fussy.");
        fleet.pass(5).await;
        fleet.until_all(Phase::RolledBack, 900).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        let events = fleet.api.events();
        assert!(events.iter().any(|(reason, _)| reason == "RolloutTurnedBack"), "{events:#?}");
    });
}

#[test]
fn a_pause_stops_beginnings_and_a_resume_lets_them_go_on() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.annotate_lease("schedpatch.io/pause", "true");
        fleet.pass(10).await;
        let before = fleet.revisions();
        fleet.want("two");
        fleet.pass(120).await;
        assert_eq!(fleet.revisions(), before);
        for node in &fleet.nodes {
            assert_eq!(node.report.borrow().node_state.reason, "Paused", "{}", fleet.story());
        }
        fleet.annotate_lease("schedpatch.io/pause", "false");
        fleet.until_all(Phase::Ready, 300).await;
        assert_ne!(fleet.revisions(), before);
    });
}

#[test]
fn an_uninstall_leaves_every_manifest_as_it_was_and_no_trace() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        *fleet.most_down.borrow_mut() = 0;
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 300).await;
        fleet.pass(30).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        assert_eq!(fleet.record().restored.len(), 3);
        for node in &fleet.nodes {
            assert_eq!(node.manifest(), MANIFEST, "{}", fleet.story());
            assert_eq!(fleet.api.annotation(&node.name, "phase"), None, "{}", node.name);
            assert!(!node.on_host("/var/lib/schedpatch/state.json").exists(), "{}", node.name);
        }
    });
}

#[test]
fn an_agent_that_is_killed_in_its_turn_goes_on_when_it_is_back() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        fleet.nodes[1].kill().await;
        fleet.pass(20).await;
        fleet.nodes[1].start();
        fleet.until_all(Phase::Ready, 400).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        assert_eq!(fleet.starts(), [2, 2, 2], "{}", fleet.story());
    });
}

#[test]
fn a_node_that_is_lost_in_its_turn_is_waited_for_until_it_is_forgotten() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        fleet.nodes[1].kill().await;
        fleet.nodes[1].kubelet.borrow_mut().is_running = false;
        fleet.api.set_node_ready("cp2", false);
        fleet.pass(900).await;
        assert_eq!(fleet.revisions().iter().flatten().count(), 1, "{}", fleet.story());
        fleet.annotate_lease("schedpatch.io/forget", "cp2");
        for node in [0, 2] {
            for _ in 0..600 {
                if fleet.nodes[node].phase() == Phase::Ready {
                    break;
                }
                fleet.pass(1).await;
            }
            assert_eq!(fleet.nodes[node].phase(), Phase::Ready, "{}", fleet.story());
        }
    });
}

#[test]
fn a_deleted_config_map_keeps_what_is_in_place() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        let before = fleet.revisions();
        fleet.api.remove(CONFIG_MAPS, "schedpatch");
        fleet.pass(30).await;
        assert_eq!(fleet.revisions(), before);
        for node in &fleet.nodes {
            let state = node.report.borrow().node_state.clone();
            assert_eq!((state.phase, state.reason.as_str()), (Phase::Pending, "SourceMissing"), "{}", fleet.story());
        }
        fleet.want("one");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 60).await;
    });
}

#[test]
fn without_the_api_drift_is_repaired_and_nothing_new_is_begun() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        let good = fleet.nodes[2].revision();
        fleet.api.cut_off("cp3", true);
        fleet.pass(30).await;
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(30).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
        fleet.want("two");
        fleet.pass(120).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
        fleet.api.cut_off("cp3", false);
        fleet.until_all(Phase::Ready, 600).await;
        assert_ne!(fleet.nodes[2].revision(), good, "{}", fleet.story());
    });
}

#[test]
fn an_agent_of_an_older_template_begins_nothing() {
    fleet(|mut fleet| async move {
        let template = json!({ "deprecated.daemonset.template.generation": "2" });
        fleet.api.put(
            DAEMON_SETS,
            "schedpatch",
            json!({ "apiVersion": "apps/v1", "kind": "DaemonSet",
                "metadata": { "name": "schedpatch", "uid": "set", "annotations": template } }),
        );
        fleet.want("one");
        fleet.start().await;
        fleet.pass(60).await;
        assert_eq!(fleet.revisions(), [None, None, None]);
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "Outdated");
    });
}

#[test]
fn without_the_lease_nothing_is_begun_and_the_node_says_so() {
    fleet(|mut fleet| async move {
        fleet.api.remove(LEASES, ROLLOUT);
        fleet.want("one");
        fleet.start().await;
        fleet.pass(60).await;
        assert_eq!(fleet.revisions(), [None, None, None]);
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "LeaseMissing");
    });
}

#[test]
fn the_state_directory_of_another_release_is_refused() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.nodes[1].stop().await.expect("it stops");
        fleet.nodes[1].options.release.namespace = "elsewhere".to_owned();
        fleet.nodes[1].start();
        fleet.pass(60).await;
        let state = fleet.nodes[1].report.borrow().node_state.clone();
        assert!(state.message.contains("belongs to the agents of schedpatch/schedpatch"), "{}", fleet.story());
    });
}
