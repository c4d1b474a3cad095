//! Three control planes: the rules of a turn, each where only the agent can keep it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schedpatch::agent::Proof;
use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Request};
use schedpatch::rollout::OnFailure;
use schedpatch::timestamp::Timestamp;

use crate::api::{Fault, LEASES, ROLLOUT};
use crate::fleet::fleet;
use crate::kubelet::FUSSY_IMAGE;
use crate::node::{MANIFEST, config};
use crate::rename_hook::RenameHook;

#[test]
fn a_commit_that_comes_too_late_is_not_made_and_is_tried_again_later() {
    fleet(|mut fleet| async move {
        let was_slow = Arc::new(AtomicBool::new(false));
        let (slow, api) = (Arc::clone(&was_slow), fleet.api.clone());
        let has_turn =
            move || api.object(LEASES, ROLLOUT).is_some_and(|lease| lease["spec"]["holderIdentity"] == "cp2");
        // by the real clocks, as on a machine that is suspended
        fleet.nodes[1].fs = Arc::new(RenameHook::on_sync(move || {
            if has_turn() && !slow.swap(true, Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(2_200));
            }
        }));
        fleet.want("one");
        fleet.start().await;
        for _ in 0..60 {
            if was_slow.load(Ordering::Relaxed) {
                break;
            }
            fleet.pass(1).await;
        }
        fleet.pass(10).await;
        assert!(was_slow.load(Ordering::Relaxed) && fleet.revisions()[1].is_none(), "{}", fleet.story());
        fleet.until_all(Phase::Ready, 300).await;
        assert_eq!(fleet.starts(), [2, 2, 2], "{}", fleet.story());
    });
}

#[test]
fn while_answers_take_longer_than_a_turn_may_be_old_nothing_is_committed() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let before = fleet.revisions();
        fleet.api.set_fault(Fault::Slow(1_200));
        fleet.want("two");
        fleet.pass(120).await;
        assert_eq!(fleet.revisions(), before, "{}", fleet.story());
        fleet.api.set_fault(Fault::None);
        fleet.pass(10).await;
        fleet.until_all(Phase::Ready, 300).await;
        assert_ne!(fleet.revisions(), before, "{}", fleet.story());
    });
}

#[test]
fn what_the_watch_showed_last_does_not_begin_where_the_api_wants_something_else() {
    fleet(|mut fleet| async move {
        fleet.want("zero");
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        fleet.annotate_lease("schedpatch.io/pause", "true");
        fleet.pass(10).await;
        fleet.want("one");
        fleet.pass(10).await;
        // from here on the watches hear nothing
        fleet.api.mute_watches(true);
        fleet.api.reset_watches();
        fleet.pass(5).await;
        fleet.want("two");
        fleet.change_record(|record| record.paused = false);
        fleet.pass(400).await;
        let two = config("two");
        for node in &fleet.nodes {
            let shown = node.history.borrow().clone();
            let begun = shown.iter().filter(|line| line.as_str() == "Applying NewRevision").count();
            assert_eq!(begun, 2, "zero, and then two at once: {}", fleet.story());
            let revision = node.revision().expect("it is applied");
            let path = format!("/var/lib/schedpatch/revisions/{revision}/config.yaml");
            let text = std::fs::read_to_string(node.on_host(&path)).expect("it is there");
            assert!(two.contains("127.0.0.1:8889/two") && text.contains("127.0.0.1:8889/two"), "{text}");
        }
    });
}

#[test]
fn a_configuration_whose_standbys_are_never_ready_is_refused() {
    fleet(|mut fleet| async move {
        fleet.want_text(&format!("{}delayCacheUntilActive: true\n", config("one")));
        fleet.start().await;
        fleet.pass(120).await;
        assert_eq!(fleet.revisions(), [None, None, None], "{}", fleet.story());
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "DelaysCache", "{}", fleet.story());
    });
}

#[test]
fn where_nothing_is_proven_several_nodes_do_not_change() {
    fleet(|mut fleet| async move {
        fleet.nodes.iter_mut().for_each(|node| node.options.proof = Proof::None);
        fleet.want("one");
        fleet.start().await;
        fleet.pass(120).await;
        assert_eq!(fleet.revisions(), [None, None, None], "{}", fleet.story());
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "ProvesNothing", "{}", fleet.story());
    });
}

#[test]
fn a_commit_that_somebody_overwrites_before_its_proof_keeps_its_turn_for_the_repair() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.revisions();
        fleet.want("two");
        while fleet.revisions() == good {
            fleet.pass(1).await;
        }
        let node = (0..3).find(|node| fleet.revisions()[*node] != good[*node]).expect("one began");
        fleet.pass(2).await;
        fleet.nodes[node].write_manifest(MANIFEST);
        loop {
            fleet.pass(1).await;
            if fleet.nodes[node].journal().is_proven() {
                break;
            }
            let holder = fleet.record().entry.map(|entry| entry.node);
            assert_eq!(holder.as_ref(), Some(&fleet.nodes[node].name), "{}", fleet.story());
        }
        fleet.until_all(Phase::Ready, 300).await;
        assert!(*fleet.most_down.borrow() <= 1, "{}", fleet.story());
    });
}

#[test]
fn with_a_record_of_a_newer_version_nothing_begins() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let before = fleet.revisions();
        let text = r#"{"version": 2, "whatever": true}"#;
        fleet.annotate_lease("schedpatch.io/rollout", text);
        fleet.want("two");
        fleet.pass(300).await;
        assert_eq!(fleet.revisions(), before, "{}", fleet.story());
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "NewerRollout", "{}", fleet.story());
        let lease = fleet.api.object(LEASES, ROLLOUT).expect("it is there");
        assert_eq!(lease["metadata"]["annotations"]["schedpatch.io/rollout"], text, "nobody writes over it");
    });
}

#[test]
fn after_the_record_is_lost_nobody_begins_for_the_time_of_a_takeover() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let (before, sealed) = (fleet.revisions(), fleet.record().sealed);
        fleet.lose_record();
        fleet.want("two");
        fleet.pass(150).await;
        assert_eq!(fleet.revisions(), before, "{}", fleet.story());
        assert_eq!(fleet.record().sealed, sealed, "what was sealed is known again: {}", fleet.story());
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "Rebuilding", "{}", fleet.story());
        fleet.pass(120).await;
        fleet.until_all(Phase::Ready, 300).await;
        assert_ne!(fleet.revisions(), before, "{}", fleet.story());
    });
}

#[test]
fn a_node_that_a_person_holds_is_left_alone_and_an_uninstall_ends_the_hold() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        fleet.nodes[2].as_person(Direction::Restore, false).expect("restored");
        fleet.pass(30).await;
        fleet.want("two");
        fleet.pass(300).await;
        assert_eq!(fleet.nodes[2].manifest(), MANIFEST, "{}", fleet.story());
        assert_eq!(fleet.nodes[2].phase(), Phase::Restored, "{}", fleet.story());
        assert_eq!(fleet.record().seals, 2, "the others have proven it: {}", fleet.story());
        let asks = fleet.nodes[2].history.borrow().iter().filter(|line| line.contains("AsksForItsTurn")).count();
        assert_eq!(asks, 0, "who is held asks for nothing: {}", fleet.story());
        for node in [0, 1] {
            assert_eq!(fleet.nodes[node].phase(), Phase::Ready, "{}", fleet.story());
        }
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 300).await;
        fleet.pass(30).await;
        for node in &fleet.nodes {
            assert!(!node.on_host("/var/lib/schedpatch/state.json").exists(), "{}: {}", node.name, fleet.story());
        }
    });
}

#[test]
fn an_uninstall_also_removes_an_edit_that_somebody_put_back_under_a_hold() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let edited = fleet.nodes[2].manifest();
        fleet.nodes[2].as_person(Direction::Restore, false).expect("restored");
        fleet.pass(30).await;
        fleet.nodes[2].write_manifest(&edited);
        fleet.pass(60).await;
        assert_eq!(fleet.nodes[2].manifest(), edited, "a held node is left alone: {}", fleet.story());
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 300).await;
        fleet.pass(30).await;
        assert_eq!(fleet.nodes[2].manifest(), MANIFEST, "{}", fleet.story());
        assert!(!fleet.nodes[2].on_host("/var/lib/schedpatch/state.json").exists(), "{}", fleet.story());
    });
}

#[test]
fn a_turn_is_not_taken_up_while_somebody_else_holds_the_hosts_lock() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        let nonce = |fleet: &crate::fleet::Fleet| fleet.record().entry.map(|entry| entry.nonce);
        let before = nonce(&fleet);
        fleet.nodes[1].kill().await;
        let settings = fleet.nodes[1].settings.clone();
        let request =
            Request::new(&settings, Direction::Judge, Initiator::Person, "a person", Duration::from_millis(100));
        let env = Env { fs: &RealFs, clock: &Timestamp::default };
        let session = reconcile::begin(&request, &env, &mut |_| {}).expect("nobody holds it");
        fleet.nodes[1].start();
        fleet.pass(30).await;
        assert_eq!(nonce(&fleet), before, "{}", fleet.story());
        drop(session);
        fleet.until_all(Phase::Ready, 400).await;
    });
}

#[test]
fn where_a_failure_shall_only_stop_the_rollout_nobody_goes_back() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.nodes[0].write_manifest(&MANIFEST.replace("v1.36.1", FUSSY_IMAGE));
        fleet.nodes.iter_mut().for_each(|node| node.options.on_failure = OnFailure::Stop);
        fleet.start().await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        let before = fleet.revisions();
        fleet.want("fussy.");
        fleet.pass(600).await;
        let now = fleet.revisions();
        assert!(now[0] == before[0] && now[1] != before[1] && now[2] != before[2], "{}", fleet.story());
        assert_eq!(fleet.record().failed.len(), 1, "{}", fleet.story());
    });
}
