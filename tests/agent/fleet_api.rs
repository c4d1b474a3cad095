//! Three control planes: what the API has, does not have, or does not let us see.

use schedpatch::phase::Phase;
use schedpatch::rollout::{ChangeKind, Entry};

use crate::api::{CONFIG_MAPS, DAEMON_SETS, Fault, LEASES, ROLLOUT};
use crate::fleet::{Fleet, fleet};
use crate::node::{MANIFEST, config};

#[test]
fn a_deleted_config_map_keeps_what_is_in_place() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let before = fleet.revisions();
        fleet.api.remove(CONFIG_MAPS, "schedpatch");
        fleet.pass(30).await;
        assert_eq!(fleet.revisions(), before);
        for node in &fleet.nodes {
            let state = node.report.borrow().node_state.clone();
            assert_eq!((state.phase, state.reason.as_str()), (Phase::Pending, "SourceMissing"), "{}", fleet.story());
        }
        fleet.want("one");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 60).await;
    });
}

#[test]
fn several_config_maps_are_sources_also_immutable_ones_and_binary_data() {
    fleet(|mut fleet| async move {
        for node in &mut fleet.nodes {
            node.options.release.config_maps.push("companion".to_owned());
        }
        let extender = "- {urlPrefix: 'http://127.0.0.1:9472', filterVerb: filter, ignorable: true}";
        let fragment = format!(
            "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n{extender}\n"
        );
        let companion = |port: &str| {
            let bytes = k8s_openapi::ByteString(fragment.replace("9472", port).into_bytes());
            serde_json::json!({ "apiVersion": "v1", "kind": "ConfigMap", "immutable": true,
                "metadata": { "name": "companion", "uid": port }, "binaryData": { "extender.yaml": bytes } })
        };
        fleet.api.put(CONFIG_MAPS, "companion", companion("9472"));
        fleet.bring_up().await;
        let applied = |node: &crate::node::Node| {
            let revision = node.revision().expect("ours");
            let dir = node.on_host("/var/lib/schedpatch/revisions").join(revision);
            let files = std::fs::read_dir(dir).expect("there").map(|file| file.expect("readable").path());
            files.map(|file| std::fs::read_to_string(file).expect("text")).collect::<String>()
        };
        let first = applied(&fleet.nodes[0]);
        assert!(first.contains("one") && first.contains("127.0.0.1:9472"), "{first}");
        // an immutable one changes by being replaced
        fleet.api.remove(CONFIG_MAPS, "companion");
        fleet.pass(5).await;
        fleet.api.put(CONFIG_MAPS, "companion", companion("9473"));
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 300).await;
        for node in &fleet.nodes {
            let text = applied(node);
            assert!(text.contains("one") && text.contains("127.0.0.1:9473"), "{text}");
        }
    });
}

#[test]
fn without_the_api_drift_is_repaired_and_nothing_new_is_begun() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.nodes[2].revision();
        fleet.api.cut_off("cp3", true);
        fleet.pass(30).await;
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(60).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
        fleet.want("two");
        fleet.pass(120).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
        fleet.api.cut_off("cp3", false);
        fleet.until_all(Phase::Ready, 600).await;
        assert_ne!(fleet.nodes[2].revision(), good, "{}", fleet.story());
    });
}

#[test]
fn an_api_that_does_not_answer_for_a_moment_is_not_away() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let turns = fleet.record().turns;
        fleet.api.cut_off("cp3", true);
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(15).await;
        assert_eq!(fleet.nodes[2].revision(), None, "another node may be in the middle: {}", fleet.story());
        fleet.api.cut_off("cp3", false);
        fleet.until_all(Phase::Ready, 120).await;
        fleet.pass(30).await;
        assert!(fleet.nodes[2].revision().is_some(), "{}", fleet.story());
        assert_eq!(fleet.record().turns, turns + 1, "it took a turn: {}", fleet.story());
    });
}

#[test]
fn an_api_that_takes_no_writes_counts_as_away_and_drift_is_repaired() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.nodes[2].revision();
        fleet.api.set_fault(Fault::ReadOnly);
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(15).await;
        assert_eq!(fleet.nodes[2].revision(), None, "it may last for a moment only: {}", fleet.story());
        fleet.pass(60).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
    });
}

#[test]
fn without_the_lease_nothing_is_begun_and_the_node_says_so() {
    fleet(|mut fleet| async move {
        fleet.api.remove(LEASES, ROLLOUT);
        fleet.want("one");
        fleet.start().await;
        fleet.pass(60).await;
        assert_eq!(fleet.revisions(), [None, None, None]);
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "LeaseMissing");
    });
}

#[test]
fn an_api_that_refuses_everything_counts_as_away_and_drift_is_repaired() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.nodes[2].revision();
        // a server without a quorum of etcd that was started anew
        fleet.api.set_fault(Fault::Code(403));
        fleet.api.reset_watches();
        fleet.pass(30).await;
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(60).await;
        assert_eq!(fleet.nodes[2].revision(), good, "{}", fleet.story());
        fleet.want("two");
        fleet.pass(120).await;
        assert_eq!(fleet.nodes[2].revision(), good, "nothing new is begun: {}", fleet.story());
        fleet.api.set_fault(Fault::None);
        fleet.until_all(Phase::Ready, 600).await;
        assert_ne!(fleet.nodes[2].revision(), good, "{}", fleet.story());
    });
}

#[test]
fn an_agent_that_may_not_use_the_lease_changes_nothing_and_says_which_right_it_lacks() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        fleet.api.set_fault(Fault::Forbid("/leases"));
        fleet.api.reset_watches();
        fleet.pass(30).await;
        fleet.nodes[2].write_manifest(MANIFEST);
        fleet.pass(120).await;
        // the API answers, so others may be in the middle of a change
        assert_eq!(fleet.nodes[2].revision(), None, "{}", fleet.story());
        let state = fleet.nodes[2].report.borrow().node_state.clone();
        assert_eq!((state.phase, state.reason.as_str()), (Phase::Blocked, "LeaseForbidden"), "{}", fleet.story());
        fleet.api.set_fault(Fault::None);
        fleet.until_all(Phase::Ready, 600).await;
    });
}

/// Under this fault, drift on one node stays as it is: the API answers, so others may be in the middle of a change.
async fn leaves_drift(mut fleet: Fleet, fault: Fault, is_deleted: bool, expected: (Phase, &str), words: &str) {
    fleet.bring_up().await;
    let set = fleet.api.object(DAEMON_SETS, "schedpatch").expect("it is there");
    fleet.api.set_fault(fault);
    if is_deleted {
        fleet.api.remove(DAEMON_SETS, "schedpatch");
    }
    fleet.api.reset_watches();
    fleet.pass(30).await;
    fleet.nodes[2].write_manifest(MANIFEST);
    fleet.pass(120).await;
    assert_eq!(fleet.nodes[2].revision(), None, "{}", fleet.story());
    let state = fleet.nodes[2].report.borrow().node_state.clone();
    assert_eq!((state.phase, state.reason.as_str()), expected, "{}", fleet.story());
    assert!(state.message.contains(words), "{}", state.message);
    fleet.api.set_fault(Fault::None);
    fleet.api.put(DAEMON_SETS, "schedpatch", set);
    fleet.until_all(Phase::Ready, 600).await;
    assert!(fleet.nodes[2].revision().is_some(), "{}", fleet.story());
}

#[test]
fn an_agent_that_may_not_see_the_other_nodes_changes_nothing_and_names_the_right() {
    let expected = (Phase::Blocked, "PeersForbidden");
    fleet(|fleet| leaves_drift(fleet, Fault::Forbid("/nodes"), false, expected, "may not list nodes"));
    let words = "may not get the DaemonSet schedpatch in namespace schedpatch";
    fleet(|fleet| leaves_drift(fleet, Fault::Forbid("/daemonsets"), false, expected, words));
}

#[test]
fn an_agent_whose_daemon_set_was_deleted_without_it_changes_nothing() {
    let expected = (Phase::Waiting, "DaemonSetMissing");
    fleet(|fleet| leaves_drift(fleet, Fault::None, true, expected, "schedpatch restore --purge"));
}

#[test]
fn an_agent_whose_token_is_refused_changes_nothing_and_asks_again() {
    let expected = (Phase::Blocked, "TokenRefused");
    fleet(|fleet| leaves_drift(fleet, Fault::Code(401), false, expected, "refuses this agent's token"));
}

#[test]
fn what_a_mount_shows_does_not_begin_while_the_api_refuses_everything() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.revisions();
        fleet.api.set_fault(Fault::Code(403));
        fleet.api.reset_watches();
        fleet.nodes[1].source(&config("two"));
        fleet.pass(120).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
        fleet.api.set_fault(Fault::None);
        fleet.until_all(Phase::Ready, 600).await;
        assert_eq!(fleet.revisions(), good, "the API wants what it wanted: {}", fleet.story());
    });
}

#[test]
fn an_agent_that_may_not_read_its_config_map_goes_by_the_mount() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.nodes[1].revision();
        fleet.api.set_fault(Fault::Forbid("/configmaps"));
        fleet.api.reset_watches();
        for node in &fleet.nodes {
            node.source(&config("two"));
        }
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 600).await;
        assert_ne!(fleet.nodes[1].revision(), good, "{}", fleet.story());
    });
}

#[test]
fn an_agent_that_may_not_read_its_config_map_and_has_no_mount_names_the_right() {
    fleet(|mut fleet| async move {
        fleet.api.set_fault(Fault::Forbid("/configmaps"));
        fleet.want("one");
        fleet.start().await;
        fleet.pass(30).await;
        let state = fleet.nodes[1].report.borrow().node_state.clone();
        assert_eq!((state.phase, state.reason.as_str()), (Phase::Pending, "SourceForbidden"), "{}", fleet.story());
        let right = "may not get, list and watch the ConfigMaps schedpatch in namespace schedpatch";
        assert!(state.message.contains(right), "{}", state.message);
        fleet.api.set_fault(Fault::None);
        fleet.api.reset_watches();
        fleet.until_all(Phase::Ready, 900).await;
    });
}

#[test]
fn a_pause_is_reported_by_nodes_that_rest() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let of_rollout = |fleet: &Fleet| {
            let rollout = fleet.nodes[1].report.borrow().rollout.clone().expect("it was seen");
            (rollout.is_paused, rollout.failed, rollout.peers.control_planes, rollout.peers.schedulers)
        };
        assert_eq!(of_rollout(&fleet), (false, 0, 3, 3));
        fleet.change_record(|record| record.paused = true);
        fleet.pass(5).await;
        assert_eq!(of_rollout(&fleet), (true, 0, 3, 3));
    });
}

#[test]
fn what_a_restore_of_etcd_has_set_back_is_not_begun() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let (good, before) = (fleet.revisions(), fleet.api.object(CONFIG_MAPS, "schedpatch").expect("it is there"));
        fleet.annotate_lease("schedpatch.io/pause", "true");
        fleet.pass(10).await;
        fleet.want("two");
        fleet.pass(30).await;
        assert_eq!(fleet.nodes[1].report.borrow().node_state.reason, "Paused", "{}", fleet.story());
        fleet.api.set_back(CONFIG_MAPS, "schedpatch", before);
        fleet.annotate_lease("schedpatch.io/pause", "false");
        fleet.pass(5).await;
        fleet.until_all(Phase::Ready, 300).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
    });
}

#[test]
fn an_agent_that_is_started_again_in_its_turn_begins_only_what_the_api_still_wants() {
    fleet(|mut fleet| async move {
        fleet.bring_up().await;
        let good = fleet.revisions();
        fleet.annotate_lease("schedpatch.io/pause", "true");
        fleet.pass(10).await;
        fleet.want("two");
        fleet.pass(30).await;
        let digest = fleet.nodes[1].report.borrow().digest;
        fleet.nodes[1].kill().await;
        let generation = fleet.nodes[1].journal().generation + 1;
        fleet.change_record(|record| {
            record.paused = false;
            record.turns += 1;
            record.digest = digest;
            record.entry = Some(Entry {
                node: "cp2".to_owned(),
                nonce: "the process before".to_owned(),
                change: ChangeKind::New,
                digest,
                revision: None,
                number: record.turns,
                generation,
                renewed: 0,
            });
        });
        // what is mounted is a minute old, and the API does not say in time what it wants now
        fleet.want("three");
        fleet.nodes[1].source(&config("two"));
        fleet.api.set_fault(Fault::Stall("/configmaps"));
        fleet.nodes[1].start();
        fleet.pass(60).await;
        assert_eq!(fleet.revisions(), good, "{}", fleet.story());
        fleet.api.set_fault(Fault::None);
        fleet.api.reset_watches();
        fleet.until_all(Phase::Ready, 900).await;
        let wanted = fleet.nodes[0].revision();
        assert!(fleet.revisions().iter().all(|one| *one == wanted), "{}", fleet.story());
    });
}
