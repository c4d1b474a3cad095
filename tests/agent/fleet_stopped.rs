//! Three control planes: a change that could not be started, and nobody is to blame.

use schedpatch::phase::Phase;

use crate::fleet::{Fleet, fleet};
use crate::kubelet::NEW_IMAGE;
use crate::node::MANIFEST;

/// All run an own image, the registry goes away, and the next change is taken back on the node whose turn it is; gives the node.
async fn stop(fleet: &mut Fleet) -> usize {
    for node in &mut fleet.nodes {
        node.settings.overrides.image = Some(format!("registry.example/kube-scheduler:{NEW_IMAGE}"));
    }
    fleet.bring_up().await;
    let good = fleet.revisions();
    set_registry(fleet, false);
    fleet.want("two");
    while fleet.revisions() == good {
        fleet.pass(1).await;
    }
    let node = (0..3).find(|node| fleet.revisions()[*node] != good[*node]).expect("one began");
    while fleet.revisions() != good {
        fleet.pass(1).await;
    }
    set_registry(fleet, true);
    node
}

fn set_registry(fleet: &Fleet, is_there: bool) {
    fleet.nodes.iter().for_each(|node| node.kubelet.borrow_mut().has_registry = is_there);
}

async fn until_stopped(fleet: &Fleet) {
    for _ in 0..90 {
        if fleet.record().stopped.is_some() && fleet.record().entry.is_none() {
            return;
        }
        fleet.pass(1).await;
    }
    panic!("the others do not know of it: {}", fleet.story());
}

#[test]
fn while_a_stopped_change_waits_drift_is_repaired_and_a_retry_begins_at_once() {
    fleet(|mut fleet| async move {
        let node = stop(&mut fleet).await;
        until_stopped(&fleet).await;
        let good = fleet.revisions();
        fleet.nodes[node].write_manifest(MANIFEST);
        fleet.pass(15).await;
        assert_eq!(fleet.nodes[node].revision(), good[node], "{}", fleet.story());
        fleet.pass(30).await;
        assert!(fleet.record().stopped.is_some(), "{}", fleet.story());
        assert_eq!(fleet.revisions(), good, "it is not tried again yet: {}", fleet.story());
        fleet.annotate_lease("schedpatch.io/retry", "now");
        fleet.pass(20).await;
        assert_ne!(fleet.revisions(), good, "{}", fleet.story());
        fleet.until_all(Phase::Ready, 300).await;
        assert!(fleet.record().stopped.is_none(), "{}", fleet.story());
    });
}

#[test]
fn where_a_person_forgets_the_node_that_stopped_the_others_go_on_and_it_keeps_its_pause() {
    fleet(|mut fleet| async move {
        let node = stop(&mut fleet).await;
        until_stopped(&fleet).await;
        let good = fleet.revisions();
        let name = fleet.nodes[node].name.clone();
        fleet.change_record(|record| record.forget(&name));
        fleet.pass(90).await;
        assert_eq!(fleet.revisions()[node], good[node], "not yet: {}", fleet.story());
        // the leader still yields to it for a while
        assert!((0..3).any(|one| fleet.revisions()[one] != good[one]), "{}", fleet.story());
        fleet.until_all(Phase::Ready, 600).await;
    });
}

#[test]
fn a_stopped_change_is_known_to_the_agent_that_comes_next_and_tried_again_later() {
    fleet(|mut fleet| async move {
        let node = stop(&mut fleet).await;
        fleet.nodes[node].kill().await;
        fleet.nodes[node].start();
        until_stopped(&fleet).await;
        assert_eq!(fleet.record().stopped.expect("it is there").node, fleet.nodes[node].name, "{}", fleet.story());
        fleet.pass(60).await;
        assert_eq!(fleet.record().seals, 1, "not yet: {}", fleet.story());
        fleet.until_all(Phase::Ready, 600).await;
        fleet.pass(30).await;
        let record = fleet.record();
        assert!(record.seals == 2 && record.stopped.is_none() && record.failed.is_empty(), "{}", fleet.story());
        assert_eq!(fleet.nodes[node].journal().stopped, None);
    });
}
