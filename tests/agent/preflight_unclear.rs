//! Preflights that nobody ends, or that say nothing for certain.

use std::time::Duration;

use schedpatch::phase::Phase;

use crate::api::Fault;
use crate::kubelet::{FUSSY_IMAGE, NEW_IMAGE};
use crate::node::{MANIFEST, config};
use crate::preflight::{ask, files_left, preflighted, preflights};
use crate::preflight_pods::Preflighting;

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
fn a_refusal_counts_never_while_the_api_goes_away_each_time() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        for tried in 1..=4 {
            node.pass(5).await;
            node.api.set_fault(Fault::Code(503));
            node.pass(5).await;
            node.kubelet.borrow_mut().preflighting = Preflighting::Fails;
            node.api.set_fault(Fault::None);
            for _ in 0..300 {
                if preflights(&node) > tried || node.phase() == Phase::Blocked {
                    break;
                }
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
            node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        }
        assert_eq!(node.report.borrow().node_state.reason, "PreflightUnclear", "{}", node.message());
        assert!(node.message().contains("the API went away"), "{}", node.message());
        assert_eq!((node.manifest().as_str(), preflights(&node), files_left(&node)), (MANIFEST, 4, vec![]));
        assert!(node.journal().bad.is_empty());
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_full_node_applies_the_same_image_without_a_preflight_and_no_other() {
    for image in [None, Some(format!("example.org/own:{FUSSY_IMAGE}"))] {
        preflighted(|mut node| async move {
            let is_other = image.is_some();
            node.settings.overrides.image = image;
            node.api.set_room("cp1", 0);
            node.source(&config("one"));
            node.start();
            if is_other {
                node.until_report("unclear", 30, |report| report.node_state.reason == "PreflightUnclear").await;
                assert!(node.message().contains("as many pods as its kubelet allows"), "{}", node.message());
                node.pass(300).await;
                assert_eq!((node.manifest().as_str(), preflights(&node)), (MANIFEST, 0));
                node.api.set_room("cp1", 110);
                node.until(Phase::Ready, 700).await;
            } else {
                node.until(Phase::Ready, 60).await;
                assert_eq!(preflights(&node), 0);
            }
        });
    }
}

#[test]
fn the_text_in_place_is_not_tried_on_a_node_that_has_filled_up() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let manifest = node.manifest();
        node.source(&config("crash."));
        while preflights(&node) < 2 {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        node.api.set_room("cp1", 0);
        node.until_report("unclear", 30, |report| report.node_state.reason == "PreflightUnclear").await;
        assert!(node.message().contains("crash. is refused; this node is full"), "{}", node.message());
        assert_eq!((node.manifest(), preflights(&node), files_left(&node)), (manifest, 2, vec![]));
        node.api.set_room("cp1", 110);
        node.until_report("refused", 120, |report| report.node_state.reason == "PreflightFailed").await;
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
