//! Requests to remove everything, from every node or from some.

use std::collections::BTreeSet;

use schedpatch::rollout::{ChangeKind, Me, NextStep, Other, Record, Why};

use crate::scene::{NEW, OLD, scene};
use crate::world::digest;

#[test]
fn uninstalling_restores_says_so_and_ends_when_agents_are_installed_anew() {
    let mut scene = scene();
    scene.record.ask_uninstall(&agents(), &BTreeSet::new());
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Restore);
    scene.me.in_place = None;
    let record = scene.writes(Why::Restored);
    assert!(record.restored.contains_key("cp1"));
    scene.record = record;
    assert_eq!(scene.step(), NextStep::Rest);
    scene.me.daemon_set.1 = 2;
    assert_eq!(scene.writes(Why::Reinstalled).uninstall, None);
}

#[test]
fn one_node_can_be_uninstalled_and_the_others_go_on_without_it() {
    let cp1 = BTreeSet::from(["cp1".to_owned()]);
    let mut scene = scene();
    scene.record.ask_uninstall(&agents(), &cp1);
    assert_eq!(scene.writes(Why::TakeTurn).entry.expect("a turn").change, ChangeKind::Restore);
    scene.me.in_place = None;
    scene.record = scene.writes(Why::Restored);
    assert_eq!(scene.step(), NextStep::Rest, "it stays out");
    // another node begins what is new: the leader does not wait for the one that is out, and the request stays
    scene.me = Me { name: "cp2".to_owned(), is_leader: true, in_place: Some(digest(OLD)), ..scene.me };
    scene.others[0] = Other { name: "cp1".to_owned(), proven: None, ..scene.others[0].clone() };
    scene.others[1].proven = Some(digest(NEW));
    let record = scene.writes(Why::TakeTurn);
    assert_eq!(record.entry.as_ref().expect("a turn").change, ChangeKind::New);
    assert!(record.must_restore("cp1") && record.restored.contains_key("cp1"), "{record:?}");
    // and every other node's proof is enough
    scene.me.in_place = scene.me.wanted;
    assert_eq!(scene.writes(Why::Seal).sealed, scene.me.wanted);
}

#[test]
fn requests_to_uninstall_add_up_and_can_be_withdrawn() {
    let node = |name: &str| BTreeSet::from([name.to_owned()]);
    let mut record = Record::default();
    record.ask_uninstall(&agents(), &node("cp1"));
    record.ask_uninstall(&agents(), &node("cp2"));
    assert_eq!(["cp1", "cp2", "cp3"].map(|name| record.must_restore(name)), [true, true, false]);
    record.ask_uninstall(&agents(), &BTreeSet::new());
    assert!(record.must_restore("cp3"), "none named is every node");
    record.ask_uninstall(&agents(), &node("cp1"));
    assert!(record.must_restore("cp3"), "every node was asked for before");
    record.ask_uninstall(&("another".to_owned(), 1), &node("cp1"));
    assert!(!record.must_restore("cp3"), "that was asked of other agents");
    record.cancel_uninstall();
    assert!(!record.must_restore("cp1"));
}

/// The agents' DaemonSet, and the generation of its template.
fn agents() -> (String, i64) {
    ("set".to_owned(), 1)
}
