//! What `schedpatch uninstall` waits for, and whom `schedpatch rollout forget` lets go.

use std::cell::Cell;
use std::collections::BTreeSet;
use std::time::Duration;

use schedpatch::finding::Finding;
use schedpatch::fleet::{Leftover, NodeSummary, Unanswered, must_not_forget, patiently};
use schedpatch::revision::Digest;
use schedpatch::rollout::{Record, Stopped};
use schedpatch::timestamp::Timestamp;
use tokio::time::Instant;

fn node(name: &str, is_annotated: bool) -> NodeSummary {
    NodeSummary { name: name.to_owned(), is_annotated, ..NodeSummary::default() }
}

fn names(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

#[test]
fn an_uninstall_is_not_over_while_a_node_without_an_agent_has_traces() {
    let mut nodes = [node("cp1", false), node("cp2", true), node("cp3", true)];
    let agents = names(&["cp1", "cp2"]);
    let mut record = Record::default();
    record.restored.insert("cp1".to_owned(), Timestamp::default());
    let left = Leftover::of(&record, &nodes, &agents, &agents, &BTreeSet::new());
    assert_eq!(
        (&left.done, &left.waits, &left.without_agent),
        (&vec!["cp1".into()], &vec!["cp2".into()], &vec!["cp3".into()])
    );
    assert!(!left.is_done() && !left.is_stuck());
    record.restored.insert("cp2".to_owned(), Timestamp::default());
    let left = Leftover::of(&record, &nodes, &agents, &agents, &BTreeSet::new());
    assert_eq!((left.is_done(), left.annotated.clone()), (false, vec!["cp2".to_owned()]), "its annotations go last");
    nodes[1].is_annotated = false;
    let left = Leftover::of(&record, &nodes, &agents, &agents, &BTreeSet::new());
    assert!(left.is_stuck() && !left.is_done(), "{left:?}");
    record.forget("cp3");
    assert!(Leftover::of(&record, &nodes, &agents, &agents, &BTreeSet::new()).is_done());
}

#[test]
fn one_node_is_waited_for_alone_and_an_agent_that_came_late_is_waited_for_too() {
    let nodes = [node("cp1", true), node("cp2", true), node("cp3", false)];
    let agents = names(&["cp1", "cp2", "cp3"]);
    let left = Leftover::of(&Record::default(), &nodes, &agents, &agents, &names(&["cp2"]));
    assert_eq!(left.waits, ["cp2"]);
    let left = Leftover::of(&Record::default(), &nodes, &agents, &names(&["cp1"]), &BTreeSet::new());
    assert_eq!(left.waits, ["cp1", "cp2", "cp3"]);
}

#[test]
fn an_api_that_is_away_for_a_moment_is_waited_for_and_a_refusal_ends_it() {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().expect("a runtime");
    let finding = |rule: &'static str| Finding::error(rule, "words", "way out");
    runtime.block_on(async {
        let asked = Cell::new(0);
        let until = Instant::now() + Duration::from_mins(1);
        let answer = patiently(until, || {
            asked.set(asked.get() + 1);
            let is_away = asked.get() < 5;
            async move { if is_away { Err(Unanswered::Away(finding("away"))) } else { Ok(7) } }
        });
        assert_eq!(answer.await, Ok(7));
        let refused = patiently(until, || async { Err::<(), _>(Unanswered::Refused(finding("refused"))) });
        assert_eq!(refused.await.expect_err("at once").rule, "refused");
        assert!(Instant::now() < until);
        let away = patiently(until, || async { Err::<(), _>(Unanswered::Away(finding("away"))) });
        assert_eq!(away.await.expect_err("in the end").rule, "away");
        assert!(Instant::now() >= until);
    });
}

#[test]
fn a_node_that_nobody_knows_or_that_lives_is_not_forgotten() {
    let nodes = [node("cp1", true), node("cp2", true)];
    let rule = |name: &str, is_alive: bool| {
        must_not_forget(name, &Record::default(), &nodes, is_alive).map(|finding| finding.rule.to_string())
    };
    assert_eq!(rule("cp9", false).as_deref(), Some("no-such-node"));
    assert_eq!(rule("cp2", true).as_deref(), Some("node-lives"));
    assert_eq!(rule("cp2", false), None);
    // it lives and tries again, and the others need not wait for it
    let mut record = Record::default();
    let (digest, words) = (Digest::of_bytes(b"wanted"), "ErrImagePull".to_owned());
    record.stopped = Some(Stopped { digest, node: "cp2".to_owned(), words });
    assert_eq!(must_not_forget("cp2", &record, &nodes, true), None);
}
