//! What follows from a preflight: the way is open, a revision gets its mark, or it is tried again later.

use std::time::Duration;

use super::{ASK_INTERVAL, Accepted, Doubt, Gate, Pause, Subject, changed_meanwhile, closed};
use crate::agent::{Agent, RETRY, Rest, Seen};
use crate::journal::{Bad, Initiator};
use crate::phase::{NodeState, Phase};
use crate::plan::Direction;
use crate::reconcile;
use crate::revision::Digest;
use crate::target::{PreflightRun, PreflightState};
use crate::verify::{PreflightVerdict, RUNS_FOR};

/// First and longest pause after a preflight that could not be started.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LAST_PAUSE: Duration = Duration::from_mins(10);
/// After this many restarts of the preflight of one text, the agent gives up without a verdict.
const MAX_VANISHED: u32 = 3;
/// The way out where something new waits for a verdict, and where a way back does.
const WITHOUT: &str = "To go on without it: --preflight none";
const BY_HAND: &str = "To go on without it: run schedpatch restore in the agent's pod on this node";

impl Agent {
    /// Judges the preflight that goes on, and does what follows.
    pub(super) async fn judge_preflight(&mut self, seen: &Seen, subject: &Subject<'_>) -> Gate {
        let Some((verdict, control, was_away)) = self.preflight_verdict(seen).await else { return Gate::Open };
        match (verdict, control) {
            (PreflightVerdict::Wait(words), _) => {
                closed(NodeState::new(Phase::Preflight, "Preflight", words), ASK_INTERVAL)
            }
            (PreflightVerdict::Obstructed(words), _) => {
                let message = format!(
                    "the preflight cannot be started: {words}; the scheduler runs as before, and the kubelet keeps trying"
                );
                closed(NodeState::new(Phase::Blocked, "PreflightObstructed", message), ASK_INTERVAL)
            }
            (PreflightVerdict::NotStarted(words), _) => {
                let message = format!("the preflight cannot be started: {words}");
                self.blocked(subject, "PreflightObstructed", &message)
            }
            (PreflightVerdict::Vanished, _) => self.begin_anew(subject, None),
            // a plugin that asks the API may have ended it
            (PreflightVerdict::Refused(words), control) if was_away => {
                let words = control.map_or(words, |doubt| doubt.words().to_owned());
                self.begin_anew(subject, Some(&words))
            }
            (verdict, None) => self.after_first_run(seen, subject, verdict).await,
            (verdict, Some(doubt)) => self.after_control_run(seen, subject, verdict, &doubt),
        }
    }

    /// What the preflight comes to now, why it is a control run if it is one, and whether the API was away meanwhile; nothing where
    /// none goes on.
    async fn preflight_verdict(&mut self, seen: &Seen) -> Option<(PreflightVerdict, Option<Doubt>, bool)> {
        let now = self.now();
        let running = self.preflights.running.as_mut()?;
        let (mut state, age) = running.observer.latest();
        // who acts on an end has asked, and the API answered
        if age > ASK_INTERVAL
            || matches!(state, PreflightState::Unanswered | PreflightState::Away(_) | PreflightState::Ended(_))
        {
            state = running.observer.ask().await;
        }
        let is_removed = seen.taken > running.begun && !seen.snapshot.facts.preflights.contains(&running.path);
        let verdict = match running.trial.judge(&state, now) {
            verdict @ PreflightVerdict::Passed(_) => verdict,
            // the kubelet may have ended it because its file is gone
            _ if is_removed => PreflightVerdict::Vanished,
            verdict => verdict,
        };
        Some((verdict, running.control.clone(), running.trial.was_away()))
    }

    /// Somebody removed the preflight, or the scheduler refused in these words while the API was away: nothing follows from it.
    fn begin_anew(&mut self, subject: &Subject<'_>, refused: Option<&str>) -> Gate {
        self.end_preflight();
        if self.preflights.vanished < MAX_VANISHED {
            self.preflights.vanished += 1;
            return Gate::Again;
        }
        self.preflights.vanished = 0;
        match refused {
            None => self.without_verdict(subject, "somebody removes its file each time"),
            // what the scheduler refused is not applied for that
            Some(words) => {
                let message = format!("{words}; the API went away during each preflight, and a plugin may need it");
                self.blocked(subject, "PreflightUnclear", &message)
            }
        }
    }

    /// The new text was tried.
    async fn after_first_run(&mut self, seen: &Seen, subject: &Subject<'_>, verdict: PreflightVerdict) -> Gate {
        let planned = subject.planned;
        match verdict {
            PreflightVerdict::Passed(image) => {
                self.end_preflight();
                let image = image.map_or_else(String::new, |image| format!(" (image {image})"));
                tracing::info!("the scheduler accepts the new text{image}");
                self.pass(planned.manifest.tried, true)
            }
            PreflightVerdict::Refused(words) if planned.changes_image && subject.cannot_be_judged(seen) => {
                self.end_preflight();
                let why = format!("even the scheduler that runs fails in a preflight on this host; this one: {words}");
                // the image is there, and more cannot be had
                if subject.is_restore() { self.go_anyway(subject, &why) } else { self.without_verdict(subject, &why) }
            }
            PreflightVerdict::Refused(words) if planned.changes_image => self.refuse(seen, subject, &words),
            PreflightVerdict::Refused(words) => self.try_current(subject, Doubt::Refused(words)).await,
            PreflightVerdict::Endless(why) if !planned.changes_image => {
                self.try_current(subject, Doubt::Endless(why)).await
            }
            PreflightVerdict::Unjudged(why) | PreflightVerdict::Endless(why) => {
                self.end_preflight();
                self.without_verdict(subject, &why)
            }
            PreflightVerdict::Wait(_)
            | PreflightVerdict::Obstructed(_)
            | PreflightVerdict::NotStarted(_)
            | PreflightVerdict::Vanished => Gate::Again,
        }
    }

    /// The text in place was tried, after the scheduler did not accept the new one.
    fn after_control_run(
        &mut self,
        seen: &Seen,
        subject: &Subject<'_>,
        verdict: PreflightVerdict,
        doubt: &Doubt,
    ) -> Gate {
        match (verdict, doubt) {
            // what runs passes, so it lies at what is new
            (PreflightVerdict::Passed(_), Doubt::Refused(words)) => self.refuse(seen, subject, words),
            (PreflightVerdict::Passed(_), Doubt::Endless(why)) => {
                let message = format!("the preflight gave no verdict, while that of the text in place ends: {why}");
                self.blocked(subject, "PreflightUnclear", &message)
            }
            (PreflightVerdict::Refused(_) | PreflightVerdict::Endless(_), doubt) => {
                self.cannot_judge(subject, doubt.words())
            }
            // what the scheduler refused is not applied for lack of a second opinion
            (PreflightVerdict::Unjudged(why), doubt) => {
                let words = doubt.words();
                let message = format!("{words}; the preflight of the text in place gave no verdict: {why}");
                self.blocked(subject, "PreflightUnclear", &message)
            }
            (_, _) => Gate::Again,
        }
    }

    /// The scheduler did not accept the new text: tries the text in place the same way, to know whether a preflight can judge here.
    async fn try_current(&mut self, subject: &Subject<'_>, doubt: Doubt) -> Gate {
        if self.is_full().await {
            let message = format!("{}; this node is full, so the text in place cannot be tried too", doubt.words());
            return self.blocked(subject, "PreflightUnclear", &message);
        }
        let Subject { target, planned, .. } = subject;
        let (attempt, deadline) = (planned.manifest.attempt + 1, RUNS_FOR.as_secs() * 2);
        let run = PreflightRun { subject: "current", attempt, deadline };
        let Ok(Some(manifest)) = target.kind.preflight(&target.text, &run) else {
            let message = format!("{}; the text in place cannot be tried too", doubt.words());
            return self.blocked(subject, "PreflightUnclear", &message);
        };
        self.preflights.running = None;
        match self.start(&manifest, Direction::Judge, None) {
            Ok(false) => closed(changed_meanwhile(), ASK_INTERVAL),
            Ok(true) => {
                let message = match &doubt {
                    Doubt::Refused(_) => {
                        "the scheduler refuses the new text; the agent tries the text in place, to be sure"
                    }
                    Doubt::Endless(_) => "the preflight did not end; the agent tries the text in place, to be sure",
                };
                self.follow(target, &manifest, planned.manifest.tried, Some(doubt));
                closed(NodeState::new(Phase::Preflight, "Preflight", message), ASK_INTERVAL)
            }
            Err(finding) => Gate::Closed(Rest::blocked(&finding, RETRY)),
        }
    }

    /// Marks a revision that the scheduler refuses; what runs was never touched.
    fn refuse(&mut self, seen: &Seen, subject: &Subject<'_>, words: &str) -> Gate {
        self.end_preflight();
        self.reporting.counts.preflights_refused += 1;
        let plan = subject.plan;
        let Some(revision) = plan.revision.clone().filter(|_| subject.direction == Direction::Apply) else {
            // what ran once gets no mark: the agent comes back to it
            let message = format!(
                "what ran before is not put back, because the scheduler refuses it now: {words}; the agent tries again, less and \
                 less often. {}",
                subject.way_out()
            );
            return self.pause(subject, NodeState::new(Phase::Blocked, "PreflightFailed", message));
        };
        let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
        let bad = Bad {
            reason: words.to_owned(),
            since: (self.options.clock)(),
            // a revision that ran before is refused with this original only
            original: original.filter(|_| seen.journal.has_proven(&revision)),
            digest: plan.digest,
            retries: seen.journal.retries,
            is_reported: false,
            by_preflight: true,
        };
        tracing::warn!(revision, "the scheduler refuses the new text, which is not applied: {words}");
        let request = self.request(Direction::Judge, Initiator::Agent);
        match reconcile::amend(&request, &self.env(), &|journal| journal.refused(&revision, bad.clone())) {
            Ok(_) => Gate::Again,
            Err(finding) => Gate::Closed(Rest::blocked(&finding, RETRY)),
        }
    }

    /// Even what runs fails in a preflight: it says nothing on this host.
    fn cannot_judge(&mut self, subject: &Subject<'_>, words: &str) -> Gate {
        self.end_preflight();
        let Subject { plan, planned, .. } = subject;
        tracing::warn!("a preflight cannot judge on this host, even the scheduler that runs fails in it: {words}");
        if let Some(original) = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes())) {
            let request = self.request(Direction::Judge, Initiator::Agent);
            let amended = reconcile::amend(&request, &self.env(), &|journal| journal.without_preflight(original));
            if let Err(finding) = amended {
                tracing::warn!("cannot remember that: {}", NodeState::blocked(&finding).message);
            }
        }
        self.pass(planned.manifest.tried, false)
    }

    /// Nothing follows from a preflight: what has the image that runs is applied and verified, another image is not.
    pub(super) fn without_verdict(&mut self, subject: &Subject<'_>, why: &str) -> Gate {
        if !subject.planned.changes_image {
            tracing::warn!("the preflight gave no verdict ({why}); the new text is applied and verified without it");
            return self.pass(subject.planned.manifest.tried, false);
        }
        self.blocked(subject, "PreflightUnclear", &format!("the preflight of another image gave no verdict: {why}"))
    }

    /// Nothing is applied for this reason, until another try succeeds.
    fn blocked(&mut self, subject: &Subject<'_>, reason: &str, why: &str) -> Gate {
        self.end_preflight();
        let message = format!(
            "{why}; the scheduler runs as before, and the agent tries again, less and less often. {}",
            subject.way_out()
        );
        self.pause(subject, NodeState::new(Phase::Blocked, reason, message))
    }

    /// No verdict can be had, and people want our edit out.
    pub(super) fn go_anyway(&mut self, subject: &Subject<'_>, why: &str) -> Gate {
        tracing::warn!("the preflight gave no verdict ({why}); our edit is removed without it");
        self.pass(subject.planned.manifest.tried, true)
    }

    /// Tries the same text again later, and later each time.
    fn pause(&mut self, subject: &Subject<'_>, node_state: NodeState) -> Gate {
        let tried = subject.planned.manifest.tried;
        let times = self.preflights.pause.as_ref().filter(|pause| pause.tried == tried).map_or(0, |pause| pause.times);
        let pause = (FIRST_PAUSE * 2_u32.pow(times.min(5))).min(LAST_PAUSE);
        let until = self.now() + pause;
        self.preflights.pause = Some(Pause { tried, until, times: times + 1, node_state: node_state.clone() });
        closed(node_state, pause)
    }

    fn pass(&mut self, tried: Digest, by_scheduler: bool) -> Gate {
        let open = Accepted { tried, by_scheduler, at: self.now() };
        (self.preflights.open, self.preflights.pause, self.preflights.vanished) = (Some(open), None, 0);
        Gate::Open
    }
}

impl Doubt {
    fn words(&self) -> &str {
        match self {
            Self::Refused(words) | Self::Endless(words) => words,
        }
    }
}

impl Subject<'_> {
    /// What people may do instead of waiting.
    fn way_out(&self) -> &'static str {
        match self.direction {
            Direction::Restore | Direction::Sealed => BY_HAND,
            _ => WITHOUT,
        }
    }

    /// Whether a preflight was seen to say nothing with this original.
    fn cannot_be_judged(&self, seen: &Seen) -> bool {
        let original = self.plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
        original.is_some() && seen.journal.preflights.cannot_judge == original
    }
}
