//! An API that resets, hangs or answers with errors: silence is no answer, and no verdict acts on it.

use std::time::Duration;

use schedpatch::phase::Phase;
use serde_json::Value;

use crate::api::Fault;
use crate::node::{MANIFEST, NAME, Node, config, story};

async fn ready(node: &mut Node, extender: &str) -> String {
    node.source(&config(extender));
    if !node.is_running() {
        node.start();
    }
    node.until_report("applying", 30, |report| report.node_state.phase != Phase::Ready).await;
    node.until(Phase::Ready, 120).await;
    node.revision().expect("ours")
}

#[test]
fn a_reset_watch_does_not_leave_the_agent_blind() {
    story(|mut node| async move {
        let revision = ready(&mut node, "one").await;
        node.api.reset_watches();
        node.pass(60).await;
        assert_eq!(node.phase(), Phase::Ready, "{}", node.message());
        node.stop().await.expect("it ends");
        assert_eq!(node.revision(), Some(revision), "what was proven stays");
    });
}

#[test]
fn a_reset_watch_in_a_trial_is_no_reason_to_roll_back() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.pass(20).await;
        node.api.reset_watches();
        node.api.mute_watches(true);
        node.until(Phase::Ready, 60).await;
        assert!(node.journal().bad.is_empty());
    });
}

#[test]
fn an_api_that_hangs_is_no_evidence_against_a_revision() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        let revision = node.revision();
        node.api.set_fault(Fault::Hang);
        node.pass(2_000).await;
        assert_eq!((node.phase(), node.revision()), (Phase::Unknown, revision.clone()), "{}", node.message());
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
        node.api.set_fault(Fault::None);
        node.until(Phase::Ready, 600).await;
        assert_eq!(node.revision(), revision);
    });
}

#[test]
fn an_api_that_hangs_is_no_reason_to_commit_once_more() {
    story(|mut node| async move {
        node.kubelet.borrow_mut().is_running = false;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        let generation = node.journal().generation;
        node.api.set_fault(Fault::Hang);
        node.pass(1_000).await;
        assert_eq!(node.journal().generation, generation, "no nudge");
        // the time of silence does not count afterwards either
        node.api.set_fault(Fault::None);
        node.pass(60).await;
        assert_eq!(node.journal().generation, generation, "no nudge yet");
        node.pass(60).await;
        assert_eq!(node.journal().generation, generation + 1, "the kubelet has not noticed for 90 s");
    });
}

#[test]
fn a_kubelet_that_does_not_report_is_no_evidence_against_a_revision() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.kubelet.borrow_mut().is_running = false;
        node.start();
        node.until(Phase::Verifying, 60).await;
        let (revision, generation) = (node.revision(), node.journal().generation);
        node.api.set_node_ready(NAME, false);
        node.pass(3_000).await;
        assert_eq!((node.revision(), node.journal().generation), (revision, generation), "{}", node.message());
        assert_ne!(node.phase(), Phase::Ready);
        node.api.set_node_ready(NAME, true);
        node.kubelet.borrow_mut().is_running = true;
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn two_lost_leases_during_a_trial_do_not_ban_a_configuration() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        for _ in 0..3 {
            node.pass(25).await;
            node.kubelet.borrow_mut().end(crate::kubelet::LOST_LEASE);
        }
        node.until(Phase::Ready, 400).await;
        assert!(node.journal().bad.is_empty());
    });
}

#[test]
fn errors_of_the_api_during_a_trial_change_nothing() {
    for fault in
        [401, 403, 404, 409, 410, 429, 500, 503].map(Fault::Code).into_iter().chain([Fault::Refuse, Fault::Slow(9_000)])
    {
        story(|mut node| async move {
            node.source(&config("one"));
            node.start();
            node.until(Phase::Verifying, 60).await;
            let revision = node.revision();
            node.api.set_fault(fault);
            node.pass(700).await;
            assert_eq!(node.revision(), revision, "{fault:?}: {}", node.message());
            assert!(node.journal().bad.is_empty(), "{fault:?}");
            node.api.set_fault(Fault::None);
            node.until(Phase::Ready, 600).await;
        });
    }
}

#[test]
fn an_api_that_shows_somebody_elses_pod_proves_nothing() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.api.set_fault(Fault::WrongPods);
        node.pass(80).await;
        assert_ne!(node.phase(), Phase::Ready);
        node.api.set_fault(Fault::None);
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_scheduler_that_dies_while_the_api_is_away_is_not_blamed_on_the_revision() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        let revision = node.revision();
        node.api.set_fault(Fault::Refuse);
        node.pass(3_000).await;
        assert_eq!(node.revision(), revision);
        node.api.set_fault(Fault::None);
        node.until(Phase::Ready, 900).await;
        assert!(node.journal().bad.is_empty());
    });
}

#[test]
fn nothing_new_is_begun_unless_the_api_answers_and_lists_this_node() {
    for (nodes, fault, reason) in [
        (vec![NAME], Fault::NoNodes, "NotListed"),
        (vec!["other"], Fault::None, "NotListed"),
        (vec![NAME], Fault::Refuse, "ApiAway"),
        (vec![NAME], Fault::Hang, "ApiAway"),
    ] {
        story(|mut node| async move {
            node.api = crate::api::Api::new(&nodes);
            node.api.set_fault(fault);
            node.source(&config("one"));
            node.start();
            let report = node.until_report(reason, 60, |report| report.node_state.reason == reason).await;
            assert!([Phase::Blocked, Phase::Waiting].contains(&report.node_state.phase));
            node.pass(900).await;
            assert_eq!(node.manifest(), MANIFEST, "{nodes:?} {fault:?}");
        });
    }
}

#[test]
fn an_agent_with_a_wrong_node_name_creates_no_node() {
    story(|mut node| async move {
        node.api = crate::api::Api::new(&[]);
        node.source(&config("one"));
        node.start();
        node.pass(300).await;
        assert_eq!(node.api.node(NAME), None);
    });
}

#[test]
fn the_node_says_what_the_agent_says() {
    story(|mut node| async move {
        ready(&mut node, "one").await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let annotations = node.api.node(NAME).expect("it is there")["metadata"]["annotations"].clone();
        assert_eq!(annotations["schedpatch.io/phase"], Value::from("Ready"));
        assert_eq!(annotations["schedpatch.io/revision"].as_str().map(str::to_owned), node.revision());
    });
}

#[test]
fn a_kubelet_that_falls_silent_in_the_middle_is_no_evidence_either() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.pass(13).await;
        // the pod is shown, and never again
        node.kubelet.borrow_mut().is_running = false;
        node.api.set_node_ready(NAME, false);
        let revision = node.revision();
        node.pass(3_000).await;
        assert_eq!(node.revision(), revision, "{}", node.message());
        assert!(node.journal().bad.is_empty(), "{:?}", node.journal().bad);
        assert_ne!(node.phase(), Phase::Ready, "nor is it proof");
        node.kubelet.borrow_mut().is_running = true;
        node.api.set_node_ready(NAME, true);
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_node_in_trouble_asks_the_api_ever_less_often() {
    for fault in [Fault::Code(403), Fault::Hang, Fault::None] {
        story(|mut node| async move {
            node.kubelet.borrow_mut().has_registry = false;
            node.write_manifest(&MANIFEST.replace("v1.36.1", crate::kubelet::NEW_IMAGE));
            node.source(&config("one"));
            node.start();
            node.pass(300).await;
            node.api.set_fault(fault);
            node.pass(300).await;
            let before = node.api.questions();
            node.pass(3_600).await;
            let asked = node.api.questions() - before;
            // by the watches, the agent, who keeps its turn, and the reporter
            assert!(asked <= 1_000, "{asked} questions in an hour, {fault:?}: {}", node.message());
        });
    }
}

#[test]
fn an_agent_that_waits_for_an_answer_ends_at_once() {
    story(|mut node| async move {
        let revision = ready(&mut node, "one").await;
        node.api.set_fault(Fault::Hang);
        node.source(&config("two"));
        node.pass(1).await;
        let began = tokio::time::Instant::now();
        node.stop().await.expect("it ends");
        assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
        assert_eq!(node.revision(), Some(revision), "what was proven stays");
    });
}
