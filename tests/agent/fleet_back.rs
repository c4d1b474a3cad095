//! Three control planes: the way back, also where somebody else has changed a manifest since.

use std::time::Duration;

use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Request};
use schedpatch::timestamp::Timestamp;

use crate::fleet::{Fleet, fleet};
use crate::kubelet::FUSSY_IMAGE;
use crate::node::MANIFEST;

const LINE: &str = "    - --leader-elect=true\n";

/// What an upgrade of Kubernetes may change.
fn with_one_more_flag(text: &str) -> String {
    assert_eq!(text.matches(LINE).count(), 1, "{text}");
    text.replace(LINE, &format!("{LINE}    - --v=2\n"))
}

/// The leader, which goes last, refuses the extender `fussy.`; all others run it.
async fn bring_up_with_a_fussy_leader(fleet: &mut Fleet) {
    fleet.want("one");
    fleet.nodes[0].write_manifest(&MANIFEST.replace("v1.36.1", FUSSY_IMAGE));
    fleet.start().await;
    fleet.until_all(Phase::Ready, 300).await;
    fleet.pass(30).await;
}

/// Nobody takes a turn any more, and nobody restarts.
async fn stays_calm(fleet: &Fleet) {
    let before = (fleet.record().turns, fleet.starts());
    fleet.pass(300).await;
    assert_eq!((fleet.record().turns, fleet.starts()), before, "{}", fleet.story());
    assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
}

#[test]
fn a_node_that_was_upgraded_since_the_sealing_goes_back_like_all_others() {
    fleet(|mut fleet| async move {
        bring_up_with_a_fussy_leader(&mut fleet).await;
        fleet.nodes[1].write_manifest(&with_one_more_flag(MANIFEST));
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 300).await;
        fleet.pass(30).await;
        let good = fleet.revisions();
        assert!(good.iter().all(Option::is_some), "{}", fleet.story());
        fleet.want("fussy.");
        fleet.pass(5).await;
        fleet.until_all(Phase::RolledBack, 900).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
        assert!(fleet.nodes[1].manifest().contains("--v=2"), "{}", fleet.nodes[1].manifest());
        stays_calm(&fleet).await;
    });
}

#[test]
fn a_way_back_that_would_undo_what_others_changed_leads_to_the_original_and_ends_there() {
    fleet(|mut fleet| async move {
        bring_up_with_a_fussy_leader(&mut fleet).await;
        let good = fleet.revisions();
        fleet.want("fussy.");
        while fleet.revisions()[2] == good[2] {
            fleet.pass(1).await;
        }
        // the leader, where it fails, does not begin yet
        fleet.annotate_lease("schedpatch.io/pause", "true");
        fleet.until(2, Phase::Ready, 200).await;
        assert_ne!(fleet.revisions()[1], good[1], "{}", fleet.story());
        let text = with_one_more_flag(&fleet.nodes[1].manifest());
        fleet.nodes[1].write_manifest(&text);
        fleet.pass(120).await;
        *fleet.most_down.borrow_mut() = 0;
        fleet.annotate_lease("schedpatch.io/pause", "false");
        fleet.pass(5).await;
        fleet.until_all(Phase::RolledBack, 900).await;
        assert_eq!(fleet.nodes[1].manifest(), with_one_more_flag(MANIFEST), "{}", fleet.story());
        assert_eq!((&fleet.revisions()[0], &fleet.revisions()[2]), (&good[0], &good[2]), "{}", fleet.story());
        assert!(fleet.nodes[1].message().contains("runs without our edit"), "{}", fleet.nodes[1].message());
        stays_calm(&fleet).await;
        fleet.want("two");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 300).await;
        assert!(fleet.revisions().iter().all(Option::is_some), "{}", fleet.story());
    });
}

#[test]
fn a_node_that_is_upgraded_after_all_have_gone_back_takes_no_turn_for_ever() {
    fleet(|mut fleet| async move {
        bring_up_with_a_fussy_leader(&mut fleet).await;
        fleet.want("fussy.");
        fleet.pass(5).await;
        fleet.until_all(Phase::RolledBack, 900).await;
        fleet.nodes[1].write_manifest(&with_one_more_flag(MANIFEST));
        fleet.pass(120).await;
        stays_calm(&fleet).await;
        assert!(fleet.nodes[1].message().contains("runs without our edit"), "{}", fleet.story());
    });
}

#[test]
fn a_node_that_cannot_be_uninstalled_says_why() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let settings = fleet.nodes[1].settings.clone();
        let request =
            Request::new(&settings, Direction::Judge, Initiator::Person, "a person", Duration::from_millis(100));
        let env = Env { fs: &RealFs, clock: &Timestamp::default };
        let session = reconcile::begin(&request, &env, &mut |_| {}).expect("nobody holds it");
        fleet.annotate_lease("schedpatch.io/uninstall", "now");
        fleet.pass(90).await;
        assert_eq!(fleet.nodes[1].phase(), Phase::Blocked, "{}", fleet.story());
        drop(session);
        fleet.pass(5).await;
        fleet.until_all(Phase::Restored, 300).await;
    });
}

#[test]
fn a_node_that_waits_to_go_back_is_not_ready_meanwhile() {
    fleet(|mut fleet| async move {
        bring_up_with_a_fussy_leader(&mut fleet).await;
        fleet.want("fussy.");
        fleet.pass(5).await;
        for _ in 0..600 {
            if fleet.record().failed.len() == 1 {
                break;
            }
            fleet.pass(1).await;
        }
        fleet.pass(5).await;
        for node in [1, 2] {
            assert_ne!(fleet.nodes[node].phase(), Phase::Ready, "{}", fleet.story());
        }
        fleet.until_all(Phase::RolledBack, 900).await;
    });
}

#[test]
fn without_the_api_a_failed_configuration_is_not_put_back_in_the_middle_of_the_way_back() {
    fleet(|mut fleet| async move {
        bring_up_with_a_fussy_leader(&mut fleet).await;
        let good = fleet.revisions();
        fleet.want("fussy.");
        fleet.pass(5).await;
        let mut first = None;
        for _ in 0..600 {
            let entry = fleet.record().entry.filter(|_| fleet.record().failed.len() == 1);
            first = entry
                .and_then(|entry| fleet.nodes.iter().position(|node| node.name == entry.node && node.name != "cp1"));
            if first.is_some_and(|node| fleet.revisions()[node] == good[node]) {
                break;
            }
            fleet.pass(1).await;
        }
        let first = first.expect("one goes back");
        assert_eq!(fleet.revisions()[first], good[first], "{}", fleet.story());
        let name = fleet.nodes[first].name.clone();
        fleet.api.cut_off(&name, true);
        fleet.pass(300).await;
        assert_eq!(fleet.revisions()[first], good[first], "{}", fleet.story());
        fleet.api.cut_off(&name, false);
        fleet.until_all(Phase::RolledBack, 900).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
        stays_calm(&fleet).await;
    });
}
