//! What counts as proof, what as evidence of failure, and what as neither: the judgement of a commit, as a table.

use std::time::Duration;

use schedpatch::target::static_pod::mirror_pod::{Pod, summarize, why_waiting};
use schedpatch::target::static_pod::{self, StaticPod};
use schedpatch::target::{Expectation, Instance, Observation, Running, TargetKind as _};
use schedpatch::verify::{Limits, Trial, Verdict};
use serde_json::json;

const MANIFEST: &str = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
const CONFIG: &str = "/var/lib/schedpatch/revisions/abc/config.yaml";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn expected(has_readiness_probe: bool) -> Expectation {
    Expectation {
        revision: Some("abc".to_owned()),
        generation: Some(7),
        config: Some(CONFIG.to_owned()),
        has_readiness_probe,
        ..StaticPod.expectation(&static_pod::read(MANIFEST).expect("the example is sound"))
    }
}

/// A manifest that carries nothing of ours.
fn original() -> Expectation {
    Expectation { revision: None, generation: None, config: None, ..expected(true) }
}

fn trial(expected: Expectation) -> Trial {
    Trial::new(expected, Limits { settle: seconds(10), timeout: seconds(300) }, None)
}

fn pod_of(expected: &Expectation, instance: Option<Instance>) -> Observation {
    let Expectation { revision, generation, config, .. } = expected.clone();
    Observation::Running(Running { revision, generation, config, instance })
}

fn ready(id: &str) -> Instance {
    Instance { id: id.to_owned(), ready: true, ..Instance::default() }
}

fn crashed(id: &str, words: &str) -> Instance {
    let waiting = Some(why_waiting("CrashLoopBackOff", ""));
    Instance {
        id: id.to_owned(),
        ready: false,
        waiting,
        ended: Some((id.to_owned(), words.to_owned())),
        restarts: None,
        image: None,
    }
}

fn waiting(reason: &str) -> Instance {
    Instance { waiting: Some(why_waiting(reason, "why")), ..Instance::default() }
}

fn is_waiting(verdict: &Verdict) -> bool {
    matches!(verdict, Verdict::Wait(..))
}

fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Failed(failure) => failure.cause.reason(),
        other => panic!("not failed: {other:?}"),
    }
}

#[test]
fn proof_is_the_same_container_ready_through_settle() {
    let mut trial = trial(expected(true));
    let one = pod_of(&expected(true), Some(ready("one")));
    assert_eq!(trial.judge(&one, None, seconds(20)), wait_until(30));
    assert_eq!(trial.judge(&one, None, seconds(29)), wait_until(30));
    assert_eq!(trial.judge(&one, None, seconds(30)), Verdict::Proven("one".to_owned()));
}

fn wait_until(moment: u64) -> Verdict {
    Verdict::Wait("the scheduler is ready; waiting whether it stays so".to_owned(), seconds(moment))
}

#[test]
fn an_interrupted_settle_starts_anew() {
    let expected = expected(true);
    for interruption in [
        pod_of(&expected, Some(Instance { ready: false, ..ready("one") })),
        pod_of(&expected, Some(ready("two"))),
        pod_of(&expected, None),
        Observation::Absent,
        Observation::Away("refused".to_owned()),
    ] {
        let mut trial = trial(expected.clone());
        let one = pod_of(&expected, Some(ready("one")));
        assert!(is_waiting(&trial.judge(&one, None, seconds(0))));
        let _ = trial.judge(&interruption, None, seconds(5));
        assert!(is_waiting(&trial.judge(&one, None, seconds(10))), "{interruption:?}");
        assert_eq!(trial.judge(&one, None, seconds(20)), Verdict::Proven("one".to_owned()));
    }
}

#[test]
fn a_pod_that_differs_in_anything_is_not_ours() {
    let right = expected(true);
    for wrong in [
        Expectation { revision: Some("other".to_owned()), ..right.clone() },
        Expectation { generation: Some(6), ..right.clone() },
        Expectation { config: Some("/elsewhere".to_owned()), ..right.clone() },
        original(),
    ] {
        let mut trial = trial(right.clone());
        for at in [0, 60] {
            let verdict = trial.judge(&pod_of(&wrong, Some(ready("one"))), None, seconds(at));
            assert!(is_waiting(&verdict), "{wrong:?}: {verdict:?}");
        }
    }
}

#[test]
fn two_ends_are_failure_and_the_schedulers_words_are_told() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(crashed("one", "first"))), None, seconds(15))));
    // the same end, seen again
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(crashed("one", "first"))), None, seconds(16))));
    match trial.judge(&pod_of(&expected, Some(crashed("two", "unknown flag: --x"))), None, seconds(27)) {
        Verdict::Failed(failure) => {
            assert_eq!((failure.cause.reason(), failure.instance.as_deref()), ("SchedulerEnds", Some("two")));
            assert!(failure.message.ends_with("it said: unknown flag: --x"), "{}", failure.message);
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_lost_lease_is_no_failure() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    // as kube-scheduler logs it, and as it did long ago
    let real = "E1117 19:22:03.123456       1 server.go:306] \"Leaderelection lost\"";
    for (id, words) in [("one", real), ("two", real), ("three", "leaderelection lost")] {
        let ended = json!({ "terminated": { "exitCode": 1, "reason": "Error", "message": words, "containerID": id } });
        let status = json!({ "name": "kube-scheduler", "ready": false, "containerID": id, "lastState": ended });
        let pod = json!({ "metadata": {}, "status": { "containerStatuses": [status] } });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let instance = summarize(&pod, "kube-scheduler").instance;
        assert_eq!(instance.as_ref().map(|instance| instance.id.as_str()), Some(id));
        let verdict = trial.judge(&pod_of(&expected, instance), None, seconds(15));
        assert!(is_waiting(&verdict), "{verdict:?}");
    }
}

#[test]
fn the_history_of_a_pod_that_comes_back_does_not_count() {
    let (expected, mut trial) = (original(), trial(original()));
    let back = Instance { ended: Some(("old".to_owned(), "terminated".to_owned())), ..ready("new") };
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(back.clone())), None, seconds(0))));
    let one = Instance { ready: false, ended: Some(("new".to_owned(), "oops".to_owned())), ..ready("next") };
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(one)), None, seconds(1))), "one end is not two");
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(back)), None, seconds(2))));
}

#[test]
fn the_container_that_failed_is_no_proof_of_the_way_back() {
    let expected = original();
    let limits = Limits { settle: Duration::ZERO, timeout: seconds(300) };
    let mut trial = Trial::new(expected.clone(), limits, Some("failed".to_owned()));
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(ready("failed"))), None, seconds(0))));
    let verdict = trial.judge(&pod_of(&expected, Some(ready("another"))), None, seconds(1));
    assert_eq!(verdict, Verdict::Proven("another".to_owned()));
}

#[test]
fn image_and_mount_errors_count_after_a_minute() {
    for container in [Some(waiting("ErrImagePull")), Some(waiting("CreateContainerError")), None] {
        let (expected, mut trial) = (expected(true), trial(expected(true)));
        let observation = pod_of(&expected, container);
        for at in [10, 69] {
            assert!(is_waiting(&trial.judge(&observation, None, seconds(at))), "{observation:?} at {at}");
        }
        assert_eq!(reason(trial.judge(&observation, None, seconds(70))), "CannotStart", "{observation:?}");
    }
}

#[test]
fn an_image_that_comes_after_all_is_no_failure() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    let stuck = pod_of(&expected, Some(waiting("ImagePullBackOff")));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(0))));
    assert!(is_waiting(&trial.judge(&pod_of(&expected, Some(ready("one"))), None, seconds(50))));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(65))), "the minute begins anew");
}

#[test]
fn one_nudge_and_then_time_runs_out() {
    let mut trial = trial(expected(true));
    let old = pod_of(&original(), Some(ready("old")));
    assert!(is_waiting(&trial.judge(&old, None, seconds(0))));
    assert!(is_waiting(&trial.judge(&old, None, seconds(89))));
    assert_eq!(trial.judge(&old, None, seconds(90)), Verdict::Nudge);
    let mut trial = trial.nudged(Expectation { generation: Some(8), ..expected(true) });
    for at in [90, 200, 389] {
        assert!(is_waiting(&trial.judge(&old, None, seconds(at))), "at {at}");
    }
    assert_eq!(reason(trial.judge(&old, None, seconds(390))), "TimedOut");
}

#[test]
fn who_cannot_nudge_any_more_waits_for_the_time_to_pass() {
    let (expected, old) = (expected(true), Observation::Absent);
    for mut trial in
        [trial(expected.clone()).nudged(expected.clone()), trial(Expectation { revision: None, ..expected })]
    {
        let _ = trial.judge(&old, None, seconds(0));
        let Verdict::Wait(_, until) = trial.judge(&old, None, seconds(100)) else { panic!("nothing is known") };
        assert_eq!(until, seconds(300), "looking again at once would help nobody");
    }
}

#[test]
fn time_in_which_nobody_answered_does_not_count() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    let starting = pod_of(&expected, Some(Instance { ready: false, ..ready("one") }));
    assert!(is_waiting(&trial.judge(&starting, None, seconds(0))));
    let away = Observation::Away("refused".to_owned());
    assert!(matches!(trial.judge(&away, Some(true), seconds(100)), Verdict::Unknown(_)));
    assert!(matches!(trial.judge(&away, Some(true), seconds(5_000)), Verdict::Unknown(_)));
    assert!(is_waiting(&trial.judge(&starting, None, seconds(5_001))));
    assert!(is_waiting(&trial.judge(&starting, None, seconds(5_300))));
    assert_eq!(reason(trial.judge(&starting, None, seconds(5_301))), "TimedOut");
}

#[test]
fn without_the_api_nothing_is_evidence() {
    let mut trial = trial(expected(true));
    let away = Observation::Away("refused".to_owned());
    for at in [0, 300, 100_000] {
        assert!(matches!(trial.judge(&away, Some(false), seconds(at)), Verdict::Dead(_)), "at {at}");
        assert!(matches!(trial.judge(&away, Some(true), seconds(at + 1)), Verdict::Unknown(_)), "at {at}");
    }
}

#[test]
fn silence_does_not_count_for_a_container_that_cannot_start_either() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    let stuck = pod_of(&expected, Some(waiting("CreateContainerError")));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(0))));
    let _ = trial.judge(&Observation::Away("refused".to_owned()), None, seconds(10));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(1_000))));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(1_059))));
    assert_eq!(reason(trial.judge(&stuck, None, seconds(1_060))), "CannotStart");
}

#[test]
fn an_image_that_comes_after_long_leaves_the_whole_time_to_get_ready() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    let stuck = pod_of(&expected, Some(waiting("ImagePullBackOff")));
    assert!(is_waiting(&trial.judge(&stuck, None, seconds(0))));
    assert_eq!(reason(trial.judge(&stuck, None, seconds(2_000))), "CannotStart");
    let starting = pod_of(&expected, Some(Instance { ready: false, ..ready("one") }));
    assert!(is_waiting(&trial.judge(&starting, None, seconds(2_001))));
    assert!(is_waiting(&trial.judge(&starting, None, seconds(2_300))));
    assert_eq!(reason(trial.judge(&starting, None, seconds(2_301))), "TimedOut");
}

#[test]
fn where_nobody_asks_for_the_kubelet_the_scheduler_must_answer() {
    let (expected, mut trial) = (expected(false), trial(expected(false)));
    let one = pod_of(&expected, Some(ready("one")));
    for (at, healthy) in [(0, Some(false)), (20, None), (40, Some(true))] {
        assert!(is_waiting(&trial.judge(&one, healthy, seconds(at))), "at {at}");
    }
    assert_eq!(trial.judge(&one, Some(true), seconds(50)), Verdict::Proven("one".to_owned()));
}

#[test]
fn what_came_after_a_proof_is_judged_anew() {
    let (expected, mut trial) = (expected(true), trial(expected(true)));
    let one = pod_of(&expected, Some(ready("one")));
    let _ = trial.judge(&one, None, seconds(0));
    assert_eq!(trial.judge(&one, None, seconds(10)), Verdict::Proven("one".to_owned()));
    trial.confirmed();
    let end = |id: &str| pod_of(&expected, Some(crashed(id, "oops")));
    assert!(is_waiting(&trial.judge(&end("one"), None, seconds(1_000))));
    assert_eq!(reason(trial.judge(&end("two"), None, seconds(1_020))), "SchedulerEnds");
    let three = pod_of(&expected, Some(ready("three")));
    let _ = trial.judge(&three, None, seconds(1_100));
    assert_eq!(trial.judge(&three, None, seconds(1_110)), Verdict::Proven("three".to_owned()), "it recovered");
}

#[test]
fn who_was_told_to_end_did_not_end_by_itself() {
    for code in [0, 143] {
        let ended = json!({ "terminated": { "exitCode": code, "reason": "Completed", "containerID": "one" } });
        let status = json!({ "name": "kube-scheduler", "ready": false, "containerID": "one", "state": ended });
        let pod: Pod = serde_json::from_value(json!({ "metadata": {}, "status": { "containerStatuses": [status] } }))
            .expect("a pod");
        assert_eq!(summarize(&pod, "kube-scheduler").instance.expect("there").ended, None);
    }
}
