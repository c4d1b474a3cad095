//! What follows a verdict: record the proof, commit again, roll back, or clear a revision.

use super::rollout::Renewal;
use super::{Agent, FailingOriginal, HEALTH_INTERVAL, RETRY, Rest, Seen, Turn};
use crate::finding::Finding;
use crate::journal::Initiator;
use crate::phase::{NodeState, Phase};
use crate::plan::Direction;
use crate::reconcile;
use crate::revision::Digest;
use crate::verify::{Cause, Failure};

impl Agent {
    /// Records that the text in place was seen to run.
    pub(super) fn prove(&mut self, seen: &Seen) -> Turn {
        let Some(target) = seen.plan.target.as_ref() else { return Turn::Again };
        let proven = reconcile::prove(&self.request(Direction::Judge, Initiator::Agent), &self.env(), target.digest);
        match proven {
            Ok(true) => {
                if let Some(committed) = self.work.committed.take() {
                    let took = self.now().saturating_sub(committed);
                    self.reporting.counts.proof_millis = u64::try_from(took.as_millis()).ok();
                }
                self.reporting.counts.proven = Some((self.options.clock)().as_unix());
                // look again: the journal says what was proven
                Turn::Again
            }
            Ok(false) => {
                let node_state = NodeState::new(Phase::Verifying, "NotYetProven", "the manifest has changed meanwhile");
                Rest { node_state, after: HEALTH_INTERVAL }.into()
            }
            Err(finding) => Rest::blocked(&finding, RETRY).into(),
        }
    }

    /// Commits the text in place once more. Like every commit it needs this node's turn and must follow its renewal at once; without
    /// the turn other nodes may be in the middle of a change, and the trial goes on.
    pub(super) async fn nudge(&mut self, seen: &Seen) -> Turn {
        let deadline = match self.renew_turn().await {
            Renewal::Alone => None,
            Renewal::Renewed(deadline) => Some(deadline),
            Renewal::NotOurs => {
                let message =
                    "the scheduler did not notice the last commit, and it is not this node's turn to commit once more";
                let node_state = NodeState::new(Phase::Verifying, "NotYetProven", message);
                return Rest { node_state, after: HEALTH_INTERVAL * 5 }.into();
            }
        };
        tracing::warn!("this generation was not noticed: committing once more");
        self.reporting.counts.nudges += 1;
        let trial = self.work.trial.take();
        if let Err(finding) = self.write_within(deadline, Direction::Nudge, seen.text()) {
            self.work.trial = trial;
            return Rest::blocked(&finding, RETRY).into();
        }
        let Ok(again) = self.look_at_host() else { return Turn::Again };
        let Some(target) = again.plan.target.as_ref() else { return Turn::Again };
        let expected = target.expectation();
        self.work.trial = trial.map(|(_, trial)| (target.digest, trial.nudged(expected)));
        Turn::Again
    }

    /// Finishes what a commit began, whatever is wanted now and whether or not the sources can be read: the restart that it still
    /// needs, and the proven text that is not in the target yet. Returns whether something was done.
    pub(super) fn finish_commit(&mut self, seen: &Seen) -> bool {
        let must_restart = seen.journal.is_restart_due() && self.now() >= self.work.restart_again_at;
        if !must_restart && !seen.must_keep() {
            return false;
        }
        match self.write(Direction::Judge, Initiator::Agent, None) {
            Ok(outcome) => outcome.receipt.is_some_and(|receipt| receipt.restart_failed.is_none()),
            Err(finding) => {
                tracing::warn!("cannot finish the last change: {}", NodeState::blocked(&finding).message);
                false
            }
        }
    }

    /// Files that an older version left for everybody to read are closed, whatever else is to be done.
    pub(super) fn tighten(&mut self, seen: &Seen) {
        if seen.plan.exposed.is_empty() {
            return;
        }
        let request = self.request(Direction::Judge, Initiator::Agent);
        if let Err(finding) = reconcile::tighten(&request, &self.env()) {
            tracing::warn!("cannot close files that everybody may read: {}", NodeState::blocked(&finding).message);
        }
    }

    /// The original fails as well: the revision is not at fault, and waits until the original runs.
    pub(super) fn forgive(&mut self, seen: &Seen, failure: &Failure) -> Turn {
        let (Some(revision), Some(text)) = (seen.plan.revision.clone(), seen.text()) else { return Turn::Again };
        let request = self.request(Direction::Judge, Initiator::Agent);
        if let Err(finding) = reconcile::forgive(&request, &self.env(), &revision) {
            return Rest::blocked(&finding, RETRY).into();
        }
        self.work.failing_original = Some(FailingOriginal { text, waiting: revision, reason: failure.message.clone() });
        Turn::Again
    }

    /// Remembers that what is in place could not be started and is not to blame, before it is taken back: the other nodes must know.
    fn note_stop(&self, seen: &Seen, words: &str) -> Result<(), Finding> {
        let Some(digest) = seen.journal.current.as_ref().and_then(|commit| commit.digest) else { return Ok(()) };
        let request = self.request(Direction::Judge, Initiator::Agent);
        reconcile::amend(&request, &self.env(), &|journal| journal.stopped(digest, words)).map(drop)
    }

    /// Takes a revision back that failed. One that ran before the original changed is marked for this original only.
    pub(super) fn roll_back(&mut self, seen: &Seen, failure: Failure) -> Turn {
        let message = &failure.message;
        self.say(Some(seen), NodeState::new(Phase::Applying, "RollingBack", message.clone()));
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
        // where the very revision that was good failed, only the original is left
        let has_run = seen.has_run();
        let direction = if has_run { Direction::Restore } else { Direction::AfterFailure };
        let revision = ours.map_or_else(String::new, |ours| ours.revision.clone());
        let original = seen.journal.original.filter(|_| has_run);
        // an image or a mount that cannot be had is nobody's fault: what is wanted is tried again later
        let is_blameless = matches!(failure.cause, Cause::NotPulled | Cause::NotStarted) && !has_run;
        let (direction, initiator) = if is_blameless && self.member.is_some() {
            if let Err(finding) = self.note_stop(seen, message) {
                return Rest::blocked(&finding, RETRY).into();
            }
            (Direction::LastGood, Initiator::Agent)
        } else {
            let (revision, reason) = (revision.clone(), message.clone());
            (direction, Initiator::AgentAfterFailure { revision, reason, original })
        };
        let written = if failure.cause == Cause::Before {
            self.write_while_bad(direction, initiator, seen.text(), &revision)
        } else {
            self.write(direction, initiator, seen.text())
        };
        match written {
            Ok(outcome) if outcome.receipt.is_some() => {
                self.reporting.counts.rollbacks += 1;
                self.work.failure = Some(failure);
                self.work.came_back = outcome.plan.commit().map(|step| Digest::of_bytes(&step.after));
                Turn::Again
            }
            // somebody was faster: look again at what is in place now
            Ok(outcome) if !outcome.plan.is_refused() => Turn::Again,
            Ok(outcome) => {
                let error = outcome.plan.findings.first().map(NodeState::blocked);
                let message = error.map_or_else(String::new, |error| error.message);
                let node_state = NodeState::new(Phase::Degraded, "CannotRollBack", message);
                Rest { node_state, after: RETRY }.into()
            }
            Err(finding) => {
                let message = NodeState::blocked(&finding).message;
                Rest { node_state: NodeState::new(Phase::Degraded, "CannotRollBack", message), after: RETRY }.into()
            }
        }
    }
}
