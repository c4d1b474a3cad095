//! Three control planes: an agent or a node is lost in the middle.

use schedpatch::phase::Phase;

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
