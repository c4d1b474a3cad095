//! Preflights: the scheduler itself checks what is new, before anything is touched.

use std::time::Duration;

use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Request, Tried};
use schedpatch::report::Report;
use schedpatch::settings::{OnUpgrade, Preflight};
use schedpatch::timestamp::Timestamp;

use crate::api::{Fault, LEASES, ROLLOUT};
use crate::kubelet::{FUSSY_IMAGE, NEW_IMAGE};
use crate::node::{MANIFEST, Node, config, story};
use crate::preflight_pods::Preflighting;

const TIMEOUT: Duration = Duration::from_mins(10);

/// A story on a node with preflights.
fn preflighted<F: Future<Output = ()>>(tell: impl FnOnce(Node) -> F) {
    story(|mut node| {
        node.settings.preflight = Preflight::On { timeout: TIMEOUT };
        tell(node)
    });
}

fn files_left(node: &Node) -> Vec<String> {
    let dir = std::fs::read_dir(node.on_host("/etc/kubernetes/manifests")).expect("it is there");
    let names = dir.map(|entry| entry.expect("readable").file_name().into_string().expect("text"));
    names.filter(|name| name.contains("preflight")).collect()
}

fn preflights(node: &Node) -> usize {
    node.kubelet.borrow().preflights.names.len()
}

#[test]
fn a_good_configuration_is_tried_once_and_then_applied() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        assert_eq!(node.manifest(), MANIFEST, "nothing is touched while the scheduler checks it");
        node.until(Phase::Ready, 60).await;
        assert_eq!((preflights(&node), files_left(&node)), (1, vec![]));
        let name = node.kubelet.borrow().preflights.names[0].clone();
        assert_eq!(name, format!("schedpatch-preflight-{}-1-cp1", node.revision().expect("ours")));
        assert_eq!(node.journal().preflights.attempts, 1);
        node.pass(3_600).await;
        assert_eq!(preflights(&node), 1, "what is in place is not tried again");
    });
}

#[test]
fn a_configuration_that_the_scheduler_refuses_touches_nothing() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let (manifest, started) = (node.manifest(), node.kubelet.borrow().started());
        node.source(&config("crash."));
        let report = node.until_report("refused", 6, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!(report.node_state.phase, Phase::Blocked);
        assert!(report.node_state.message.contains("the extender crash. is refused"), "{}", report.node_state.message);
        assert_eq!((node.manifest(), node.kubelet.borrow().started()), (manifest, started));
        assert_eq!((preflights(&node), files_left(&node)), (3, vec![]), "it, and what runs, to be sure");
        assert!(node.journal().bad.values().all(|bad| bad.by_preflight && bad.digest.is_some()));
        node.pass(3_600).await;
        assert_eq!((node.phase(), preflights(&node)), (Phase::Blocked, 3), "it is not tried again");
        node.source(&config("two"));
        node.until(Phase::Ready, 60).await;
    });
}

#[test]
fn a_refused_configuration_is_tried_again_when_a_person_insists() {
    preflighted(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until_report("refused", 30, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!(node.manifest(), MANIFEST);
        assert!(node.message().contains("schedpatch rollout retry"), "{}", node.message());
        node.pass(60).await;
        let mut lease = node.api.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"]["schedpatch.io/retry"] = serde_json::json!("now");
        node.api.put(LEASES, ROLLOUT, lease);
        node.pass(20).await;
        assert_eq!((preflights(&node), node.phase()), (4, Phase::Blocked));
    });
}

#[test]
fn where_even_what_runs_fails_a_preflight_does_not_judge() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        assert_eq!(preflights(&node), 2);
        assert!(node.journal().preflights.cannot_judge.is_some());
        node.source(&config("two"));
        node.until_report("two", 60, |report| report.generation == Some(2) && report.node_state.is_ready()).await;
        assert_eq!((preflights(&node), files_left(&node)), (2, vec![]), "that is remembered");
    });
}

#[test]
fn without_a_verdict_the_same_image_is_applied_and_verified() {
    for how in [Preflighting::Silent, Preflighting::Full, Preflighting::Blocks, Preflighting::Killed] {
        preflighted(|mut node| async move {
            node.kubelet.borrow_mut().preflighting = how;
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 220).await;
            assert_eq!(files_left(&node), Vec::<String>::new(), "{how:?}");
        });
    }
}

#[test]
fn without_a_verdict_another_image_is_not_applied() {
    for how in [Preflighting::Silent, Preflighting::Full, Preflighting::Blocks, Preflighting::Killed] {
        preflighted(|mut node| async move {
            node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
            node.kubelet.borrow_mut().preflighting = how;
            node.source(&config("one"));
            node.start();
            let unclear = |reason: &str| reason == "PreflightUnclear";
            node.until_report("unclear", 140, |report| unclear(&report.node_state.reason)).await;
            assert!(node.message().contains("--preflight none"), "{how:?}: {}", node.message());
            assert_eq!((node.manifest().as_str(), files_left(&node)), (MANIFEST, vec![]), "{how:?}");
            assert!(node.journal().bad.is_empty());
            node.kubelet.borrow_mut().preflighting = Preflighting::Works;
            node.until(Phase::Ready, 1_200).await;
        });
    }
}

#[test]
fn another_image_is_pulled_while_the_old_scheduler_runs() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{NEW_IMAGE}"));
        node.kubelet.borrow_mut().has_registry = false;
        node.source(&config("one"));
        node.start();
        node.until_report("cannot pull", 10, |report| report.node_state.reason == "PreflightObstructed").await;
        assert!(node.message().contains("ErrImagePull"), "{}", node.message());
        node.pass(120).await;
        assert_eq!((node.manifest().as_str(), node.kubelet.borrow().started()), (MANIFEST, 1));
        node.kubelet.borrow_mut().has_registry = true;
        node.until(Phase::Ready, 60).await;
        assert!(node.manifest().contains(NEW_IMAGE) && node.journal().bad.is_empty());
    });
}

#[test]
fn an_image_that_refuses_the_configuration_needs_no_control_run() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.source(&config("fussy."));
        node.start();
        node.until_report("refused", 30, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!((node.manifest().as_str(), preflights(&node)), (MANIFEST, 1));
    });
}

#[test]
fn a_change_in_the_middle_of_a_preflight_begins_another() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.pass(20).await;
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.source(&config("one"));
        node.until(Phase::Ready, 60).await;
        assert!(node.manifest().contains("schedpatch.io/revision") && node.journal().bad.is_empty());
        assert_eq!(files_left(&node), Vec::<String>::new());
    });
}

#[test]
fn told_to_stop_or_killed_in_a_preflight_its_file_goes() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        assert_eq!(files_left(&node).len(), 1);
        node.stop().await.expect("it stops");
        assert_eq!(files_left(&node), Vec::<String>::new());
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.kill().await;
        assert_eq!(files_left(&node).len(), 1, "nobody was there to remove it");
        node.source("apiVersion: v1\nkind: Nonsense\n");
        node.start();
        node.until_report("nothing wanted", 10, |report| report.node_state.reason == "NoSource").await;
        assert_eq!(files_left(&node), Vec::<String>::new(), "who comes next removes it, whatever is wanted");
        assert_eq!(node.manifest(), MANIFEST);
    });
}

#[test]
fn a_person_who_applies_removes_the_file_too() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.kill().await;
        node.as_person(Direction::Restore, false).expect("restored");
        assert_eq!(files_left(&node), Vec::<String>::new());
    });
}

#[test]
fn a_preflight_that_somebody_removes_begins_anew() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::Preflight, 5).await;
        for _ in 0..3 {
            node.pass(5).await;
            for name in files_left(&node) {
                std::fs::remove_file(node.on_host("/etc/kubernetes/manifests").join(name)).expect("removed");
            }
        }
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until_report("refused", 60, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!(node.manifest(), MANIFEST);
    });
}

#[test]
fn what_was_proven_is_put_back_without_a_preflight() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        node.write_manifest(MANIFEST);
        node.until(Phase::Applying, 10).await;
        node.until(Phase::Ready, 60).await;
        assert_eq!(preflights(&node), 1);
        node.write_manifest(&MANIFEST.replace("v1.36.1", "v1.36.3"));
        node.until_report("patched again", 60, |report| report.generation == Some(3) && report.node_state.is_ready())
            .await;
        assert_eq!(preflights(&node), 2, "an upgraded manifest is another text");
    });
}

#[test]
fn an_upgrade_whose_scheduler_refuses_a_proven_revision_stays_as_it_is() {
    preflighted(|mut node| async move {
        node.source(&config("fussy."));
        node.start();
        node.until(Phase::Ready, 60).await;
        let upgraded = MANIFEST.replace("v1.36.1", FUSSY_IMAGE);
        node.write_manifest(&upgraded);
        node.until_report("refused", 60, |report| {
            report.node_state.reason.contains("Preflight") && !report.node_state.message.contains("checks")
        })
        .await;
        node.pass(60).await;
        assert_eq!(node.manifest(), upgraded);
        let bad = node.journal().bad;
        assert!(bad.values().all(|bad| bad.original.is_some()), "{bad:?}");
    });
}

fn ask(node: &Node, what: &str) {
    ask_for(node, what, "now");
}

fn ask_for(node: &Node, what: &str, value: &str) {
    let mut lease = node.api.object(LEASES, ROLLOUT).expect("it is there");
    lease["metadata"]["annotations"][what] = serde_json::json!(value);
    node.api.put(LEASES, ROLLOUT, lease);
}

/// A node whose original needs the registry, and that runs another image.
async fn with_another_image(node: &mut Node) -> String {
    let original = MANIFEST.replace("v1.36.1", NEW_IMAGE);
    node.write_manifest(&original);
    node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
    node.source(&config("one"));
    node.start();
    node.until(Phase::Ready, 60).await;
    original
}

#[test]
fn an_original_whose_image_is_gone_is_pulled_before_our_edit_is_removed() {
    preflighted(|mut node| async move {
        let original = with_another_image(&mut node).await;
        let (patched, started) = (node.manifest(), node.kubelet.borrow().started());
        node.kubelet.borrow_mut().has_registry = false;
        ask(&node, "schedpatch.io/uninstall");
        let obstructed = |reason: &str| reason == "PreflightObstructed";
        node.until_report("no image", 60, |report| obstructed(&report.node_state.reason)).await;
        node.pass(120).await;
        assert_eq!((node.manifest(), node.kubelet.borrow().started()), (patched, started), "the scheduler runs on");
        node.kubelet.borrow_mut().has_registry = true;
        node.until(Phase::Restored, 120).await;
        assert_eq!((node.manifest(), files_left(&node)), (original, vec![]));
        assert!(!node.on_host("/var/lib/schedpatch").exists());
    });
}

#[test]
fn an_original_that_the_scheduler_refuses_is_not_put_back_until_it_accepts_it() {
    preflighted(|mut node| async move {
        let original = with_another_image(&mut node).await;
        let patched = node.manifest();
        node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
        ask(&node, "schedpatch.io/uninstall");
        node.until_report("refused", 60, |report| report.node_state.reason == "PreflightFailed").await;
        assert!(node.message().contains("schedpatch restore"), "{}", node.message());
        let tried = preflights(&node);
        node.pass(20).await;
        assert_eq!((node.manifest(), preflights(&node), files_left(&node)), (patched, tried, vec![]));
        assert!(node.journal().bad.is_empty());
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until(Phase::Restored, 120).await;
        assert_eq!(node.manifest(), original);
    });
}

#[test]
fn where_a_preflight_cannot_judge_our_edit_is_removed_all_the_same() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        assert!(node.journal().preflights.cannot_judge.is_some());
        node.stop().await.expect("it stops");
        // the same with another image, which a person puts in
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.settings.preflight = Preflight::None;
        node.start();
        node.until(Phase::Ready, 60).await;
        node.stop().await.expect("it stops");
        node.settings.preflight = Preflight::On { timeout: TIMEOUT };
        node.start();
        node.until(Phase::Ready, 60).await;
        ask(&node, "schedpatch.io/uninstall");
        node.until(Phase::Restored, 120).await;
        assert_eq!((node.manifest().as_str(), files_left(&node)), (MANIFEST, vec![]));
    });
}

#[test]
fn a_full_node_does_not_keep_our_edit() {
    preflighted(|mut node| async move {
        let original = with_another_image(&mut node).await;
        node.api.set_room("cp1", 0);
        let tried = preflights(&node);
        ask(&node, "schedpatch.io/uninstall");
        node.until(Phase::Restored, 120).await;
        assert_eq!((node.manifest(), preflights(&node)), (original, tried), "no pod is evicted for it");
    });
}

#[test]
fn only_what_was_tried_is_committed() {
    preflighted(|node| async move {
        node.source(&config("one"));
        let run = |tried: Tried| {
            let request = Request::new(&node.settings, Direction::Apply, Initiator::Agent, "run", TIMEOUT);
            let env = Env { fs: &RealFs, clock: &|| Timestamp::from_unix(1_800_000_000) };
            reconcile::run(&Request { tried, ..request }, &env, &mut |_| {}).expect("it runs")
        };
        let planned = run(Tried::Only(None));
        let tried = planned.plan.preflight.as_ref().expect("it needs one").manifest.tried;
        // an upgrade after the preflight: the same revision, and another text
        node.write_manifest(&MANIFEST.replace("v1.36.1", FUSSY_IMAGE));
        let upgraded = run(Tried::Only(Some(tried)));
        assert_eq!(upgraded.plan.revision, planned.plan.revision);
        assert!(planned.receipt.is_none() && upgraded.receipt.is_none());
        node.write_manifest(MANIFEST);
        assert!(run(Tried::Only(Some(tried))).receipt.is_some_and(|receipt| receipt.committed));
    });
}

#[test]
fn a_preflight_that_somebody_always_removes_begins_again_after_a_pause() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        for _ in 0..8 {
            node.pass(5).await;
            for name in files_left(&node) {
                std::fs::remove_file(node.on_host("/etc/kubernetes/manifests").join(name)).expect("removed");
            }
        }
        node.until_report("unclear", 60, |report| report.node_state.reason == "PreflightUnclear").await;
        assert_eq!(node.manifest(), MANIFEST);
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until(Phase::Ready, 300).await;
    });
}

#[test]
fn an_image_that_is_gone_from_the_node_stops_no_running_scheduler() {
    preflighted(|mut node| async move {
        node.write_manifest(&MANIFEST.replace("v1.36.1", NEW_IMAGE));
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let (manifest, started) = (node.manifest(), node.kubelet.borrow().started());
        node.kubelet.borrow_mut().has_registry = false;
        node.source(&config("two"));
        node.until_report("no image", 30, |report| report.node_state.reason == "PreflightObstructed").await;
        for _ in 0..40 {
            node.pass(60).await;
            assert_eq!((node.manifest(), node.kubelet.borrow().started()), (manifest.clone(), started));
            let told = node.report.borrow().node_state.clone();
            assert!(matches!(told.phase, Phase::Blocked | Phase::Preflight), "{told:?}");
        }
        assert!(node.journal().bad.is_empty(), "nobody is to blame");
        node.kubelet.borrow_mut().has_registry = true;
        node.until_report("two", 900, |report| report.generation == Some(2) && report.node_state.is_ready()).await;
        assert_eq!(files_left(&node), Vec::<String>::new());
    });
}

#[test]
fn a_configuration_that_makes_the_scheduler_hang_is_not_applied() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let (manifest, started) = (node.manifest(), node.kubelet.borrow().started());
        node.source(&config("hang."));
        node.until_report("hangs", 100, |report| report.node_state.reason == "PreflightUnclear").await;
        assert!(node.message().contains("that of the text in place ends"), "{}", node.message());
        node.pass(1_800).await;
        assert_eq!((node.manifest(), node.kubelet.borrow().started()), (manifest, started));
        assert!(node.journal().bad.is_empty());
        node.source(&config("two"));
        node.until_report("two", 90, |report| report.generation == Some(2) && report.node_state.is_ready()).await;
    });
}

#[test]
fn what_the_scheduler_refuses_is_not_applied_where_the_text_in_place_cannot_be_tried() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let manifest = node.manifest();
        node.source(&config("crash."));
        // the first one's, the refused one's, and that of the text in place
        while preflights(&node) < 3 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        node.kubelet.borrow_mut().preflighting = Preflighting::Killed;
        node.until_report("unclear", 30, |report| report.node_state.reason == "PreflightUnclear").await;
        assert!(node.message().contains("crash. is refused"), "{}", node.message());
        assert_eq!(node.manifest(), manifest);
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until_report("refused", 120, |report| report.node_state.reason == "PreflightFailed").await;
    });
}

#[test]
fn a_refusal_while_the_api_was_away_is_tried_again_before_it_counts() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.pass(5).await;
        node.api.set_fault(Fault::Code(503));
        node.pass(5).await;
        // a plugin that asks the API in its constructor ends
        node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
        node.pass(5).await;
        node.api.set_fault(Fault::None);
        node.pass(1).await;
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until(Phase::Ready, 120).await;
        assert!(node.journal().bad.is_empty());
    });
}

#[test]
fn a_person_who_insists_ends_the_pause_and_the_doubt() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        assert!(node.journal().preflights.cannot_judge.is_some());
        ask(&node, "schedpatch.io/retry");
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.source(&config("crash."));
        node.until_report("refused", 60, |report| report.node_state.reason == "PreflightFailed").await;
        assert!(node.journal().preflights.cannot_judge.is_none());
        node.source(&config("hang."));
        node.until_report("hangs", 200, |report| report.node_state.reason == "PreflightUnclear").await;
        let tried = preflights(&node);
        ask(&node, "schedpatch.io/retry");
        node.pass(20).await;
        assert_eq!(preflights(&node), tried + 1, "at once, and not after the pause");
    });
}

#[test]
fn what_was_accepted_long_ago_is_tried_again_once_a_pause_ends() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        ask_for(&node, "schedpatch.io/pause", "true");
        node.stop().await.expect("it stops");
        let manifest = node.manifest();
        node.settings.overrides.image = Some(format!("example.org/own:{NEW_IMAGE}"));
        node.start();
        node.pass(3_600).await;
        assert_eq!((preflights(&node), node.manifest()), (2, manifest.clone()), "{}", node.message());
        // the kubelet removed what no container used
        node.kubelet.borrow_mut().has_registry = false;
        ask_for(&node, "schedpatch.io/pause", "false");
        node.until_report("no image", 60, |report| report.node_state.reason == "PreflightObstructed").await;
        assert_eq!(node.manifest(), manifest);
        node.kubelet.borrow_mut().has_registry = true;
        node.until_report("put in", 120, |report| report.generation == Some(2) && report.node_state.is_ready()).await;
    });
}

#[test]
fn after_an_upgrade_to_another_minor_release_another_image_stays_out_unless_it_is_kept() {
    for kept in [false, true] {
        preflighted(|mut node| async move {
            node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
            node.settings.overrides.image_on_upgrade = if kept { OnUpgrade::Keep } else { OnUpgrade::Remove };
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 60).await;
            let upgraded = MANIFEST.replace("v1.36.1", "v1.37.0");
            node.write_manifest(&upgraded);
            if kept {
                node.until_report("put back", 90, |report| {
                    report.generation == Some(2) && report.node_state.is_ready()
                })
                .await;
                assert!(node.manifest().contains(FUSSY_IMAGE));
            } else {
                let stays = |report: &Report| report.node_state.reason == "ImageUpgraded";
                let report = node.until_report("left alone", 60, stays).await;
                assert_eq!(report.node_state.phase, Phase::Blocked);
                assert!(report.node_state.message.contains("of another release"), "{}", report.node_state.message);
                node.pass(1_800).await;
                assert_eq!(
                    (node.manifest(), node.report.borrow().node_state.reason.as_str()),
                    (upgraded, "ImageUpgraded")
                );
            }
        });
    }
}
