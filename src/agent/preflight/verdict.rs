//! What follows from a preflight: the way is open, a revision gets its mark, or it is tried again later.

use std::time::Duration;

use super::{ASK_INTERVAL, Gate, Pause, Subject, changed_meanwhile, closed};
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
/// After so many preflights in a row that somebody removed, nothing follows from the next.
const MAX_VANISHED: u32 = 3;
/// The way out where something new waits for a verdict, and where a way back does.
const WITHOUT: &str = "To go on without it: --preflight none";
const BY_HAND: &str = "To go on without it: run schedpatch restore in the agent's pod on this node";

impl Agent {
    /// Judges the preflight that goes on, and does what follows.
    pub(super) async fn judge_preflight(&mut self, seen: &Seen, subject: &Subject<'_>) -> Gate {
        let planned = subject.planned;
        let now = self.now();
        let Some(running) = &mut self.preflights.running else { return Gate::Open };
        let (mut state, age) = running.observer.latest();
        // who acts on an end has asked, and the API answered
        if age > ASK_INTERVAL || matches!(state, PreflightState::Away(_) | PreflightState::Ended(_)) {
            state = running.observer.ask().await;
        }
        let is_removed = seen.taken > running.begun && !seen.snapshot.facts.preflights.contains(&running.path);
        let verdict = match running.trial.judge(&state, now) {
            PreflightVerdict::Wait(_) | PreflightVerdict::Obstructed(_) if is_removed => PreflightVerdict::Vanished,
            verdict => verdict,
        };
        let control = running.control.clone();
        match (verdict, control) {
            (PreflightVerdict::Wait(words), _) => {
                let node_state = NodeState::new(Phase::Preflight, "Preflight", words);
                closed(node_state, ASK_INTERVAL)
            }
            (PreflightVerdict::Obstructed(words), _) => {
                let message = format!(
                    "the preflight cannot be started: {words}; the scheduler runs as before, and the kubelet keeps trying"
                );
                closed(NodeState::new(Phase::Blocked, "PreflightObstructed", message), ASK_INTERVAL)
            }
            (PreflightVerdict::Passed(image), None) => {
                self.end_preflight();
                let image = image.map_or_else(String::new, |image| format!(" (image {image})"));
                tracing::info!("the scheduler accepts the new text{image}");
                self.pass(planned.manifest.tried, true)
            }
            (PreflightVerdict::Refused(words), None) if planned.changes_image && subject.cannot_be_judged(seen) => {
                self.end_preflight();
                let why = format!("even the scheduler that runs fails in a preflight on this host; this one: {words}");
                // the image is there, and more cannot be had
                if subject.is_restore() { self.go_anyway(subject, &why) } else { self.without_verdict(subject, &why) }
            }
            (PreflightVerdict::Refused(words), None) if planned.changes_image => self.refuse(seen, subject, &words),
            (PreflightVerdict::Refused(words), None) => self.try_current(subject, words),
            // what runs passes, so the words are about what is new
            (PreflightVerdict::Passed(_), Some(words)) => self.refuse(seen, subject, &words),
            (PreflightVerdict::Refused(_), Some(words)) => self.cannot_judge(subject, &words),
            (PreflightVerdict::Vanished, _) if self.preflights.vanished < MAX_VANISHED => {
                self.preflights.running = None;
                self.preflights.vanished += 1;
                Gate::Again
            }
            (PreflightVerdict::Vanished, _) => {
                self.end_preflight();
                self.preflights.vanished = 0;
                self.without_verdict(subject, "somebody removes its file each time")
            }
            (PreflightVerdict::Unjudged(why), _) => {
                self.end_preflight();
                self.without_verdict(subject, &why)
            }
        }
    }

    /// The scheduler refused the new text: tries the text in place the same way, to know whether a preflight can judge here.
    fn try_current(&mut self, subject: &Subject<'_>, words: String) -> Gate {
        let Subject { target, planned, .. } = subject;
        let (attempt, deadline) = (planned.manifest.attempt + 1, RUNS_FOR.as_secs());
        let run = PreflightRun { subject: "current", attempt, deadline };
        let Ok(Some(manifest)) = target.kind.preflight(&target.text, &run) else {
            return self.without_verdict(subject, "the text in place cannot be tried");
        };
        self.preflights.running = None;
        match self.start(&manifest, Direction::Judge, None) {
            Ok(false) => closed(changed_meanwhile(), ASK_INTERVAL),
            Ok(true) => {
                self.follow(target, &manifest, planned.manifest.tried, Some(words));
                let message = "the scheduler refuses the new text; the agent tries the text in place, to be sure";
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
                 less often. {BY_HAND}"
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
        let way_out = if subject.direction == Direction::Apply { WITHOUT } else { BY_HAND };
        let message = format!(
            "the preflight of another image gave no verdict: {why}; the scheduler runs as before, and the agent tries again, less \
             and less often. {way_out}"
        );
        self.pause(subject, NodeState::new(Phase::Blocked, "PreflightUnclear", message))
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

    fn pass(&mut self, tried: Digest, is_accepted: bool) -> Gate {
        (self.preflights.open, self.preflights.pause, self.preflights.vanished) = (Some((tried, is_accepted)), None, 0);
        Gate::Open
    }
}

impl Subject<'_> {
    /// Whether a preflight was seen to say nothing with this original.
    fn cannot_be_judged(&self, seen: &Seen) -> bool {
        let original = self.plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
        original.is_some() && seen.journal.preflights.cannot_judge == original
    }
}
