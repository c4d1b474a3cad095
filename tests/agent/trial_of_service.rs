//! The judgement of a commit that a service runs, as a table: what its new starts, its scheduler's own answer and the arguments of
//! its process say together.

use std::time::Duration;

use schedpatch::target::{Expectation, Instance, Observation, Running, ServiceExpectation, UNKNOWN_START, Words};
use schedpatch::verify::{Cause, Limits, Trial, Verdict};

const CONFIG: &str = "/var/lib/schedpatch/revisions/abc/config.yaml";
const COMMAND: &str = "systemctl restart k3s";

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn trial(restart_by_hand: Option<&str>) -> Trial {
    let expected = Expectation {
        revision: Some("abc".to_owned()),
        generation: None,
        config: Some(CONFIG.to_owned()),
        has_readiness_probe: false,
        endpoint: String::new(),
        service: Some(ServiceExpectation {
            program: String::new(),
            restart_by_hand: restart_by_hand.map(str::to_owned),
            reads_again: true,
        }),
        unnoticed_after: None,
        words: Words { absent: "absent", earlier: "earlier", not_started: "not started" },
    };
    Trial::new(expected, Limits { settle: seconds(10), timeout: seconds(120) }, None)
}

/// A server whose API answers, with our configuration or another one.
fn up(restarts: u32, is_ours: bool) -> Observation {
    let instance =
        Instance { id: format!("start-{restarts}"), ready: true, restarts: Some(restarts), ..Instance::default() };
    let config = if is_ours { CONFIG } else { "/other/config.yaml" };
    let revision = is_ours.then(|| "abc".to_owned());
    Observation::Running(Running {
        revision,
        config: Some(config.to_owned()),
        instance: Some(instance),
        generation: None,
    })
}

/// One of which only systemd says anything; the configuration is on the command line that it has loaded.
fn down(restarts: u32, loaded: &str) -> Observation {
    let instance = Instance { restarts: Some(restarts), ..Instance::default() };
    let running = Running { instance: Some(instance), config: Some(loaded.to_owned()), ..Running::default() };
    Observation::Local(running, "k3s is activating".to_owned())
}

fn cause(verdict: Verdict) -> Option<Cause> {
    match verdict {
        Verdict::Failed(failure) => Some(failure.cause),
        _ => None,
    }
}

#[test]
fn two_new_starts_without_an_answer_are_failure() {
    let mut trial = trial(None);
    assert_eq!(cause(trial.judge(&down(3, CONFIG), Some(false), seconds(0))), None, "what was before does not count");
    assert_eq!(cause(trial.judge(&down(4, CONFIG), Some(false), seconds(14))), None);
    assert_eq!(cause(trial.judge(&down(5, CONFIG), Some(false), seconds(28))), Some(Cause::Ended));
}

#[test]
fn an_answer_in_between_excuses_the_starts_before_it() {
    let mut trial = trial(None);
    trial.judge(&down(0, CONFIG), Some(false), seconds(0));
    trial.judge(&down(1, CONFIG), Some(false), seconds(14));
    assert!(matches!(trial.judge(&up(1, true), Some(true), seconds(20)), Verdict::Wait(..)));
    assert_eq!(cause(trial.judge(&down(2, CONFIG), Some(false), seconds(28))), None);
    assert!(matches!(trial.judge(&up(2, true), Some(true), seconds(40)), Verdict::Wait(..)));
    assert_eq!(trial.judge(&up(2, true), Some(true), seconds(50)), Verdict::Proven("start-2".to_owned()));
}

#[test]
fn a_server_that_comes_up_again_and_again_and_never_stays_fails() {
    let mut trial = trial(None);
    for start in 0..4 {
        let at = u64::from(start) * 20;
        assert_eq!(cause(trial.judge(&up(start, true), Some(true), seconds(at))), None, "start {start}");
        assert_eq!(cause(trial.judge(&up(start, true), Some(true), seconds(at + 9))), None, "start {start}");
    }
    assert_eq!(cause(trial.judge(&up(4, true), Some(true), seconds(80))), Some(Cause::Ended));
}

#[test]
fn what_was_proven_may_start_anew_as_often_as_it_likes() {
    let mut trial = trial(None);
    trial.judge(&up(0, true), Some(true), seconds(0));
    assert!(matches!(trial.judge(&up(0, true), Some(true), seconds(10)), Verdict::Proven(_)));
    trial.confirmed();
    for start in 1..9 {
        assert_eq!(cause(trial.judge(&up(start, true), Some(true), seconds(10 + u64::from(start) * 3600))), None);
    }
}

#[test]
fn a_server_that_ends_before_a_person_restarts_it_says_nothing_about_the_new_text() {
    for loaded in ["", "/other/config.yaml"] {
        let mut trial = trial(Some(COMMAND));
        assert_eq!(trial.judge(&up(0, false), Some(true), seconds(0)), Verdict::RestartRequired(COMMAND.to_owned()));
        for start in 1..6 {
            let at = seconds(u64::from(start) * 14);
            assert_eq!(cause(trial.judge(&down(start, loaded), Some(false), at)), None, "{loaded:?}, start {start}");
        }
        // the person has: systemd counts from nothing, and these starts do count
        trial.judge(&down(0, CONFIG), Some(false), seconds(100));
        trial.judge(&down(1, CONFIG), Some(false), seconds(114));
        assert_eq!(cause(trial.judge(&down(2, CONFIG), Some(false), seconds(128))), Some(Cause::Ended));
    }
}

#[test]
fn arguments_that_change_without_another_start_are_no_proof() {
    let mut trial = trial(Some(COMMAND));
    let required = Verdict::RestartRequired(COMMAND.to_owned());
    assert_eq!(trial.judge(&up(0, false), Some(true), seconds(0)), required);
    // k3s reads its files once more when it annotates the node, seconds after its scheduler has started
    assert_eq!(trial.judge(&up(0, true), Some(true), seconds(5)), required);
    assert_eq!(trial.judge(&up(0, true), Some(true), seconds(60)), required);
    // and shows the arguments of before for as long after the next start
    assert_eq!(trial.judge(&up(1, false), Some(true), seconds(85)), required);
    assert!(matches!(trial.judge(&up(1, true), Some(true), seconds(90)), Verdict::Wait(..)));
    assert_eq!(trial.judge(&up(1, true), Some(true), seconds(100)), Verdict::Proven("start-1".to_owned()));
}

#[test]
fn where_systemd_cannot_be_asked_the_arguments_alone_say_that_a_person_restarted() {
    let mut trial = trial(Some(COMMAND));
    let seen = |is_ours| match up(0, is_ours) {
        Observation::Running(running) => {
            let instance = Instance { id: UNKNOWN_START.to_owned(), ready: true, ..Instance::default() };
            Observation::Running(Running { instance: Some(instance), ..running })
        }
        other => other,
    };
    assert!(matches!(trial.judge(&seen(false), Some(true), seconds(0)), Verdict::RestartRequired(_)));
    trial.judge(&seen(true), Some(true), seconds(20));
    assert!(matches!(trial.judge(&seen(true), Some(true), seconds(30)), Verdict::Proven(_)));
}

#[test]
fn a_server_that_only_takes_long_is_unknown_and_never_a_failure() {
    let mut trial = trial(None);
    assert!(matches!(trial.judge(&down(0, CONFIG), Some(false), seconds(0)), Verdict::Wait(..)));
    assert!(matches!(trial.judge(&down(0, CONFIG), Some(false), seconds(119)), Verdict::Wait(..)));
    assert!(matches!(trial.judge(&down(0, CONFIG), Some(false), seconds(9000)), Verdict::Dead(_)));
}
