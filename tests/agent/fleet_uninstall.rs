//! Three control planes: removing everything, from all or from one, and agents of another release.

use schedpatch::phase::Phase;
use schedpatch::rollout::Record;
use schedpatch::settings::Preflight;
use serde_json::json;

use std::time::Duration;

use crate::api::DAEMON_SETS;
use crate::fleet::fleet;
use crate::kubelet::FUSSY_IMAGE;
use crate::node::MANIFEST;

#[test]
fn an_uninstall_leaves_every_manifest_as_it_was_and_no_trace() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
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
fn what_somebody_else_keeps_rewriting_can_be_uninstalled() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        for _ in 0..3 {
            fleet.nodes[1].write_manifest(MANIFEST);
            fleet.pass(5).await;
            fleet.until(1, Phase::Ready, 120).await;
        }
        fleet.nodes[1].write_manifest(MANIFEST);
        fleet.until(1, Phase::Degraded, 30).await;
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "ForeignManager", "{}", fleet.story());
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 300).await;
        fleet.pass(30).await;
        for node in &fleet.nodes {
            assert_eq!(node.manifest(), MANIFEST, "{}", fleet.story());
            assert!(!node.on_host("/var/lib/schedpatch/state.json").exists(), "{}", node.name);
        }
    });
}

#[test]
fn the_state_directory_of_another_release_is_refused() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        fleet.nodes[1].stop().await.expect("it stops");
        fleet.nodes[1].options.release.namespace = "elsewhere".to_owned();
        fleet.nodes[1].start();
        fleet.pass(60).await;
        let state = fleet.nodes[1].report.borrow().node_state.clone();
        assert!(state.message.contains("belongs to the agents of schedpatch/schedpatch"), "{}", fleet.story());
    });
}

#[test]
fn one_node_is_uninstalled_the_others_go_on_and_it_comes_back_when_that_is_cancelled() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let (before, starts) = (fleet.revisions(), fleet.starts());
        fleet.annotate_lease("schedpatch.io/uninstall-node", "cp3");
        fleet.until(2, Phase::Restored, 120).await;
        fleet.pass(30).await;
        assert_eq!(fleet.nodes[2].manifest(), MANIFEST, "{}", fleet.story());
        assert_eq!(fleet.api.annotation("cp3", "phase"), None);
        assert!(!fleet.nodes[2].on_host("/var/lib/schedpatch/state.json").exists());
        assert_eq!(fleet.revisions()[..2], before[..2], "{}", fleet.story());
        assert_eq!(fleet.starts()[..2], starts[..2], "the others were not touched");
        // a change passes it by, and is sealed without it
        fleet.want("two");
        fleet.until(0, Phase::Ready, 10).await;
        fleet.pass(5).await;
        for node in [0, 1] {
            fleet.until(node, Phase::Ready, 300).await;
        }
        fleet.pass(30).await;
        assert_eq!(fleet.record().seals, 2, "{}", fleet.story());
        assert_eq!(fleet.nodes[2].manifest(), MANIFEST, "{}", fleet.story());
        // cancelled, it is brought to what is wanted
        fleet.change_record(Record::cancel_uninstall);
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 120).await;
        fleet.pass(30).await;
        assert_eq!(fleet.revisions()[2], fleet.revisions()[0], "{}", fleet.story());
        assert_eq!(fleet.api.annotation("cp3", "phase").as_deref(), Some("Ready"));
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
    });
}

#[test]
fn an_agent_that_is_killed_after_it_removed_everything_leaves_nothing_behind() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        while fleet.nodes.iter().all(|node| node.revision().is_some()) {
            fleet.pass(1).await;
        }
        let first = fleet.nodes.iter().position(|node| node.revision().is_none()).expect("one was restored");
        // its scheduler takes so long that the turn must be renewed
        fleet.nodes[first].kubelet.borrow_mut().is_running = false;
        fleet.nodes[first].kill().await;
        fleet.nodes[first].start();
        fleet.pass(60).await;
        assert_eq!(fleet.record().entry.expect("it has the turn").node, fleet.nodes[first].name, "{}", fleet.story());
        fleet.nodes[first].kubelet.borrow_mut().is_running = true;
        fleet.until_all(Phase::Restored, 300).await;
        fleet.pass(30).await;
        for node in &fleet.nodes {
            let left = std::fs::read_dir(node.on_host("/var/lib/schedpatch")).map(Iterator::count).unwrap_or_default();
            assert_eq!(left, 0, "{}: {}", node.name, fleet.story());
        }
    });
}

#[test]
fn an_uninstall_goes_on_without_a_node_that_is_down_and_that_node_follows() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let leader = fleet.leader();
        let lost = (0..3).rfind(|node| *node != leader).expect("there are three");
        let name = fleet.nodes[lost].name.clone();
        // the API does not know yet that the node is gone
        fleet.nodes[lost].kill().await;
        fleet.nodes[lost].show_agent(&json!({ "running": {} }));
        fleet.nodes[lost].kubelet.borrow_mut().is_running = false;
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(60).await;
        assert!(fleet.nodes[leader].revision().is_some(), "it yields to whoever may still go: {}", fleet.story());
        fleet.api.set_node_ready(&name, false);
        fleet.pass(90).await;
        for node in fleet.nodes.iter().filter(|node| node.name != name) {
            assert_eq!(node.manifest(), MANIFEST, "{}", fleet.story());
        }
        fleet.api.set_node_ready(&name, true);
        fleet.nodes[lost].kubelet.borrow_mut().is_running = true;
        fleet.nodes[lost].start();
        fleet.until_all(Phase::Restored, 300).await;
        assert_eq!(fleet.record().restored.len(), 3, "{}", fleet.story());
    });
}

#[test]
fn an_uninstall_from_another_image_tries_the_original_once_on_each_node() {
    fleet(|mut fleet| async move {
        for node in &mut fleet.nodes {
            node.settings.preflight = Preflight::On { timeout: Duration::from_mins(10) };
            node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        }
        fleet.bring_up().await;
        let tried = |fleet: &crate::fleet::Fleet| {
            fleet.nodes.iter().map(|node| node.kubelet.borrow().preflights.names.len()).collect::<Vec<_>>()
        };
        assert_eq!(tried(&fleet), [1, 1, 1], "{}", fleet.story());
        *fleet.most_down.borrow_mut() = 0;
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 400).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        assert_eq!(tried(&fleet), [2, 2, 2], "{}", fleet.story());
        for node in &fleet.nodes {
            assert_eq!(node.manifest(), MANIFEST, "{}", fleet.story());
            assert!(!node.history.borrow().iter().any(|said| said.contains("PreflightUnclear")), "{}", fleet.story());
        }
    });
}

#[test]
fn a_configuration_that_the_scheduler_refuses_stops_no_scheduler_of_three() {
    fleet(|mut fleet| async move {
        for node in &mut fleet.nodes {
            node.settings.preflight = Preflight::On { timeout: Duration::from_mins(10) };
        }
        fleet.bring_up().await;
        let (before, starts) = (fleet.revisions(), fleet.starts());
        *fleet.most_down.borrow_mut() = 0;
        fleet.want("crash.");
        fleet.pass(60).await;
        fleet.until_all(Phase::Blocked, 60).await;
        assert_eq!(
            (fleet.revisions(), fleet.starts(), *fleet.most_down.borrow()),
            (before, starts, 0),
            "{}",
            fleet.story()
        );
        fleet.want("two");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 400).await;
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
    });
}

#[test]
fn an_uninstall_that_an_agent_of_an_older_template_carries_out_is_not_cancelled_by_the_next_agents() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let mut set = fleet.api.object(DAEMON_SETS, "schedpatch").expect("it is there");
        set["metadata"]["annotations"]["deprecated.daemonset.template.generation"] = json!("2");
        fleet.api.put(DAEMON_SETS, "schedpatch", set);
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(10).await;
        assert_eq!(fleet.record().uninstall.map(|asked| asked.template), Some(2), "{}", fleet.story());
        for node in &mut fleet.nodes {
            node.kill().await;
            node.options.release.template = 2;
            node.start();
        }
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 600).await;
        for node in &fleet.nodes {
            assert_eq!(node.manifest(), MANIFEST, "{}", fleet.story());
        }
    });
}
