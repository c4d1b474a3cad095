//! The rules one by one: what an agent sees, and the one thing that it does.

use std::time::Duration;

use schedpatch::rollout::{AgentState, ChangeKind, NeededChange, NextStep, OnFailure, Stopped, Waiting, Why, Work};

use crate::scene::{NEW, OLD, failed, scene};
use crate::world::{LIMITS, digest};

#[test]
fn who_wants_something_new_takes_the_turn() {
    let entry = scene().writes(Why::TakeTurn).entry.expect("a turn");
    assert_eq!((entry.node.as_str(), entry.nonce.as_str(), entry.number), ("cp1", "mine", 1));
    assert_eq!((entry.change, entry.digest, entry.generation), (ChangeKind::New, Some(digest(NEW)), 5));
}

#[test]
fn who_has_what_is_wanted_rests() {
    let mut scene = scene();
    scene.me.wanted = Some(digest(OLD));
    assert_eq!(scene.step(), NextStep::Rest);
}

#[test]
fn a_commit_follows_its_turn_within_two_seconds_and_later_the_turn_is_renewed_first() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    let wanted = NeededChange { change: ChangeKind::New, digest: Some(digest(NEW)) };
    scene.waited.own_write = Some(Duration::from_secs(2));
    assert_eq!(scene.step(), NextStep::Go(wanted));
    scene.waited.own_write = Some(Duration::from_millis(2001));
    assert_eq!(scene.writes(Why::Renew).entry.expect("a turn").renewed, 1);
    scene.waited.own_write = None;
    scene.writes(Why::Renew);
}

#[test]
fn a_turn_of_the_process_before_is_adopted_before_anything_else() {
    let scene = scene().with_turn_of("cp1", "the one before");
    assert_eq!(scene.writes(Why::Adopt).entry.expect("a turn").nonce, "mine");
}

#[test]
fn a_turn_is_given_back_when_something_else_is_wanted_by_now() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    scene.me.wanted = Some(digest(2));
    assert_eq!(scene.writes(Why::GiveBack).entry, None);
}

#[test]
fn a_turn_is_given_back_when_this_has_become_the_last_healthy_scheduler() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    scene.others.iter_mut().for_each(|other| other.scheduler.is_healthy = false);
    assert_eq!(scene.writes(Why::GiveBack).entry, None);
}

#[test]
fn the_turn_is_kept_while_the_commit_is_judged_and_released_once_it_is_proven() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    (scene.me.in_place, scene.me.generation, scene.me.work) = (Some(digest(NEW)), 5, Work::Pending);
    scene.waited.own_write = Some(Duration::from_secs(3));
    assert_eq!(scene.step(), NextStep::Judge);
    scene.waited.own_write = Some(LIMITS.renew);
    scene.writes(Why::Renew);
    scene.me.work = Work::Settled;
    assert_eq!(scene.writes(Why::Release).entry, None);
}

#[test]
fn a_commit_that_was_overwritten_before_its_proof_keeps_the_turn_for_the_repair() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    (scene.me.in_place, scene.me.generation, scene.me.is_overwritten) = (Some(digest(NEW)), 5, true);
    let entry = scene.writes(Why::TakeTurn).entry.expect("a turn");
    assert_eq!((entry.node.as_str(), entry.change, entry.generation), ("cp1", ChangeKind::Repair, 6));
    scene.me.stopped = Some("could not be pulled, an earlier time".to_owned());
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Repair);
    scene.me.is_fought_over = true;
    let released = scene.writes(Why::Release);
    assert_eq!((released.entry, released.stopped), (None, None), "what somebody else keeps rewriting holds up nobody");
}

#[test]
fn a_failure_is_recorded_before_the_turn_is_released() {
    let mut scene = scene().with_turn_of("cp1", "mine");
    (scene.me.generation, scene.me.unreported) = (6, Some((failed(digest(NEW)), 0)));
    let record = scene.writes(Why::Report);
    assert!(record.has_failed(digest(NEW)) && record.entry.is_some());
    scene.record = record;
    assert_eq!(scene.writes(Why::Release).entry, None);
}

#[test]
fn the_sealed_digest_does_not_fail_for_all() {
    let mut scene = scene();
    (scene.record.sealed, scene.me.unreported) = (Some(digest(NEW)), Some((failed(digest(NEW)), 0)));
    scene.me.marks = vec![(failed(digest(NEW)), 0)];
    assert_eq!(scene.step(), NextStep::Rest, "it stays this node's");
}

#[test]
fn a_failure_from_before_a_retry_is_void() {
    let mut scene = scene();
    (scene.record.retries, scene.me.unreported) = (1, Some((failed(digest(NEW)), 0)));
    scene.writes(Why::TakeTurn);
}

#[test]
fn after_a_failure_a_node_that_carries_it_goes_back_to_the_sealed_digest() {
    let mut scene = scene();
    scene.me.in_place = Some(digest(NEW));
    scene.record.failed.push(failed(digest(NEW)));
    scene.record.paused = true;
    let entry = scene.writes(Why::TakeTurn).entry.expect("a turn");
    assert_eq!(
        (entry.change, entry.digest),
        (ChangeKind::Back, Some(digest(OLD))),
        "a pause does not keep it from that"
    );
}

#[test]
fn where_nothing_was_sealed_the_way_back_is_the_original() {
    let mut scene = scene();
    (scene.me.in_place, scene.me.last_sealed, scene.record.sealed) = (Some(digest(2)), None, None);
    scene.record.failed.push(failed(digest(NEW)));
    let entry = scene.writes(Why::TakeTurn).entry.expect("a turn");
    assert_eq!((entry.change, entry.digest), (ChangeKind::Back, None), "proven and unsealed is no place to stay");
}

#[test]
fn a_way_back_that_cannot_be_written_is_the_original_and_is_not_tried_again() {
    let mut scene = scene();
    (scene.me.in_place, scene.record.failed) = (Some(digest(NEW)), vec![failed(digest(NEW))]);
    scene.me.last_sealed.iter_mut().for_each(|sealed| sealed.can_return = false);
    let entry = scene.writes(Why::TakeTurn).entry.expect("a turn");
    assert_eq!((entry.change, entry.digest, entry.revision), (ChangeKind::Back, None, None));
    (scene.me.in_place, scene.me.revision) = (None, None);
    assert_eq!(scene.step(), NextStep::Rest);
    // a turn that was taken before somebody else changed the target
    scene.record.entry = Some(schedpatch::rollout::Entry {
        node: "cp1".to_owned(),
        nonce: "mine".to_owned(),
        change: ChangeKind::Back,
        digest: Some(digest(OLD)),
        revision: None,
        number: 1,
        generation: 5,
        renewed: 0,
    });
    scene.me.work = Work::Pending;
    scene.waited.own_write = Some(Duration::from_secs(3));
    assert_eq!(scene.step(), NextStep::Judge, "the original must be seen to run first");
    scene.me.work = Work::Settled;
    assert_eq!(scene.writes(Why::GiveBack).entry, None);
}

#[test]
fn nothing_new_begins_during_a_pause_or_by_an_agent_that_is_about_to_be_replaced() {
    let mut scene = scene();
    scene.record.paused = true;
    assert_eq!(scene.waits(), Waiting::Paused);
    scene.record.paused = false;
    scene.me.is_outdated = true;
    assert_eq!(scene.waits(), Waiting::Outdated);
}

#[test]
fn only_the_node_that_stopped_a_rollout_goes_on_with_it() {
    let mut scene = scene();
    let stopped =
        |node: &str| Some(Stopped { digest: digest(NEW), node: node.to_owned(), words: "no image".to_owned() });
    scene.record.stopped = stopped("cp2");
    assert_eq!(scene.waits(), Waiting::Stopped { node: "cp2".to_owned(), words: "no image".to_owned() });
    scene.record.stopped = stopped("cp1");
    scene.writes(Why::TakeTurn);
    scene.record.stopped = stopped("a node that is gone");
    scene.writes(Why::TakeTurn);
}

#[test]
fn the_leader_yields_to_those_who_still_have_to_go_but_not_for_ever() {
    let mut scene = scene();
    scene.me.is_leader = true;
    assert_eq!(scene.waits(), Waiting::Yields { node: "cp2".to_owned() });
    scene.others[0].is_blocked = true;
    scene.others[1].agent = AgentState::Unknown;
    scene.writes(Why::TakeTurn);
    scene.others[0].is_blocked = false;
    scene.waited.record = LIMITS.patience;
    scene.writes(Why::TakeTurn);
}

#[test]
fn the_last_healthy_scheduler_waits_for_another_but_not_for_ever() {
    let mut scene = scene();
    scene.others.iter_mut().for_each(|other| other.scheduler.is_healthy = false);
    assert_eq!(scene.waits(), Waiting::LastHealthy);
    scene.waited.health = LIMITS.patience;
    scene.writes(Why::TakeTurn);
    scene.waited.health = Duration::ZERO;
    scene.others.clear();
    scene.writes(Why::TakeTurn);
}

#[test]
fn a_digest_is_sealed_once_every_node_that_can_has_proven_it() {
    let mut scene = scene();
    scene.me.in_place = Some(digest(NEW));
    scene.others[0].proven = Some(digest(NEW));
    assert_eq!(scene.step(), NextStep::Rest, "cp3 has not");
    scene.others[1].is_ready = false;
    assert_eq!(scene.writes(Why::Seal).sealed, Some(digest(NEW)));
}

#[test]
fn drift_is_repaired_with_a_turn() {
    let mut scene = scene();
    (scene.me.wanted, scene.me.is_overwritten) = (Some(digest(OLD)), true);
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Repair);
}

#[test]
fn nobody_goes_back_to_what_does_not_run_here() {
    let mut scene = scene();
    scene.record.failed.push(failed(digest(NEW)));
    (scene.me.in_place, scene.me.marks) = (None, vec![(failed(digest(OLD)), 0)]);
    assert_eq!(scene.step(), NextStep::Rest, "the sealed digest failed on this node alone");
}

#[test]
fn a_node_that_carries_a_failed_digest_goes_back_even_if_nobody_knows_what_is_wanted() {
    let mut scene = scene();
    (scene.me.in_place, scene.me.wanted, scene.me.is_overwritten) = (Some(digest(NEW)), None, true);
    scene.record.failed.push(failed(digest(NEW)));
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Back, "and does not repair it");
    scene.on_failure = OnFailure::Stop;
    assert_eq!(scene.step(), NextStep::Rest);
}

#[test]
fn who_is_not_listed_or_has_just_failed_to_write_begins_nothing_and_gives_a_turn_back() {
    let mut scene = scene();
    scene.me.is_listed = false;
    assert_eq!(scene.waits(), Waiting::NotListed);
    (scene.me.is_listed, scene.me.backs_off) = (true, true);
    assert_eq!(scene.waits(), Waiting::BackOff);
    let mut scene = scene.with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    scene.writes(Why::GiveBack);
}

#[test]
fn what_somebody_else_keeps_rewriting_is_not_written_again_but_can_be_left() {
    let mut scene = scene();
    (scene.me.is_fought_over, scene.me.is_overwritten) = (true, true);
    assert_eq!(scene.waits(), Waiting::BackOff);
    scene.me.wanted = Some(digest(OLD));
    assert_eq!(scene.waits(), Waiting::BackOff, "no repair either");
    scene.record.ask_uninstall(&("set".to_owned(), 1), &std::collections::BTreeSet::new());
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Restore);
}

#[test]
fn a_stop_ends_with_another_digest_or_when_its_node_is_blocked() {
    let mut scene = scene();
    scene.record.stopped = Some(Stopped { digest: digest(NEW), node: "cp2".to_owned(), words: String::new() });
    scene.others[0].is_blocked = true;
    scene.writes(Why::TakeTurn);
    scene.others[0].is_blocked = false;
    scene.me.wanted = Some(digest(2));
    assert_eq!(scene.writes(Why::TakeTurn).stopped, None);
}

#[test]
fn who_waits_for_its_preflight_takes_no_turn_and_gives_one_back() {
    let mut scene = scene();
    scene.me.awaits_preflight = true;
    assert_eq!(scene.waits(), Waiting::Preflight);
    let mut scene = scene.with_turn_of("cp1", "mine");
    scene.waited.own_write = Some(Duration::ZERO);
    assert_eq!(scene.writes(Why::GiveBack).entry, None, "a turn of before a restart is not used without a verdict");
}

#[test]
fn what_was_taken_back_without_blame_waits_and_nothing_else_does() {
    let mut scene = scene();
    scene.me.too_soon_for = Some(digest(NEW));
    assert_eq!(scene.waits(), Waiting::BackOff);
    scene.me.too_soon_for = Some(digest(OLD));
    scene.writes(Why::TakeTurn);
    // drift is repaired, and everything is removed on request
    scene.me.too_soon_for = Some(digest(NEW));
    scene.me.wanted = Some(digest(OLD));
    scene.me.is_overwritten = true;
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Repair);
    scene.me.wanted = Some(digest(NEW));
    scene.record.ask_uninstall(&("set".to_owned(), 1), &std::collections::BTreeSet::new());
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Restore);
}
