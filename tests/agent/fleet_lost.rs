//! Three control planes: an agent or a node is lost in the middle.

use schedpatch::phase::Phase;
use serde_json::json;

use crate::fleet::fleet;

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
fn what_failed_before_anything_was_proven_is_known_again_after_the_record_was_lost() {
    fleet(|mut fleet| async move {
        fleet.want("crash.");
        fleet.start().await;
        fleet.until_all(Phase::RolledBack, 600).await;
        fleet.pass(30).await;
        let starts = fleet.starts();
        fleet.lose_record();
        fleet.pass(600).await;
        assert_eq!(fleet.starts(), starts, "nobody tries it again: {}", fleet.story());
        assert_eq!(fleet.record().failed.len(), 1, "{}", fleet.story());
    });
}

#[test]
fn a_commit_that_nobody_noticed_is_not_made_once_more_without_the_turn() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        fleet.nodes[1].kubelet.borrow_mut().is_running = false;
        let generation = fleet.nodes[1].journal().generation;
        fleet.change_record(|record| {
            record.entry = None;
            record.paused = true;
        });
        fleet.pass(200).await;
        assert_eq!(fleet.nodes[1].journal().generation, generation, "{}", fleet.story());
        fleet.nodes[1].kubelet.borrow_mut().is_running = true;
        fleet.change_record(|record| record.paused = false);
        fleet.until_all(Phase::Ready, 400).await;
    });
}

#[test]
fn with_its_turn_a_node_commits_once_more_what_nobody_noticed() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        fleet.nodes[1].kubelet.borrow_mut().is_running = false;
        let generation = fleet.nodes[1].journal().generation;
        fleet.pass(200).await;
        assert_eq!(fleet.nodes[1].journal().generation, generation + 1, "{}", fleet.story());
        fleet.nodes[1].kubelet.borrow_mut().is_running = true;
        fleet.until_all(Phase::Ready, 400).await;
    });
}

#[test]
fn another_agent_takes_over_the_turn_of_a_dead_agent_whose_node_is_ready() {
    fleet(|mut fleet| async move {
        fleet.want("one");
        fleet.start().await;
        while fleet.nodes[1].revision().is_none() {
            fleet.pass(1).await;
        }
        fleet.nodes[1].kill().await;
        // the kubelet starts it again and again
        let ended = json!({ "terminated": { "exitCode": 137 } });
        let waits = json!({ "waiting": { "reason": "CrashLoopBackOff" } });
        fleet.nodes[1].show_agent_as(&waits, &ended);
        for second in 0..180 {
            fleet.api.beat("cp2", second);
            fleet.pass(1).await;
        }
        let taken = fleet.api.events().iter().filter(|(reason, _)| reason == "RolloutTakenOver").count();
        assert_eq!(taken, 1, "before the time after which any agent counts as lost: {:#?}", fleet.api.events());
        for node in [0, 2] {
            fleet.until(node, Phase::Ready, 300).await;
        }
        assert_eq!(*fleet.most_down.borrow(), 1, "{}", fleet.story());
        assert_eq!(fleet.starts(), [2, 2, 2], "{}", fleet.story());
        assert!(fleet.record().failed.is_empty(), "{}", fleet.story());
        fleet.nodes[1].start();
        fleet.until_all(Phase::Ready, 300).await;
        assert_eq!(fleet.starts(), [2, 2, 2], "what it had begun is proven, not made anew: {}", fleet.story());
    });
}
