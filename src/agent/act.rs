//! What the agent does to the host: everything through `reconcile`.

use super::{Agent, ClientHandle, FailingOriginal, HEALTH_INTERVAL, RETRY, Rest, Rollout, Seen, has_run, text_of};
use crate::apply;
use crate::cluster;
use crate::finding::Finding;
use crate::journal::{Initiator, Journal};
use crate::phase::{Change, NodeState, Phase};
use crate::plan::Direction;
use crate::reconcile::{self, Env, Event, Outcome, Request};
use crate::revision::Digest;
use crate::verify::{Cause, Failure};

impl Agent {
    /// Looks at everything and plans towards what is wanted. Whoever replaces the target may be in the middle of that.
    pub(super) async fn look(&self) -> Result<Seen, Finding> {
        for _ in 1..reconcile::MAX_ATTEMPTS {
            let seen = self.look_once()?;
            if !reconcile::is_being_replaced(&seen.snapshot, &seen.plan) {
                return Ok(seen);
            }
            tokio::time::sleep(reconcile::QUIET).await;
        }
        self.look_once()
    }

    pub(super) fn look_once(&self) -> Result<Seen, Finding> {
        self.look_towards(Direction::Apply)
    }

    /// Looks at the host and our own directory alone.
    pub(super) fn look_at_host(&self) -> Result<Seen, Finding> {
        self.look_towards(Direction::Judge)
    }

    pub(super) fn look_towards(&self, direction: Direction) -> Result<Seen, Finding> {
        let (snapshot, plan) =
            reconcile::look_once(&self.request(direction, Initiator::Agent), self.snapshot.as_ref())?;
        let mut journal = snapshot.state.journal.clone();
        if let Some(now) = &plan.target {
            let original = if now.ours().is_none() { Some(now.digest) } else { journal.original };
            journal = original.into_iter().fold(journal, Journal::with_marks_for);
        }
        let settled = apply::is_settled(&plan, &snapshot, direction, &Initiator::Agent);
        let is_recorded = settled || apply::is_recorded(&plan, &snapshot, direction, &Initiator::Agent);
        Ok(Seen { snapshot, plan, journal, settled, is_recorded, is_whole: direction == Direction::Apply })
    }

    /// One pass that writes, but not over another text of ours than `over`.
    pub(super) fn write(
        &mut self,
        direction: Direction,
        initiator: Initiator,
        expected_text: Option<Digest>,
    ) -> Result<Outcome, Finding> {
        let request = Request { expected_text, ..self.request(direction, initiator) };
        let outcome = reconcile::run(&request, &self.env(), &mut |event| log(&event));
        self.note(outcome)
    }

    /// Takes a revision back that is marked bad; not where somebody has just said to try it again.
    fn write_while_bad(
        &mut self,
        direction: Direction,
        initiator: Initiator,
        expected_text: Option<Digest>,
        revision: &str,
    ) -> Result<Outcome, Finding> {
        let request = Request { expected_text, while_bad: Some(revision), ..self.request(direction, initiator) };
        let outcome = reconcile::run(&request, &self.env(), &mut |event| log(&event));
        self.note(outcome)
    }

    /// Writes the very revision that was seen to be wanted.
    fn write_seen(&mut self, seen: &Seen) -> Result<Outcome, Finding> {
        let request = Request {
            expected_revision: seen.plan.revision.as_deref(),
            ..self.request(Direction::Apply, Initiator::Agent)
        };
        let first = (seen.snapshot.clone(), seen.plan.clone());
        let outcome = reconcile::run_from(&request, first, &self.env(), &mut |event| log(&event));
        self.note(outcome)
    }

    fn request(&self, direction: Direction, initiator: Initiator) -> Request<'_> {
        let (settings, lock_timeout) = (&self.settings, self.options.lock_timeout);
        let (expected_revision, expected_text, while_bad) = (None, None, None);
        Request {
            settings,
            direction,
            initiator,
            expected_revision,
            expected_text,
            while_bad,
            command: &self.command,
            lock_timeout,
            purge: false,
        }
    }

    fn env(&self) -> Env<'_> {
        Env { fs: &*self.fs.0, clock: &self.options.clock }
    }

    fn note(&mut self, outcome: Result<Outcome, Finding>) -> Result<Outcome, Finding> {
        let outcome = outcome.inspect_err(|_| self.counts.failures += 1)?;
        if let Some(receipt) = outcome.receipt.as_ref().filter(|receipt| receipt.committed) {
            self.counts.commits += 1;
            self.committed = Some(self.now());
            self.commits.note(self.now());
            self.others.committed(outcome.plan.generation);
            self.notice_overwritten(receipt);
        }
        Ok(outcome)
    }

    /// Writes what is wanted, if nothing speaks against it.
    pub(super) async fn change(&mut self, seen: &Seen, change: Change) -> Option<Rest> {
        let is_drift = change != Change::Files
            && seen.journal.current.as_ref().map(|commit| &commit.revision) == seen.plan.revision.as_ref();
        if let Some(after) = self.drifts.wait(self.now()).filter(|_| is_drift) {
            let message = "somebody else keeps rewriting the manifest: find out who manages this file";
            return Some(Rest { node_state: NodeState::new(Phase::Degraded, "ForeignManager", message), after });
        }
        if let Some(rest) = self.must_brake(change) {
            return Some(rest);
        }
        let (reason, message) = match (is_drift, change) {
            (true, _) => ("Drift", "somebody else changed the manifest; ours is put back"),
            (false, Change::Files) => ("Mending", "files of ours are put in order"),
            (false, _) => ("NewRevision", "the manifest is being replaced"),
        };
        let applying = NodeState::new(Phase::Applying, reason, message);
        if change == Change::New {
            // the API may take its time to answer, and what runs is not what is wanted any more
            if self.report.borrow().node_state.is_ready() {
                self.say(Some(seen), applying.clone());
            }
            if let Some(rest) = self.must_wait().await {
                return Some(rest);
            }
        }
        self.say(Some(seen), applying);
        self.failure = None;
        match self.write_seen(seen) {
            Ok(outcome) => {
                let receipt = outcome.receipt.as_ref();
                if is_drift && receipt.is_some_and(|receipt| receipt.committed) {
                    self.drifts.note(self.now());
                    self.counts.drifts += 1;
                }
                if let Some(finding) = receipt.and_then(|receipt| receipt.uncollected.as_ref()) {
                    tracing::warn!("what nobody needs any more stays for now: {}", NodeState::blocked(finding).message);
                    self.cleanup_failed_for = text_of(seen).filter(|_| change == Change::Files);
                }
                None
            }
            Err(finding) => Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY }),
        }
    }

    /// Why no commit may follow now, whatever it is for.
    fn must_brake(&mut self, change: Change) -> Option<Rest> {
        if change == Change::Files {
            return None;
        }
        let now = self.now();
        if let Some((after, who)) = self.others.too_many(now) {
            let message = format!(
                "another schedpatch keeps changing this manifest ({who}): two releases on one node? Uninstall one of them"
            );
            return Some(Rest { node_state: NodeState::new(Phase::Degraded, "AnotherSchedpatch", message), after });
        }
        let after = self.commits.wait(now)?;
        let message = format!(
            "the manifest was replaced too often in the last minute; the next change follows in {} s",
            after.as_secs() + 1
        );
        Some(Rest { node_state: NodeState::new(Phase::Waiting, "TooManyChanges", message), after })
    }

    /// Why a new revision must not be begun now.
    async fn must_wait(&mut self) -> Option<Rest> {
        let ClientHandle(client) = self.client.as_ref()?;
        let blocked = |reason, message: String, after| {
            Some(Rest { node_state: NodeState::new(Phase::Blocked, reason, message), after })
        };
        let nodes = match cluster::control_planes(client).await {
            Ok(nodes) => nodes,
            Err(why) => {
                let message = format!("nothing new is begun while the API does not answer: {why}");
                return Some(Rest { node_state: NodeState::new(Phase::Waiting, "ApiAway", message), after: RETRY / 6 });
            }
        };
        if self.options.rollout == Rollout::UnsafeParallel || nodes == [self.options.node.as_str()] {
            return None;
        }
        if nodes.contains(&self.options.node) {
            let message = format!(
                "this cluster has {} control-plane nodes, and this version cannot change them one by one; \
                 --rollout unsafe-parallel changes them as they come",
                nodes.len()
            );
            return blocked("SeveralControlPlanes", message, self.options.resync);
        }
        let message = format!(
            "the API lists no control-plane node {:?} (it lists: {}), so whether it is the only one is unknown; see \
             --node-name and the label {} of this node",
            self.options.node,
            if nodes.is_empty() { "none".to_owned() } else { nodes.join(", ") },
            cluster::CONTROL_PLANE_LABELS[0],
        );
        blocked("NotListed", message, RETRY * 4)
    }

    /// Writes down that what stands was seen to run.
    pub(super) fn prove(&mut self, seen: &Seen) -> Option<Rest> {
        let target = seen.plan.target.as_ref()?;
        let proven = reconcile::prove(&self.request(Direction::Judge, Initiator::Agent), &self.env(), target.digest);
        match proven {
            Ok(true) => {
                if let Some(committed) = self.committed.take() {
                    let took = self.now().saturating_sub(committed);
                    self.counts.proof_millis = u64::try_from(took.as_millis()).ok();
                }
                self.counts.proven = Some((self.options.clock)().as_unix());
                // look again: what was proven is told from the journal
                None
            }
            Ok(false) => {
                let node_state = NodeState::new(Phase::Verifying, "NotYetProven", "it does not stand any more");
                Some(Rest { node_state, after: HEALTH_INTERVAL })
            }
            Err(finding) => Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY }),
        }
    }

    /// Commits what stands once more.
    pub(super) fn nudge(&mut self, seen: &Seen) -> Option<Rest> {
        tracing::warn!("the kubelet shows no pod of this generation: committing once more");
        self.counts.nudges += 1;
        let trial = self.trial.take();
        if let Err(finding) = self.write(Direction::Nudge, Initiator::Agent, text_of(seen)) {
            self.trial = trial;
            return Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY });
        }
        let again = self.look_at_host().ok()?;
        let target = again.plan.target.as_ref()?;
        let expected = self.expectation(target);
        self.trial = trial.map(|(_, trial)| (target.digest, trial.nudged(expected)));
        None
    }

    /// What was proven last was taken out by somebody else, and what is wanted now cannot be had: the last good text comes back.
    pub(super) fn put_back(&mut self, seen: &Seen, good: &str) -> Option<Rest> {
        if let Some(after) = self.drifts.wait(self.now()) {
            let message = "somebody else keeps rewriting the manifest: find out who manages this file";
            return Some(Rest { node_state: NodeState::new(Phase::Degraded, "ForeignManager", message), after });
        }
        let back = match self.look_towards(Direction::LastGood) {
            Ok(back) => back,
            Err(finding) => return Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY }),
        };
        if back.plan.commit().is_none() || back.plan.revision.as_deref() != Some(good) {
            let message = format!(
                "somebody else wrote the manifest anew without revision {good}, which cannot come back because the manifest \
                 itself has changed; the scheduler runs without our edit until the configuration can be applied"
            );
            let node_state = NodeState::new(Phase::Degraded, "LastGoodLost", message);
            return Some(Rest { node_state, after: self.options.resync });
        }
        self.say(
            Some(seen),
            NodeState::new(Phase::Applying, "Drift", "somebody else changed the manifest; ours is put back"),
        );
        match self.write(Direction::LastGood, Initiator::Agent, None) {
            Ok(outcome) => {
                if outcome.receipt.is_some_and(|receipt| receipt.committed) {
                    self.drifts.note(self.now());
                    self.counts.drifts += 1;
                }
                None
            }
            Err(finding) => Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY }),
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
    pub(super) fn forgive(&mut self, seen: &Seen, failure: &Failure) -> Option<Rest> {
        let (revision, text) = (seen.plan.revision.clone()?, text_of(seen)?);
        let request = self.request(Direction::Judge, Initiator::Agent);
        if let Err(finding) = reconcile::forgive(&request, &self.env(), &revision) {
            return Some(Rest { node_state: NodeState::blocked(&finding), after: RETRY });
        }
        self.failing_original = Some(FailingOriginal { text, waiting: revision, reason: failure.message.clone() });
        None
    }

    /// Takes a revision back that failed. One that ran before the original changed is marked for this original only.
    pub(super) fn roll_back(&mut self, seen: &Seen, failure: Failure) -> Option<Rest> {
        let message = &failure.message;
        self.say(Some(seen), NodeState::new(Phase::Applying, "RollingBack", message.clone()));
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
        // where the very revision that was good failed, only the original is left
        let has_run = has_run(seen);
        let direction = if has_run { Direction::Restore } else { Direction::LastGood };
        let revision = ours.map_or_else(String::new, |ours| ours.revision.clone());
        let original = seen.journal.original.filter(|_| has_run);
        let initiator = Initiator::AgentAfterFailure { revision: revision.clone(), reason: message.clone(), original };
        let written = if failure.cause == Cause::Before {
            self.write_while_bad(direction, initiator, text_of(seen), &revision)
        } else {
            self.write(direction, initiator, text_of(seen))
        };
        match written {
            Ok(outcome) if outcome.receipt.is_some() => {
                self.counts.rollbacks += 1;
                self.failure = Some(failure);
                self.came_back = outcome.plan.commit().map(|step| Digest::of_bytes(&step.after));
                None
            }
            // somebody was faster: whatever stands now is looked at anew
            Ok(outcome) if !outcome.plan.is_refused() => None,
            Ok(outcome) => {
                let error = outcome.plan.findings.first().map(NodeState::blocked);
                let message = error.map_or_else(String::new, |error| error.message);
                let node_state = NodeState::new(Phase::Degraded, "CannotRollBack", message);
                Some(Rest { node_state, after: RETRY })
            }
            Err(finding) => {
                let message = NodeState::blocked(&finding).message;
                Some(Rest { node_state: NodeState::new(Phase::Degraded, "CannotRollBack", message), after: RETRY })
            }
        }
    }
}

fn log(event: &Event<'_>) {
    match event {
        Event::Planned(_) => {}
        Event::Waiting(holder) => tracing::info!("waiting for another schedpatch: {holder}"),
        Event::Again(path) => tracing::info!("{path} was changed by somebody else meanwhile"),
        Event::Done(apply::Done::Wrote(path)) => tracing::debug!("wrote {path}"),
        Event::Done(apply::Done::Replaced(path)) => tracing::debug!("replaced {path}"),
        Event::Done(apply::Done::Collected(revision)) => tracing::debug!("removed the old revision {revision}"),
    }
}
