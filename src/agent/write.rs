//! Everything that the agent writes to the host goes through here, and on through `reconcile`.

use std::time::Duration;

use super::{Agent, HEALTH_INTERVAL, RETRY, Seen};
use crate::apply::{self, ApplyError, Deadline};
use crate::finding::Finding;
use crate::journal::Initiator;
use crate::plan::Direction;
use crate::reconcile::{self, Env, Event, Outcome, Request};
use crate::revision::Digest;

impl Agent {
    /// One pass that writes. If our edit is in place, it must be this text.
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

    /// One pass that commits within a time, if there is a limit.
    pub(super) fn write_within(
        &mut self,
        deadline: Option<Deadline>,
        direction: Direction,
        expected_text: Option<Digest>,
    ) -> Result<Outcome, Finding> {
        let request = Request { expected_text, deadline, ..self.request(direction, Initiator::Agent) };
        let outcome = reconcile::run(&request, &self.env(), &mut |event| log(&event));
        self.note(outcome)
    }

    /// Takes a revision back that is marked bad; not where somebody has just said to try it again.
    pub(super) fn write_while_bad(
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
    pub(super) fn write_seen(&mut self, seen: &Seen) -> Result<Outcome, Finding> {
        let request = Request {
            expected_revision: seen.plan.revision.as_deref(),
            ..self.request(Direction::Apply, Initiator::Agent)
        };
        let first = (seen.snapshot.clone(), seen.plan.clone());
        let outcome = reconcile::run_from(&request, first, &self.env(), &mut |event| log(&event));
        self.note(outcome)
    }

    pub(super) fn request(&self, direction: Direction, initiator: Initiator) -> Request<'_> {
        let request = Request::new(&self.settings, direction, initiator, &self.command, self.options.lock_timeout);
        Request { runs: self.work.runs, ..request }
    }

    pub(super) fn env(&self) -> Env<'_> {
        Env { fs: &*self.outside.fs.0, clock: &self.options.clock }
    }

    pub(super) fn note(&mut self, outcome: Result<Outcome, Finding>) -> Result<Outcome, Finding> {
        let now = self.now();
        let outcome = outcome.inspect_err(|finding| {
            self.reporting.counts.failures += 1;
            if finding.rule == ApplyError::NOT_LOADED {
                self.work.not_loaded = Some((finding.clone(), now + RETRY));
            }
        })?;
        if let Some(receipt) = outcome.receipt.as_ref().filter(|receipt| receipt.committed) {
            self.reporting.counts.commits += 1;
            self.work.committed = Some(self.now());
            self.pace.commits.note(self.now());
            self.pace.others.committed(outcome.plan.generation);
            self.notice_overwritten(receipt);
        }
        let failed = outcome.receipt.as_ref().and_then(|receipt| receipt.restart_failed.as_ref());
        let failed = failed.map(|finding| finding.message.clone());
        if let Some(message) = failed.as_ref().filter(|message| self.work.restart_failed.as_ref() != Some(*message)) {
            self.reporting.counts.failures += 1;
            tracing::warn!("cannot restart the scheduler, will retry: {message}");
        }
        self.work.restart_failures = if failed.is_some() { self.work.restart_failures.saturating_add(1) } else { 0 };
        let pause = HEALTH_INTERVAL * 2_u32.pow(self.work.restart_failures.min(5));
        self.work.restart_again_at = now + if failed.is_some() { pause.min(RETRY) } else { Duration::ZERO };
        self.work.restart_failed = failed;
        let why = outcome.still_loaded.as_ref().map(|finding| finding.message.clone());
        if let Some(message) = why.as_ref().filter(|message| self.work.still_loaded.as_ref() != Some(*message)) {
            self.reporting.counts.failures += 1;
            tracing::warn!("{message}; the agent tries again");
        }
        self.work.still_loaded = why;
        Ok(outcome)
    }
}

pub(super) fn log(event: &Event<'_>) {
    match event {
        Event::Planned(_) => {}
        Event::Waiting(holder) => tracing::info!("waiting for another schedpatch: {holder}"),
        Event::Again(path) => tracing::info!("{path} was changed by somebody else meanwhile"),
        Event::Done(apply::Done::Wrote(path)) => tracing::debug!("wrote {path}"),
        Event::Done(apply::Done::Replaced(path)) => tracing::debug!("replaced {path}"),
        Event::Done(apply::Done::Collected(revision)) => tracing::debug!("removed the old revision {revision}"),
    }
}
