//! The judgement of a commit over time: proven, failed with evidence, or neither yet. Pure: what was seen and the time since
//! some moment come in, and time without answers does not count.

mod service;

use std::collections::BTreeSet;
use std::time::Duration;

use crate::target::{Expectation, Instance, Observation, Obstacle, Running, Waiting};

/// A scheduler that ends twice by itself does not run.
const MAX_ENDS: usize = 2;
/// A pull or a mount may fail once or twice and then work.
const STUCK: Duration = Duration::from_mins(1);
/// How long is long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// So long the scheduler must stay Ready
    pub settle: Duration,
    /// So long it may take
    pub timeout: Duration,
}

/// A commit on trial.
#[derive(Clone, Debug)]
pub struct Trial {
    expected: Expectation,
    limits: Limits,
    /// The instance that failed before; the one that comes back must be another
    failed_instance: Option<String>,
    nudged: bool,
    /// When the API answered last; none after a question that it did not answer
    last_answer: Option<Duration>,
    /// Time between answers of the API; silence does not count
    asked: Duration,
    /// The same, since a scheduler of this commit was seen, or since the beginning
    unnoticed: Duration,
    ready: Option<(String, Duration)>,
    /// What `asked` was when it first was said that the scheduler cannot be started
    stuck: Option<Duration>,
    /// Whether the proof was taken once
    is_confirmed: bool,
    /// How often a service had been started anew by itself when its scheduler last answered, or when the trial began
    restarts: Option<u32>,
    /// The same when the trial began
    restarts_before: Option<u32>,
    /// The start that showed other arguments than these: it has not become ours because the node shows others since
    earlier_instance: Option<String>,
    /// Since when only the host says anything
    alone_since: Option<Duration>,
    /// Instances of the time before the trial, which do not count
    before: Option<BTreeSet<String>>,
    ended: BTreeSet<String>,
    words: Option<String>,
}

/// What can be said now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing yet: in words, and when to look again at the latest
    Wait(String, Duration),
    /// It runs: the instance's id
    Proven(String),
    /// It does not, and this is the evidence
    Failed(Failure),
    /// The new text seems not to have been noticed: commit once more
    Nudge,
    /// The text is in place, and only a person makes it effective: the command
    RestartRequired(String),
    /// Nobody can be asked, for this reason
    Unknown(String),
    /// The same, and the scheduler itself does not answer either
    Dead(String),
}

/// What kind of evidence there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// The scheduler ended by itself, twice
    Ended,
    /// Its image cannot be pulled
    NotPulled,
    /// It cannot be made or started
    NotStarted,
    /// It was not ready in time
    TimedOut,
    /// Nothing of it was seen in time
    NotShown,
    /// The journal says that it failed before
    Before,
}

impl Cause {
    /// In CamelCase, for machines.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Ended => "SchedulerEnds",
            Self::NotPulled | Self::NotStarted => "CannotStart",
            Self::TimedOut | Self::NotShown => "TimedOut",
            Self::Before => "FailedBefore",
        }
    }
}

/// Evidence of failure.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// What kind of evidence
    pub cause: Cause,
    /// In words, with the scheduler's own
    pub message: String,
    /// The instance that failed
    pub instance: Option<String>,
}

impl Trial {
    /// Begins a trial.
    pub fn new(expected: Expectation, limits: Limits, failed_instance: Option<String>) -> Self {
        Self {
            expected,
            limits,
            failed_instance,
            nudged: false,
            last_answer: None,
            asked: Duration::ZERO,
            unnoticed: Duration::ZERO,
            ready: None,
            stuck: None,
            is_confirmed: false,
            restarts: None,
            restarts_before: None,
            earlier_instance: None,
            alone_since: None,
            before: None,
            ended: BTreeSet::new(),
            words: None,
        }
    }

    /// What is expected.
    pub fn expected(&self) -> &Expectation {
        &self.expected
    }

    /// The commit was made once more; what was expected came under another generation.
    #[must_use]
    pub fn nudged(self, expected: Expectation) -> Self {
        Self { nudged: true, ..Self::new(expected, self.limits, self.failed_instance) }
    }

    /// The proof was taken: what comes after it is judged anew.
    pub fn confirmed(&mut self) {
        self.before.get_or_insert_default().append(&mut self.ended);
        (self.asked, self.words, self.last_answer, self.is_confirmed) = (Duration::ZERO, None, None, true);
    }

    /// Whether the scheduler is up, as far as the last answer says.
    pub fn is_ready(&self) -> bool {
        self.ready.is_some()
    }

    /// Whether the proof was taken once.
    pub fn is_confirmed(&self) -> bool {
        self.is_confirmed
    }

    /// Judges what the API answered just now. `healthy`: what the scheduler's own endpoint says, where it was asked.
    pub fn judge(&mut self, observation: &Observation, healthy: Option<bool>, now: Duration) -> Verdict {
        self.count(observation, now);
        if let Some(verdict) = self.judge_service(observation, healthy, now) {
            return verdict;
        }
        match observation {
            Observation::Unasked => Verdict::Unknown("verification is switched off".to_owned()),
            Observation::NotYet => Verdict::Wait("the API is being asked".to_owned(), now + self.limits.timeout),
            Observation::Away(why) | Observation::Local(_, why) => self.judge_locally(why, healthy),
            Observation::Absent => {
                self.ready = None;
                self.judge_unnoticed(self.expected.words.absent, now)
            }
            Observation::Running(running) if !self.is_ours(running) => {
                self.ready = None;
                self.judge_unnoticed(self.expected.words.earlier, now)
            }
            Observation::Running(running) => self.judge_running(running, healthy, now),
        }
    }

    fn count(&mut self, observation: &Observation, now: Duration) {
        let answer = observation.is_answer().then_some(now);
        if let (Some(last), Some(now)) = (self.last_answer, answer) {
            let passed = now.saturating_sub(last);
            self.asked += passed;
            self.unnoticed += passed;
        }
        self.last_answer = answer;
    }

    /// Whether this is the scheduler of the text in place, not that of an earlier one.
    fn is_ours(&self, running: &Running) -> bool {
        let Expectation { revision, generation, config, .. } = &self.expected;
        (&running.revision, &running.generation, &running.config) == (revision, generation, config)
    }

    fn judge_running(&mut self, running: &Running, healthy: Option<bool>, now: Duration) -> Verdict {
        self.unnoticed = Duration::ZERO;
        let Some(instance) = &running.instance else {
            self.ready = None;
            return self.judge_stuck(Cause::NotStarted, "NotStarted", self.expected.words.not_started, now);
        };
        self.note_end(instance);
        let is_other = self.failed_instance.as_ref() != Some(&instance.id);
        if instance.ready && is_other && !instance.id.is_empty() && self.is_healthy(healthy) {
            self.unstick();
            return self.judge_ready(&instance.id, now);
        }
        self.ready = None;
        if self.ended.len() >= MAX_ENDS {
            return self.failed(Cause::Ended, "the scheduler ended twice by itself", instance);
        }
        match &instance.waiting {
            Some(Waiting { obstacle: Some(obstacle), reason, message }) => {
                let cause = if *obstacle == Obstacle::Image { Cause::NotPulled } else { Cause::NotStarted };
                self.judge_stuck(cause, reason, message, now)
            }
            Some(Waiting { reason, .. }) => {
                self.unstick();
                self.judge_time(&format!("the scheduler is waiting: {reason}"), now)
            }
            None => {
                self.unstick();
                self.judge_time("the scheduler is not ready yet", now)
            }
        }
    }

    /// A scheduler without a readiness probe is asked here.
    fn is_healthy(&self, healthy: Option<bool>) -> bool {
        self.expected.has_readiness_probe || healthy == Some(true)
    }

    fn note_end(&mut self, instance: &Instance) {
        let ended = instance.ended.as_ref();
        // a text that stood before comes back with its history
        let is_first = self.before.is_none();
        let before = self.before.get_or_insert_with(BTreeSet::new);
        if let Some((id, words)) = ended {
            if is_first && self.expected.revision.is_none() {
                before.insert(id.clone());
            }
            if !before.contains(id) {
                self.ended.insert(id.clone());
                self.words = Some(words.clone());
            }
        }
    }

    fn judge_ready(&mut self, id: &str, now: Duration) -> Verdict {
        let since = match &self.ready {
            Some((same, since)) if same == id => *since,
            _ => now,
        };
        self.ready = Some((id.to_owned(), since));
        let until = since + self.limits.settle;
        if now >= until {
            return Verdict::Proven(id.to_owned());
        }
        Verdict::Wait("the scheduler is ready; waiting whether it stays so".to_owned(), until)
    }

    /// It starts after all, and has the whole time to get ready.
    fn unstick(&mut self) {
        if self.stuck.take().is_some() {
            self.asked = Duration::ZERO;
        }
    }

    /// What was shown is of some time ago, so it says nothing: the time begins anew.
    pub fn was_stale(&mut self) {
        (self.asked, self.unnoticed, self.last_answer) = (Duration::ZERO, Duration::ZERO, None);
        (self.stuck, self.ready) = (None, None);
    }

    /// A pull that fails alternates between two reasons, so the time counts over both.
    fn judge_stuck(&mut self, cause: Cause, reason: &str, message: &str, now: Duration) -> Verdict {
        let stuck_for = self.asked.saturating_sub(*self.stuck.get_or_insert(self.asked));
        if stuck_for >= STUCK {
            let message = format!("the scheduler was not started for {} s: {reason}: {message}", STUCK.as_secs());
            return Verdict::Failed(Failure { cause, message, instance: None });
        }
        self.judge_time(&format!("the scheduler is not started: {reason}"), now)
            .no_later_than(now + STUCK.saturating_sub(stuck_for))
    }

    fn judge_unnoticed(&mut self, why: &str, now: Duration) -> Verdict {
        if self.nudged || self.expected.revision.is_none() {
            return self.judge_time_for(Cause::NotShown, why, now);
        }
        let verdict = self.judge_time_for(Cause::NotShown, why, now);
        match self.expected.unnoticed_after {
            Some(limit) if self.unnoticed >= limit => Verdict::Nudge,
            Some(limit) => verdict.no_later_than(now + limit.saturating_sub(self.unnoticed)),
            None => verdict,
        }
    }

    fn judge_time(&self, why: &str, now: Duration) -> Verdict {
        self.judge_time_for(Cause::TimedOut, why, now)
    }

    fn judge_time_for(&self, cause: Cause, why: &str, now: Duration) -> Verdict {
        let left = self.limits.timeout.saturating_sub(self.asked);
        if left.is_zero() {
            let said = self.words.as_ref().map_or_else(String::new, |words| format!("; it said: {words}"));
            let message = format!("not ready after {} s: {why}{said}", self.limits.timeout.as_secs());
            return Verdict::Failed(Failure { cause, message, instance: None });
        }
        Verdict::Wait(why.to_owned(), now + left)
    }

    /// The API is away. Whatever the scheduler's own endpoint says, that is no evidence: without the API no scheduler runs.
    fn judge_locally(&mut self, why: &str, healthy: Option<bool>) -> Verdict {
        self.ready = None;
        match healthy {
            Some(false) => Verdict::Dead(format!("neither the API nor the scheduler itself answers: {why}")),
            _ => Verdict::Unknown(format!("the API does not answer: {why}")),
        }
    }

    fn failed(&self, cause: Cause, why: &str, instance: &Instance) -> Verdict {
        let said = self.words.as_ref().map_or_else(String::new, |words| format!("; it said: {words}"));
        let instance = Some(instance.id.clone()).filter(|id| !id.is_empty());
        Verdict::Failed(Failure { cause, message: format!("{why}{said}"), instance })
    }
}

impl Verdict {
    fn no_later_than(self, moment: Duration) -> Self {
        match self {
            Self::Wait(why, until) => Self::Wait(why, until.min(moment)),
            other => other,
        }
    }
}
