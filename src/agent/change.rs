//! Writing what is wanted, unless something speaks against it.

use std::time::Duration;

use super::limit::Limit;
use super::others::Others;
use super::{Agent, Permission, RETRY, Rest, Seen, Turn};
use crate::journal::Initiator;
use crate::phase::{Change, NodeState, Phase};
use crate::plan::{Direction, Plan};

/// Commits in a minute, whatever they are for: each restarts a scheduler.
const MAX_COMMITS: usize = 20;
/// More repairs of drift than this within an hour mean that somebody else manages the file.
const MAX_DRIFTS: usize = 3;

/// How often the host was changed, by this agent and by others.
#[derive(Debug)]
pub(super) struct Pace {
    pub commits: Limit,
    pub drifts: Limit,
    pub others: Others,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            commits: Limit::new(MAX_COMMITS, Duration::from_mins(1)),
            drifts: Limit::new(MAX_DRIFTS, Duration::from_hours(1)),
            others: Others::default(),
        }
    }
}

impl Agent {
    /// Writes what is wanted, if nothing speaks against it.
    pub(super) fn change(&mut self, seen: &Seen, change: Change, permission: Permission) -> Turn {
        let is_drift = change != Change::Files
            && seen.journal.current.as_ref().map(|commit| &commit.revision) == seen.plan.revision.as_ref();
        // a way back may be checked, and the plan towards what is wanted takes the preflight's file for a leftover
        let must_not_mend = change == Change::Files && self.preflights.is_running();
        match permission {
            Permission::Denied(rest) if change != Change::Files || must_not_mend => return rest.into(),
            // what ran here before may have failed elsewhere since
            Permission::Away(why) if change == Change::New || change == Change::Known && !is_drift || must_not_mend => {
                let message = format!("nothing new is begun while the API does not answer: {why}");
                let node_state = NodeState::new(Phase::Waiting, "ApiAway", message);
                return Rest { node_state, after: RETRY / 6 }.into();
            }
            Permission::Away(why) if changes_image(&seen.plan) => return image_waits(&why).into(),
            Permission::Denied(_) | Permission::Away(_) | Permission::Free => {}
        }
        if let Some(rest) = self.must_brake(change, is_drift).or_else(|| self.rest_while_not_loaded(change)) {
            return rest.into();
        }
        let (reason, message) = match (is_drift, change) {
            (true, _) => ("Drift", "somebody else changed the manifest; the agent puts our edit back"),
            (false, Change::Files) => ("Mending", "the agent repairs schedpatch's own files"),
            (false, _) => ("NewRevision", "the manifest is being replaced"),
        };
        self.say(Some(seen), NodeState::new(Phase::Applying, reason, message));
        self.work.failure = None;
        match self.write_seen(seen) {
            Ok(outcome) => {
                let receipt = outcome.receipt.as_ref();
                if is_drift && receipt.is_some_and(|receipt| receipt.committed) {
                    self.pace.drifts.note(self.now());
                    self.reporting.counts.drifts += 1;
                }
                if let Some(finding) = receipt.and_then(|receipt| receipt.uncollected.as_ref()) {
                    tracing::warn!(
                        "could not delete unused files, will retry: {}",
                        NodeState::blocked(finding).message
                    );
                    self.last.cleanup_failed_for = seen.text().filter(|_| change == Change::Files);
                }
                Turn::Again
            }
            Err(finding) => Rest::blocked(&finding, RETRY).into(),
        }
    }

    /// Each try of what systemd does not load costs the host two reloads of all its units.
    fn rest_while_not_loaded(&self, change: Change) -> Option<Rest> {
        let (finding, until) = self.work.not_loaded.as_ref().filter(|_| change != Change::Files)?;
        let after = until.saturating_sub(self.now());
        (!after.is_zero()).then(|| Rest::blocked(finding, after))
    }

    /// Why no commit may follow now, whatever it is for.
    pub(super) fn must_brake(&mut self, change: Change, is_drift: bool) -> Option<Rest> {
        if change == Change::Files {
            return None;
        }
        let now = self.now();
        if let Some(after) = self.pace.drifts.wait(now).filter(|_| is_drift) {
            let message = "somebody else keeps rewriting the manifest: find out who manages this file";
            return Some(Rest { node_state: NodeState::new(Phase::Degraded, "ForeignManager", message), after });
        }
        if let Some((after, who)) = self.pace.others.too_many(now) {
            let message = format!(
                "another schedpatch keeps changing this manifest ({who}): two releases on one node? Uninstall one of them"
            );
            return Some(Rest { node_state: NodeState::new(Phase::Degraded, "AnotherSchedpatch", message), after });
        }
        let after = self.pace.commits.wait(now)?;
        let message = format!(
            "the manifest was replaced too often in the last minute; the next change follows in {} s",
            after.as_secs() + 1
        );
        Some(Rest { node_state: NodeState::new(Phase::Waiting, "TooManyChanges", message), after })
    }

    /// Why what was proven last and taken out by somebody else cannot come back.
    pub(super) fn last_good_lost(&self, seen: &Seen) -> Option<NodeState> {
        let good = seen.lost_revision()?;
        let back = match self.look_towards(Direction::LastGood) {
            Ok(back) => back,
            Err(finding) => return Some(NodeState::blocked(&finding)),
        };
        if back.plan.commit().is_some() && back.plan.revision.as_ref() == Some(&good) {
            return None;
        }
        let message = format!(
            "somebody else replaced the manifest by one without revision {good}, which cannot come back because the manifest \
             itself has changed; the scheduler runs without our edit until the configuration can be applied"
        );
        Some(NodeState::new(Phase::Degraded, "LastGoodLost", message))
    }

    /// What was proven last was taken out by somebody else, and what is wanted now cannot be had: the last good text comes back.
    pub(super) fn put_back(&mut self, seen: &Seen, permission: Permission) -> Turn {
        if let Some(after) = self.pace.drifts.wait(self.now()) {
            let message = "somebody else keeps rewriting the manifest: find out who manages this file";
            return Rest { node_state: NodeState::new(Phase::Degraded, "ForeignManager", message), after }.into();
        }
        if let Some(node_state) = self.last_good_lost(seen) {
            return Rest { node_state, after: self.options.resync }.into();
        }
        if let Permission::Away(why) = permission {
            match self.look_towards(Direction::LastGood) {
                Ok(back) if changes_image(&back.plan) => return image_waits(&why).into(),
                Ok(_) => {}
                Err(finding) => return Rest::blocked(&finding, RETRY).into(),
            }
        }
        self.say(
            Some(seen),
            NodeState::new(
                Phase::Applying,
                "Drift",
                "somebody else changed the manifest; the agent puts our edit back",
            ),
        );
        match self.write(Direction::LastGood, Initiator::Agent, None) {
            Ok(outcome) => {
                if outcome.receipt.is_some_and(|receipt| receipt.committed) {
                    self.pace.drifts.note(self.now());
                    self.reporting.counts.drifts += 1;
                }
                Turn::Again
            }
            Err(finding) => Rest::blocked(&finding, RETRY).into(),
        }
    }
}

/// Whether a plan needs a preflight because the scheduler gets another image.
fn changes_image(plan: &Plan) -> bool {
    plan.preflight.as_ref().is_some_and(|planned| planned.changes_image)
}

/// Another image may have gone from the node, which nobody can say while the API does not answer.
fn image_waits(why: &str) -> Rest {
    let message = format!("another image is put back only once the API answers: {why}");
    Rest { node_state: NodeState::new(Phase::Waiting, "ApiAway", message), after: RETRY / 6 }
}
