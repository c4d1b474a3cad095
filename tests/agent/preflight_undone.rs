//! Preflights of what is put back, of another image on the way back, and while everything is removed.

use schedpatch::journal::Bad;
use schedpatch::phase::Phase;
use schedpatch::report::Report;
use schedpatch::settings::{OnUpgrade, Preflight};

use crate::api::Fault;
use crate::kubelet::{FUSSY_IMAGE, NEW_IMAGE};
use crate::node::{MANIFEST, Node, config};
use crate::preflight::{TIMEOUT, ask, files_left, preflighted, preflights};
use crate::preflight_pods::Preflighting;

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
        // what was proven cannot come back on another manifest, which is worse than the refusal
        node.until_report("refused", 60, |report| report.node_state.reason == "LastGoodLost").await;
        node.pass(60).await;
        assert_eq!(node.manifest(), upgraded);
        let bad = node.journal().bad;
        let is_refused =
            |bad: &Bad| bad.by_preflight && bad.original.is_some() && bad.reason.contains("fussy. is gone");
        assert!(bad.len() == 1 && bad.values().all(is_refused), "{bad:?}");
    });
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
fn the_preflight_of_a_way_back_outlives_questions_that_nobody_answers() {
    preflighted(|mut node| async move {
        let original = with_another_image(&mut node).await;
        node.kubelet.borrow_mut().has_registry = false;
        ask(&node, "schedpatch.io/uninstall");
        node.until_report("no image", 60, |report| report.node_state.reason == "PreflightObstructed").await;
        let tried = preflights(&node);
        for _ in 0..5 {
            node.api.set_fault(Fault::Refuse);
            node.pass(5).await;
            node.api.set_fault(Fault::None);
            node.pass(20).await;
        }
        assert_eq!(preflights(&node), tried, "its image is still being pulled: {}", node.message());
        node.kubelet.borrow_mut().has_registry = true;
        node.until(Phase::Restored, 120).await;
        assert_eq!((node.manifest(), files_left(&node)), (original, vec![]));
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

/// A node that runs another image, and whose next configuration the scheduler refuses. Then the agent ends, somebody writes the
/// manifest anew, and the kubelet removes the image that no container uses.
async fn rewritten_without_its_image(node: &mut Node) -> String {
    node.settings.overrides.image = Some(format!("example.org/own:{NEW_IMAGE}"));
    node.source(&config("one"));
    node.start();
    node.until(Phase::Ready, 60).await;
    node.source(&config("crash."));
    node.until_report("refused", 60, |report| report.node_state.reason == "PreflightFailed").await;
    let revision = node.revision().expect("ours");
    node.stop().await.expect("it stops");
    node.write_manifest(MANIFEST);
    node.kubelet.borrow_mut().has_registry = false;
    node.pass(30).await;
    revision
}

#[test]
fn a_repair_waits_for_an_image_that_is_gone_while_something_refused_is_wanted() {
    preflighted(|mut node| async move {
        let revision = rewritten_without_its_image(&mut node).await;
        let started = node.kubelet.borrow().started();
        node.start();
        node.until_report("no image", 60, |report| report.node_state.reason == "PreflightObstructed").await;
        node.pass(300).await;
        assert_eq!(
            (node.manifest().as_str(), node.kubelet.borrow().started()),
            (MANIFEST, started),
            "what runs goes on"
        );
        node.kubelet.borrow_mut().has_registry = true;
        node.pass(120).await;
        assert_eq!((node.revision(), files_left(&node)), (Some(revision), vec![]), "{}", node.message());
        assert!(node.manifest().contains(NEW_IMAGE) && node.message().contains("crash."), "{}", node.message());
    });
}

#[test]
fn without_the_api_no_other_image_is_put_back_whatever_is_wanted() {
    preflighted(|mut node| async move {
        let revision = rewritten_without_its_image(&mut node).await;
        node.api.set_fault(Fault::Refuse);
        node.start();
        node.until_report("away", 60, |report| report.node_state.reason == "ApiAway").await;
        node.pass(300).await;
        assert_eq!(node.manifest(), MANIFEST);
        node.kubelet.borrow_mut().has_registry = true;
        node.api.set_fault(Fault::None);
        node.pass(180).await;
        assert_eq!(node.revision(), Some(revision), "{}", node.message());
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

#[test]
fn an_uninstall_in_the_middle_of_a_preflight_leaves_no_trace() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        ask(&node, "schedpatch.io/uninstall");
        node.until(Phase::Restored, 60).await;
        node.pass(60).await;
        assert_eq!((node.manifest().as_str(), files_left(&node)), (MANIFEST, vec![]));
        assert!(!node.on_host("/var/lib/schedpatch/state.json").exists());
    });
}
