//! What the agent does when it is asked to end.

use super::{Agent, Seen};
use crate::finding::Finding;
use crate::journal::Initiator;
use crate::phase::{NodeState, Phase};
use crate::plan::Direction;
use crate::target::Activation;

impl Agent {
    /// Out of the middle nothing changes; in the middle what ran before comes back, so that whoever comes next finds a node
    /// that schedules.
    pub(super) fn leave(mut self) -> Result<(), Finding> {
        self.end_preflight();
        let seen = self.look_at_host()?;
        // an earlier removal may have failed
        self.sweep_preflights(&seen);
        if !self.is_in_the_middle(&seen) || waits_for_a_person(&seen) {
            tracing::info!("stopping; what is applied stays");
            return Ok(());
        }
        let message = "stopping in the middle of a change: what ran before comes back first";
        self.say(Some(&seen), NodeState::new(Phase::Applying, "RollingBack", message));
        // a proven revision that was put on another original and is not up again yet has no text before it to go back to
        let is_up =
            self.work.trial.as_ref().is_some_and(|(text, trial)| Some(*text) == seen.text() && trial.is_ready());
        let direction = if seen.has_run() && !is_up { Direction::Restore } else { Direction::LastGood };
        let outcome = self.write(direction, Initiator::Agent, seen.text())?;
        outcome.plan.error().cloned().map_or(Ok(()), Err)
    }
}

/// Whether only a person can make effective what is in place, and to take it back again.
fn waits_for_a_person(seen: &Seen) -> bool {
    let target = seen.plan.target.as_ref();
    target.is_some_and(|target| matches!(target.kind.activation(&target.spec), Activation::Person(_)))
}
