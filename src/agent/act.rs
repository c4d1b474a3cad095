//! What the agent does to the host: everything through `tick`.

use super::{Agent, ClientHandle, HEALTH_INTERVAL, RETRY, Rest, Rollout, Seen, text_of};
use crate::apply::{self, HostDoor};
use crate::cluster;
use crate::finding::Finding;
use crate::journal::Asker;
use crate::phase::{Change, Phase, Standing};
use crate::plan::Direction;
use crate::revision::Digest;
use crate::tick::{self, Event, Order, Outcome, World};
use crate::verify::Failure;

/// In the lock, for others who wait.
const COMMAND: &str = "run";

impl Agent {
    /// Looks at the host and plans towards what is wanted.
    pub(super) fn look(&self) -> Result<Seen, Finding> {
        let order = self.order(Direction::Apply, Asker::Agent);
        let (snapshot, plan) = tick::look_after(&order, self.snapshot.as_ref())?;
        let journal = snapshot.state.journal.clone();
        let journal = plan.target.iter().fold(journal, |journal, now| journal.settled(&now.path, now.digest));
        let settled = apply::is_settled(&plan, &snapshot, Direction::Apply, &Asker::Agent);
        let is_noted = settled || apply::is_noted(&plan, &snapshot, Direction::Apply, &Asker::Agent);
        Ok(Seen { snapshot, plan, journal, settled, is_noted })
    }

    /// One pass that writes, but not over another text of ours than `over`.
    pub(super) fn write(
        &mut self,
        direction: Direction,
        asker: Asker,
        over: Option<Digest>,
    ) -> Result<Outcome, Finding> {
        let order = Order { over, ..self.order(direction, asker) };
        let outcome = tick::run(&order, &self.world(), &mut |event| log(&event));
        self.note(outcome)
    }

    /// Writes the very revision that was seen to be wanted.
    fn write_seen(&mut self, seen: &Seen) -> Result<Outcome, Finding> {
        let order = Order { only: seen.plan.revision.as_deref(), ..self.order(Direction::Apply, Asker::Agent) };
        let first = (seen.snapshot.clone(), seen.plan.clone());
        let outcome = tick::run_from(&order, first, &self.world(), &mut |event| log(&event));
        self.note(outcome)
    }

    fn order(&self, direction: Direction, asker: Asker) -> Order<'_> {
        let (settings, lock_timeout) = (&self.settings, self.options.lock_timeout);
        Order { settings, direction, asker, only: None, over: None, command: COMMAND, lock_timeout, purge: false }
    }

    fn world(&self) -> World<'_> {
        World { door: &HostDoor, clock: &self.options.clock }
    }

    fn note(&mut self, outcome: Result<Outcome, Finding>) -> Result<Outcome, Finding> {
        let outcome = outcome.inspect_err(|_| self.counts.failures += 1)?;
        if outcome.receipt.as_ref().is_some_and(|receipt| receipt.committed) {
            self.counts.commits += 1;
            self.committed = Some(self.now());
        }
        Ok(outcome)
    }

    /// Writes what is wanted, if nothing speaks against it.
    pub(super) async fn change(&mut self, seen: &Seen, change: Change) -> Option<Rest> {
        let is_drift = change != Change::Files
            && seen.journal.current.as_ref().map(|commit| &commit.revision) == seen.plan.revision.as_ref();
        if let Some(after) = self.drifts.too_many(self.now()).filter(|_| is_drift) {
            let message = "somebody else keeps rewriting the manifest: find out who manages this file";
            return Some(Rest { standing: Standing::new(Phase::Degraded, "ForeignManager", message), after });
        }
        let (reason, message) = match (is_drift, change) {
            (true, _) => ("Drift", "somebody else changed the manifest; ours is put back"),
            (false, Change::Files) => ("Mending", "files of ours are put in order"),
            (false, _) => ("NewRevision", "the manifest is being replaced"),
        };
        let applying = Standing::new(Phase::Applying, reason, message);
        if change == Change::New {
            // the API may take its time to answer, and what runs is not what is wanted any more
            if self.report.borrow().standing.is_ready() {
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
                    tracing::warn!("what nobody needs any more stays for now: {}", Standing::blocked(finding).message);
                    self.in_vain = text_of(seen).filter(|_| change == Change::Files);
                }
                None
            }
            Err(finding) => Some(Rest { standing: Standing::blocked(&finding), after: RETRY }),
        }
    }

    /// Why a new revision must not be begun now.
    async fn must_wait(&mut self) -> Option<Rest> {
        let ClientHandle(client) = self.client.as_ref()?;
        let waiting = |reason, message: String| {
            Some(Rest { standing: Standing::new(Phase::Waiting, reason, message), after: RETRY / 6 })
        };
        match cluster::control_planes(client).await {
            Err(why) => waiting("ApiAway", format!("nothing new is begun while the API does not answer: {why}")),
            Ok(nodes) if nodes.len() > 1 && self.options.rollout == Rollout::SingleNode => {
                let message = format!(
                    "this cluster has {} control-plane nodes, and this version cannot change them one by one; \
                     --rollout unsafe-parallel changes them as they come",
                    nodes.len()
                );
                let standing = Standing::new(Phase::Blocked, "SeveralControlPlanes", message);
                Some(Rest { standing, after: self.options.resync })
            }
            Ok(_) => None,
        }
    }

    /// Writes down that what stands was seen to run.
    pub(super) fn prove(&mut self, seen: &Seen) -> Option<Rest> {
        let target = seen.plan.target.as_ref()?;
        let proven = tick::prove(&self.order(Direction::Apply, Asker::Agent), &self.world(), target.digest);
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
                let standing = Standing::new(Phase::Verifying, "NotYetProven", "it does not stand any more");
                Some(Rest { standing, after: HEALTH_INTERVAL })
            }
            Err(finding) => Some(Rest { standing: Standing::blocked(&finding), after: RETRY }),
        }
    }

    /// Commits what stands once more.
    pub(super) fn nudge(&mut self, seen: &Seen) -> Option<Rest> {
        tracing::warn!("the kubelet shows no pod of this generation: committing once more");
        self.counts.nudges += 1;
        let trial = self.trial.take();
        if let Err(finding) = self.write(Direction::Nudge, Asker::Agent, text_of(seen)) {
            self.trial = trial;
            return Some(Rest { standing: Standing::blocked(&finding), after: RETRY });
        }
        let again = self.look().ok()?;
        let target = again.plan.target.as_ref()?;
        let version = seen.plan.scheduler.as_ref().map(|known| known.version);
        let expected = crate::verify::Expectation::of(&target.pod, &self.options.node, version);
        self.trial = trial.map(|(_, trial)| (target.digest, trial.nudged(expected)));
        None
    }

    /// Takes a revision back that failed.
    pub(super) fn roll_back(&mut self, seen: &Seen, failure: Failure) -> Option<Rest> {
        let message = &failure.message;
        self.say(Some(seen), Standing::new(Phase::Applying, "RollingBack", message.clone()));
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
        let good = seen.journal.last_good.as_ref().map(|good| &good.revision);
        // where the very revision that was good failed, only the original is left
        let direction = if good == ours.map(|ours| &ours.revision) { Direction::Restore } else { Direction::LastGood };
        let revision = ours.map_or_else(String::new, |ours| ours.revision.clone());
        let asker = Asker::AgentAfterFailure { revision, reason: message.clone() };
        match self.write(direction, asker, text_of(seen)) {
            Ok(outcome) if outcome.receipt.is_some() => {
                self.counts.rollbacks += 1;
                self.failure = Some(failure);
                None
            }
            // somebody was faster: whatever stands now is looked at anew
            Ok(outcome) if !outcome.plan.has_errors() => None,
            Ok(outcome) => {
                let error = outcome.plan.findings.first().map(Standing::blocked);
                let message = error.map_or_else(String::new, |error| error.message);
                let standing = Standing::new(Phase::Degraded, "CannotRollBack", message);
                Some(Rest { standing, after: RETRY })
            }
            Err(finding) => {
                let message = Standing::blocked(&finding).message;
                Some(Rest { standing: Standing::new(Phase::Degraded, "CannotRollBack", message), after: RETRY })
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
