//! Turns and records that were lost, rule by rule.

use std::time::Duration;

use schedpatch::rollout::{AgentState, ChangeKind, NextStep, Record, Waiting, Why, Work};

use crate::scene::{NEW, OLD, failed, scene};
use crate::world::{LIMITS, digest, revision};

#[test]
fn the_first_turn_of_all_waits_until_one_that_was_lost_would_show() {
    let mut scene = scene();
    scene.record = Record::default();
    assert_eq!(scene.waits(), Waiting::FirstTurn);
    scene.waited.lease = LIMITS.go + Duration::from_secs(4);
    scene.writes(Why::TakeTurn);
    scene.waited.lease = Duration::ZERO;
    scene.others.clear();
    scene.writes(Why::TakeTurn);
}

#[test]
fn a_turn_that_is_not_lost_is_waited_for() {
    let scene = scene().with_turn_of("cp2", "theirs");
    assert_eq!(scene.waits(), Waiting::Turn { node: "cp2".to_owned(), change: ChangeKind::New });
}

#[test]
fn a_lost_turn_is_over_once_its_revision_has_run_through_settle() {
    let mut scene = scene().with_lost_turn();
    scene.others[0].scheduler.revision = Some(revision(digest(NEW)));
    scene.others[0].scheduler.generation = Some(5);
    let record = scene.writes(Why::TakeOver);
    assert_eq!((record.entry, record.failed), (None, Vec::new()));
    scene.others[0].scheduler.is_healthy = false;
    assert_eq!(scene.waits(), Waiting::Turn { node: "cp2".to_owned(), change: ChangeKind::New }, "it does not run");
}

#[test]
fn a_lost_turn_that_was_taken_back_is_recorded_as_a_failure() {
    let mut scene = scene().with_lost_turn();
    scene.others[0].scheduler.rolled_back_from = Some(revision(digest(NEW)));
    scene.others[0].scheduler.generation = Some(6);
    let record = scene.writes(Why::TakeOver);
    assert!(record.has_failed(digest(NEW)) && record.entry.is_none());
    scene.others[0].scheduler.generation = Some(4);
    assert!(!scene.writes(Why::TakeOver).has_failed(digest(NEW)), "it was taken back before this turn");
    scene.others[0].scheduler.generation = Some(6);
    scene.record.sealed = Some(digest(NEW));
    assert!(!scene.writes(Why::TakeOver).has_failed(digest(NEW)), "never a sealed one");
    let entry = scene.record.entry.as_mut().expect("a turn");
    entry.change = ChangeKind::Repair;
    scene.record.sealed = None;
    assert!(!scene.writes(Why::TakeOver).has_failed(digest(NEW)), "what was proven is not blamed for its surroundings");
}

#[test]
fn a_lost_turn_that_was_not_used_is_cleared_without_blame_after_a_minute() {
    let mut scene = scene().with_lost_turn();
    let record = scene.writes(Why::TakeOver);
    assert_eq!((record.entry, record.failed), (None, Vec::new()));
    scene.waited.holder = Duration::from_secs(59);
    scene.waits();
}

#[test]
fn nothing_is_said_of_a_node_that_is_not_ready_or_whose_kubelet_was_not_heard_since() {
    let mut scene = scene().with_lost_turn();
    scene.others[0].is_ready = false;
    scene.waits();
    scene.others[0].is_ready = true;
    scene.waited.has_holder_reported = false;
    scene.waits();
    scene.others.remove(0);
    assert_eq!(scene.writes(Why::TakeOver).entry, None, "the Node was deleted");
    scene.waited.turn = Duration::from_secs(59);
    assert_eq!(scene.waits(), Waiting::Turn { node: "cp2".to_owned(), change: ChangeKind::New }, "or has just come");
}

#[test]
fn an_agent_that_the_kubelet_ended_is_not_waited_for() {
    let mut scene = scene().with_lost_turn();
    scene.waited.turn = LIMITS.renew * 2;
    scene.waits();
    scene.others[0].agent = AgentState::Ended;
    scene.writes(Why::TakeOver);
    scene.waited.turn = LIMITS.renew;
    scene.waits();
}

#[test]
fn a_trial_without_its_turn_is_judged_and_forgotten_if_its_text_is_gone() {
    let mut scene = scene();
    scene.me.work = Work::Pending;
    assert_eq!(scene.step(), NextStep::Judge);
    scene.me.is_outmoded = true;
    assert_eq!(scene.step(), NextStep::Judge, "that it must be written differently some day is no reason");
    scene.me.is_overwritten = true;
    assert_eq!(scene.step(), NextStep::Forget);
}

#[test]
fn after_a_lost_record_nobody_begins_before_those_who_know_more_have_said_it() {
    let mut scene = scene();
    scene.record = Record { is_rebuilt: true, ..Record::default() };
    scene.record = scene.writes(Why::Rebuild);
    assert_eq!(scene.record.sealed, Some(digest(OLD)), "this node knows what was sealed");
    assert_eq!(scene.waits(), Waiting::Rebuilding { node: None });
    scene.waited.record = LIMITS.takeover;
    scene.others[1].is_changing = true;
    assert_eq!(scene.waits(), Waiting::Rebuilding { node: Some("cp3".to_owned()) }, "it says so");
    scene.others[1].is_changing = false;
    scene.others[1].scheduler.is_healthy = false;
    assert_eq!(scene.waits(), Waiting::Rebuilding { node: Some("cp3".to_owned()) }, "its agent may be dead");
    scene.waited.record = LIMITS.patience;
    assert!(!scene.writes(Why::TakeTurn).is_rebuilt, "or never come back");
    scene.others[1].is_changing = true;
    scene.record.forget("cp3");
    assert!(!scene.writes(Why::TakeTurn).is_rebuilt, "a person said to go on without it");
}

#[test]
fn what_a_node_knows_of_a_lost_record_comes_back_and_the_newer_seal_wins() {
    let mut scene = scene();
    scene.record = Record { is_rebuilt: true, seals: 2, sealed: Some(digest(2)), ..Record::default() };
    scene.me.marks = vec![(failed(digest(NEW)), 3), (failed(digest(3)), 2)];
    scene.me.retries = 3;
    let record = scene.writes(Why::Rebuild);
    assert_eq!((record.sealed, record.seals, record.retries), (Some(digest(2)), 2, 3));
    assert!(record.has_failed(digest(NEW)) && !record.has_failed(digest(3)), "a retry had voided the other");
}

#[test]
fn a_forgotten_node_is_not_waited_for_until_it_is_back() {
    let mut scene = scene();
    scene.me.in_place = Some(digest(NEW));
    scene.others[0].proven = Some(digest(NEW));
    scene.record.forget("cp3");
    assert_eq!(scene.writes(Why::Seal).sealed, Some(digest(NEW)));
    scene.record.forget("cp1");
    assert!(!scene.writes(Why::Returned).forgotten.contains("cp1"));
}

#[test]
fn a_lost_record_is_whole_again_once_it_is_sealed_or_the_wait_is_over() {
    let mut scene = scene();
    scene.record = Record { is_rebuilt: true, sealed: Some(digest(OLD)), seals: 1, ..Record::default() };
    scene.waited.record = LIMITS.patience;
    scene.me.in_place = Some(digest(NEW));
    scene.others.iter_mut().for_each(|other| other.proven = Some(digest(NEW)));
    scene.record.forget("cp3");
    scene.record.forget("cp9");
    let record = scene.writes(Why::Seal);
    assert!(!record.is_rebuilt && record.sealed == Some(digest(NEW)));
    assert!(record.forgotten.iter().eq(["cp3"]), "there is no cp9: {:?}", record.forgotten);
    scene.record = Record { is_rebuilt: true, ..record };
    scene.waited.record = LIMITS.renew;
    assert_eq!(scene.waits(), Waiting::Rebuilding { node: None });
    scene.waited.record = LIMITS.takeover;
    assert!(!scene.writes(Why::Rebuilt).is_rebuilt);
}
