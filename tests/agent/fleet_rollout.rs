//! Three control planes: who goes first, what follows a failure, and what people say.

use std::time::Duration;

use schedpatch::phase::Phase;
use serde_json::json;

use crate::api::{DAEMON_SETS, Fault};
use crate::fleet::{Fleet, fleet};
use crate::kubelet::FUSSY_IMAGE;
use crate::node::MANIFEST;

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
        fleet.bring_up().await;
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
        let begun = fleet.api.events().iter().filter(|(reason, _)| reason == "RolloutBegan").count();
        assert_eq!(begun, 3, "the first one, the bad one and the retry: {:#?}", fleet.api.events());
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
        fleet.bring_up().await;
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
fn a_change_of_three_nodes_takes_no_longer_than_three_restarts() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        fleet.want("two");
        fleet.pass(2).await;
        let began = tokio::time::Instant::now();
        fleet.until_all(Phase::Ready, 120).await;
        // the kubelet's time, that of the scheduler, and settling; each is seen at the next full second
        let goal = Duration::from_secs(3 * (12 + 3 + 10 + 2) + 5);
        assert!(began.elapsed() <= goal, "{:?}, goal {goal:?}: {}", began.elapsed(), fleet.story());
    });
}

#[test]
fn only_who_takes_the_turn_says_that_the_rollout_begins() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let begun = |fleet: &Fleet| fleet.api.events().iter().filter(|(reason, _)| reason == "RolloutBegan").count();
        let before = begun(&fleet);
        // two nodes ask at once, and the answer takes its time
        fleet.api.set_fault(Fault::Slow(300));
        fleet.want("two");
        fleet.pass(20).await;
        fleet.api.set_fault(Fault::None);
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        assert_eq!(begun(&fleet), before + 1, "{:#?}", fleet.api.events());
    });
}
