//! The judgement of a preflight over time. Pure: what was seen and the time since some moment come in, and time without answers
//! does not count.

use std::time::Duration;

use crate::target::{PreflightEnd, PreflightState};

/// A kubelet that works notices a manifest in this time.
const NOTICED: Duration = Duration::from_mins(1);
/// A scheduler that checks its configuration ends long before this; one that goes on ignores the flag, or waits for something.
pub const RUNS_FOR: Duration = Duration::from_mins(1);
/// A longer gap between two answers counts as this.
const LONGEST_GAP: Duration = Duration::from_secs(15);
/// Exit codes from here on mean that a signal ended the program: that says nothing about its configuration.
const BY_SIGNAL: i32 = 128;
/// But for this one, with which programs end that log a fatal error.
const FATAL: i32 = 255;

/// A preflight that goes on.
#[derive(Clone, Debug)]
pub struct PreflightTrial {
    /// So long it may take until its image is there and it ends
    timeout: Duration,
    /// When the API answered last; none after a question that it did not answer
    last_answer: Option<Duration>,
    /// Time between answers
    asked: Duration,
    /// The same since the preflight was seen to run; none before
    ran: Option<Duration>,
    /// Whether it was seen at all
    is_noticed: bool,
    /// Whether the API did not answer a question
    was_away: bool,
}

/// What a preflight comes to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreflightVerdict {
    /// Nothing yet, for this reason
    Wait(String),
    /// It cannot be started now, for this reason; that may change
    Obstructed(String),
    /// The scheduler accepts it; the digest of the image, where it is known
    Passed(Option<String>),
    /// The scheduler refuses it, in its own words
    Refused(String),
    /// Somebody removed it before it ended: it must begin anew
    Vanished,
    /// The kubelet did not start it in all the time that it had, for this reason
    NotStarted(String),
    /// It was started and did not end, for this reason
    Endless(String),
    /// Nothing follows from it, for this reason
    Unjudged(String),
}

impl PreflightTrial {
    /// A preflight that was just begun.
    pub fn new(timeout: Duration) -> Self {
        Self { timeout, last_answer: None, asked: Duration::ZERO, ran: None, is_noticed: false, was_away: false }
    }

    /// The API did not answer something else.
    pub fn note_away(&mut self) {
        self.was_away = true;
    }

    /// Whether the API was away meanwhile: a plugin that asks it may have ended the scheduler for that reason alone.
    pub fn was_away(&self) -> bool {
        self.was_away
    }

    /// Judges what is seen `now`.
    pub fn judge(&mut self, seen: &PreflightState, now: Duration) -> PreflightVerdict {
        if let PreflightState::Away(why) = seen {
            self.last_answer = None;
            self.note_away();
            return PreflightVerdict::Wait(format!("the API does not say what became of the preflight: {why}"));
        }
        if *seen == PreflightState::Unanswered {
            return PreflightVerdict::Wait("the API has not been heard of the preflight yet".to_owned());
        }
        let gap = self.last_answer.map_or(Duration::ZERO, |last| now.saturating_sub(last)).min(LONGEST_GAP);
        self.last_answer = Some(now);
        self.asked += gap;
        let is_late = self.asked >= self.timeout;
        let shown = self.timeout.as_secs();
        match seen {
            PreflightState::Absent if self.is_noticed => PreflightVerdict::Vanished,
            PreflightState::Absent if self.asked >= NOTICED => {
                let message = format!("the kubelet did not show its pod in {} s", NOTICED.as_secs());
                PreflightVerdict::Unjudged(message)
            }
            PreflightState::Unanswered | PreflightState::Away(_) | PreflightState::Absent => {
                PreflightVerdict::Wait("the kubelet has not noticed the preflight yet".to_owned())
            }
            PreflightState::Rejected(words) if self.is_noticed && self.ran.is_none() => {
                PreflightVerdict::NotStarted(words.clone())
            }
            PreflightState::Rejected(words) => {
                PreflightVerdict::Unjudged(format!("the kubelet did not run it: {words}"))
            }
            PreflightState::Ended(end) => verdict(end),
            PreflightState::Running => {
                self.is_noticed = true;
                let ran = self.ran.map_or(Duration::ZERO, |ran| ran + gap);
                self.ran = Some(ran);
                if ran < RUNS_FOR {
                    return PreflightVerdict::Wait("the scheduler checks the configuration".to_owned());
                }
                let message = format!(
                    "the scheduler did not end within {} s: a plugin may wait for something, or the program ignores --write-config-to",
                    RUNS_FOR.as_secs()
                );
                PreflightVerdict::Endless(message)
            }
            PreflightState::Starting(words) | PreflightState::Obstructed(words) if is_late => {
                PreflightVerdict::NotStarted(format!("it did not start within {shown} s: {words}"))
            }
            PreflightState::Starting(words) => {
                self.is_noticed = true;
                PreflightVerdict::Wait(format!("the kubelet starts it: {words}"))
            }
            PreflightState::Obstructed(words) => {
                self.is_noticed = true;
                PreflightVerdict::Obstructed(words.clone())
            }
        }
    }
}

/// What an end says: an end by a signal is nobody's word.
fn verdict(end: &PreflightEnd) -> PreflightVerdict {
    let is_own_end = (1..BY_SIGNAL).contains(&end.code) || end.code == FATAL;
    if end.code == 0 {
        PreflightVerdict::Passed(end.image.clone())
    } else if is_own_end || end.is_start_error {
        PreflightVerdict::Refused(end.words.clone())
    } else {
        PreflightVerdict::Unjudged(format!("something else ended it: {}", end.words))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIMEOUT: Duration = Duration::from_mins(10);

    fn ended(code: i32, is_start_error: bool) -> PreflightState {
        let words = "words".to_owned();
        PreflightState::Ended(PreflightEnd { code, is_start_error, words, image: None })
    }

    fn secs(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    /// Judges the same state every five seconds, up to a time.
    fn last(state: &PreflightState, until: u64) -> PreflightVerdict {
        let mut trial = PreflightTrial::new(TIMEOUT);
        (0..=until).step_by(5).map(|now| trial.judge(state, secs(now))).last().expect("a verdict")
    }

    #[test]
    fn only_an_end_of_its_own_is_the_schedulers_word() {
        let of = |code, is_start_error| last(&ended(code, is_start_error), 0);
        assert_eq!(of(0, false), PreflightVerdict::Passed(None));
        for code in [1, 2, 126, 127, 255] {
            assert_eq!(of(code, false), PreflightVerdict::Refused("words".to_owned()), "{code}");
        }
        assert_eq!(of(128, true), PreflightVerdict::Refused("words".to_owned()), "a wrong path of the program");
        for code in [128, 137, 139, 143] {
            assert!(matches!(of(code, false), PreflightVerdict::Unjudged(_)), "{code}");
        }
        let full = PreflightState::Rejected("OutOfpods".to_owned());
        assert!(matches!(last(&full, 0), PreflightVerdict::Unjudged(_)));
    }

    #[test]
    fn it_waits_for_the_kubelet_for_a_minute_of_answers() {
        assert!(matches!(last(&PreflightState::Absent, 55), PreflightVerdict::Wait(_)));
        assert!(matches!(last(&PreflightState::Absent, 60), PreflightVerdict::Unjudged(_)));
        let mut trial = PreflightTrial::new(TIMEOUT);
        for now in (0..600).step_by(10) {
            assert!(matches!(trial.judge(&PreflightState::Absent, secs(now)), PreflightVerdict::Wait(_)));
            trial.judge(&PreflightState::Away("gone".to_owned()), secs(now + 5));
        }
        let mut trial = PreflightTrial::new(TIMEOUT);
        trial.judge(&PreflightState::Absent, secs(0));
        let after_a_stall = trial.judge(&PreflightState::Absent, secs(3600));
        assert!(matches!(after_a_stall, PreflightVerdict::Wait(_)), "an hour without a look is no hour of answers");
    }

    #[test]
    fn an_image_may_take_minutes_and_a_run_may_not() {
        let pulling = PreflightState::Starting("ContainerCreating".to_owned());
        assert!(matches!(last(&pulling, 595), PreflightVerdict::Wait(_)));
        assert!(matches!(last(&pulling, 600), PreflightVerdict::NotStarted(_)));
        let failing = PreflightState::Obstructed("ErrImagePull".to_owned());
        assert_eq!(last(&failing, 595), PreflightVerdict::Obstructed("ErrImagePull".to_owned()));
        assert!(matches!(last(&failing, 600), PreflightVerdict::NotStarted(_)));
        assert!(matches!(last(&PreflightState::Running, 55), PreflightVerdict::Wait(_)));
        assert!(matches!(last(&PreflightState::Running, 60), PreflightVerdict::Endless(_)));
        let mut trial = PreflightTrial::new(TIMEOUT);
        (0..500).step_by(5).for_each(|now| drop(trial.judge(&pulling, secs(now))));
        assert!(matches!(trial.judge(&PreflightState::Running, secs(500)), PreflightVerdict::Wait(_)));
    }

    #[test]
    fn a_pod_that_the_kubelet_gives_up_before_it_ran_did_not_start() {
        let late = PreflightState::Rejected("DeadlineExceeded".to_owned());
        let mut trial = PreflightTrial::new(TIMEOUT);
        trial.judge(&PreflightState::Obstructed("ErrImagePull".to_owned()), secs(0));
        assert_eq!(trial.judge(&late, secs(5)), PreflightVerdict::NotStarted("DeadlineExceeded".to_owned()));
        let mut trial = PreflightTrial::new(TIMEOUT);
        trial.judge(&PreflightState::Running, secs(0));
        assert!(matches!(trial.judge(&late, secs(5)), PreflightVerdict::Unjudged(_)), "its image is there");
    }

    #[test]
    fn an_api_that_does_not_answer_is_remembered_from_the_first_question_on() {
        let away = PreflightState::Away("refused".to_owned());
        for states in [[away.clone(), PreflightState::Running], [PreflightState::Running, away]] {
            let mut trial = PreflightTrial::new(TIMEOUT);
            trial.judge(&PreflightState::Unanswered, secs(0));
            assert!(!trial.was_away(), "the first answer has not come yet");
            for (at, state) in (1..).zip(&states) {
                trial.judge(state, secs(at));
            }
            trial.judge(&ended(1, false), secs(3));
            assert!(trial.was_away(), "{states:?}");
        }
    }

    #[test]
    fn a_pod_that_vanishes_must_begin_anew() {
        let mut trial = PreflightTrial::new(TIMEOUT);
        trial.judge(&PreflightState::Running, secs(1));
        assert_eq!(trial.judge(&PreflightState::Absent, secs(2)), PreflightVerdict::Vanished);
    }
}
