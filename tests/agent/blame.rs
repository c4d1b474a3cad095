//! Whose fault it is: a revision that ran is not banned for what somebody else did to the manifest.

use schedpatch::phase::Phase;
use schedpatch::plan::Direction;

use crate::kubelet::{FUSSY_IMAGE, NEW_IMAGE};
use crate::node::{MANIFEST, config, story};

fn with_typo(manifest: &str) -> String {
    manifest.replace("    - --leader-elect=true\n", "    - --leader-elect=true\n    - --typo=1\n")
}

#[test]
fn an_upgrade_to_an_image_that_cannot_be_pulled_does_not_ban_a_proven_revision() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let revision = node.revision();
        node.kubelet.borrow_mut().has_registry = false;
        node.write_manifest(&MANIFEST.replace("v1.36.1", NEW_IMAGE));
        let report = node.until(Phase::Degraded, 300).await;
        assert_eq!(report.node_state.reason, "CannotStart", "{}", node.message());
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
        node.pass(2_000).await;
        assert_eq!(node.revision(), revision, "it stays in place");
        node.kubelet.borrow_mut().has_registry = true;
        node.until(Phase::Ready, 120).await;
        assert!(node.manifest().contains(NEW_IMAGE), "the upgrade stays");
    });
}

#[test]
fn an_admins_typo_does_not_ban_a_proven_revision() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let revision = node.revision();
        node.write_manifest(&with_typo(&node.manifest()));
        let report =
            node.until_report("the original fails", 900, |report| report.node_state.reason == "OriginalFails").await;
        assert_eq!(report.node_state.phase, Phase::Degraded);
        assert!(report.node_state.message.contains("unknown flag: --typo"), "{}", report.node_state.message);
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
        assert_eq!(node.manifest(), with_typo(MANIFEST), "our edit is out, the admin's stays");
        let started = node.kubelet.borrow().started();
        node.pass(1_200).await;
        assert_eq!(node.manifest(), with_typo(MANIFEST), "our edit does not come and go");
        assert!(node.kubelet.borrow().started() > started, "the kubelet still tries");
        node.write_manifest(MANIFEST);
        node.until(Phase::Ready, 120).await;
        assert_eq!(node.revision(), revision);
    });
}

#[test]
fn a_typo_that_came_with_a_new_revision_is_told_apart_from_it() {
    story(|mut node| async move {
        node.write_manifest(&with_typo(MANIFEST));
        node.source(&config("one"));
        node.start();
        node.until_report("the original fails", 900, |report| report.node_state.reason == "OriginalFails").await;
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
        node.write_manifest(MANIFEST);
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_revision_that_fails_while_the_original_runs_stays_banned() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        assert_eq!(node.manifest(), MANIFEST);
        // what happens to the original long after says nothing about the revision
        for _ in 0..3 {
            node.pass(60).await;
            node.kubelet.borrow_mut().end("panic: out of luck");
        }
        node.pass(900).await;
        assert_eq!(node.journal().bad.len(), 1);
        assert_eq!(node.manifest(), MANIFEST);
        node.kill().await;
        node.start();
        node.until(Phase::RolledBack, 300).await;
        assert_eq!(node.manifest(), MANIFEST, "nor does a new agent try it again");
    });
}

#[test]
fn a_proven_revision_that_a_new_original_refuses_is_banned_for_that_original_only() {
    story(|mut node| async move {
        node.source(&config("fussy."));
        node.start();
        node.until(Phase::Ready, 60).await;
        let revision = node.revision().expect("ours");
        let upgraded = MANIFEST.replace("v1.36.1", FUSSY_IMAGE);
        node.write_manifest(&upgraded);
        node.until(Phase::RolledBack, 300).await;
        assert_eq!(node.manifest(), upgraded);
        assert!(node.journal().bad[&revision].original.is_some(), "the mark holds for this original");
        node.pass(1_200).await;
        assert_eq!(node.manifest(), upgraded);
        node.write_manifest(&MANIFEST.replace("v1.36.1", "v1.36.3"));
        node.until(Phase::Ready, 200).await;
        assert_eq!(node.revision(), Some(revision));
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
    });
}

#[test]
fn a_person_who_insists_gets_a_trial() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        let containers = node.kubelet.borrow().started();
        node.as_person(Direction::Apply, true).expect("applied");
        node.until(Phase::Verifying, 30).await;
        node.until(Phase::RolledBack, 300).await;
        assert!(node.kubelet.borrow().started() >= containers + 3, "it was tried twice, then the original");
    });
}

#[test]
fn an_unproven_revision_is_judged_although_a_banned_one_is_wanted() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let good = node.revision();
        node.source(&config("crash."));
        node.pass(2).await;
        node.until(Phase::RolledBack, 300).await;
        node.source(&config("slow."));
        node.pass(2).await;
        node.until(Phase::Verifying, 60).await;
        node.source(&config("crash."));
        node.pass(600).await;
        assert_eq!((node.phase(), node.revision()), (Phase::RolledBack, good), "{}", node.message());
    });
}

#[test]
fn what_others_do_to_the_original_later_does_not_clear_a_revision_that_failed_by_itself() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        node.write_manifest(&with_typo(MANIFEST));
        node.pass(900).await;
        assert_eq!(node.journal().bad.len(), 1, "{}", node.message());
        node.write_manifest(MANIFEST);
        node.pass(900).await;
        assert_eq!((node.phase(), node.revision()), (Phase::RolledBack, None), "{}", node.message());
    });
}

#[test]
fn the_last_good_revision_comes_back_when_the_manifest_is_written_anew_while_another_is_banned() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let good = node.revision();
        node.source(&config("crash."));
        node.pass(2).await;
        node.until(Phase::RolledBack, 300).await;
        // as a restart of rke2-server does
        node.write_manifest(MANIFEST);
        node.pass(60).await;
        assert_eq!((node.phase(), node.revision()), (Phase::RolledBack, good.clone()), "{}", node.message());
        // the same while the sources are refused
        node.source("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nnonsense: 1\n");
        node.pass(2).await;
        node.write_manifest(MANIFEST);
        node.pass(60).await;
        assert_eq!((node.phase(), node.revision()), (Phase::Blocked, good), "{}", node.message());
        // an upgrade is not undone, and nobody claims that the scheduler runs as before
        node.write_manifest(&MANIFEST.replace("v1.36.1", "v1.36.3"));
        node.pass(60).await;
        assert_eq!(node.report.borrow().node_state.reason, "LastGoodLost");
        node.source(&config("two"));
        node.until(Phase::Ready, 120).await;
    });
}

/// What is wanted is banned, and what is in place is yet another revision on trial: that one is judged like any other.
#[test]
fn a_banned_revision_that_is_wanted_does_not_keep_an_unproven_one_in_place() {
    for (extender, is_sound) in [("slow.", false), ("two", true)] {
        story(|mut node| async move {
            node.source(&config("crash."));
            node.start();
            node.until(Phase::RolledBack, 300).await;
            node.source(&config(extender));
            node.until(Phase::Verifying, 30).await;
            let on_trial = node.revision().expect("ours");
            node.history.borrow_mut().clear();
            node.source(&config("crash."));
            node.pass(4).await;
            assert_eq!(node.revision().as_ref(), Some(&on_trial), "it has its trial");
            let history = node.history.borrow().clone();
            assert!(
                !history.iter().any(|line| line.contains("RollingBack")),
                "nothing is rolled back yet: {history:#?}"
            );
            node.until(Phase::RolledBack, 900).await;
            let journal = node.journal();
            assert_eq!(journal.bad.contains_key(&on_trial), !is_sound, "{journal:#?}");
            // what was proven and not sealed before something else was wanted is no way back
            assert_eq!(node.revision(), None, "{:?}", node.history);
        });
    }
}

#[test]
fn told_to_stop_while_a_proven_revision_fails_on_a_new_original_the_node_schedules() {
    story(|mut node| async move {
        node.source(&config("fussy."));
        node.start();
        node.until(Phase::Ready, 60).await;
        let upgraded = MANIFEST.replace("v1.36.1", FUSSY_IMAGE);
        node.write_manifest(&upgraded);
        node.pass(18).await;
        assert!(node.revision().is_some(), "it was put back, and does not run");
        node.stop().await.expect("it ends");
        assert_eq!(node.manifest(), upgraded);
    });
}

#[test]
fn an_old_mark_of_another_revision_keeps_no_failing_one_in_place() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        node.source(&config("fussy."));
        node.until(Phase::Ready, 60).await;
        let upgraded = MANIFEST.replace("v1.36.1", FUSSY_IMAGE);
        node.write_manifest(&upgraded);
        node.pass(2).await;
        node.source("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nnonsense: 1\n");
        node.pass(300).await;
        assert_eq!(node.manifest(), upgraded, "{}", node.message());
    });
}

#[test]
fn an_unproven_revision_that_fails_is_taken_back_even_when_the_one_wanted_is_banned() {
    story(|mut node| async move {
        node.source(&config("crash.one"));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        node.source(&config("crash.two"));
        node.until(Phase::Verifying, 60).await;
        let second = node.revision().expect("ours");
        node.source(&config("crash.one"));
        node.pass(300).await;
        assert_eq!(node.manifest(), MANIFEST, "{}", node.message());
        assert!(node.journal().bad.contains_key(&second), "{:?}", node.journal().bad);
    });
}
