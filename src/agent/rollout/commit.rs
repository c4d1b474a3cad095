//! The commit of a turn: what must be true before the turn is taken, and the one write that follows it.

use super::super::{Agent, RETRY, Rest, Seen};
use super::{Part, words};
use crate::finding::Finding;
use crate::journal::{Initiator, Journal};
use crate::phase::{NodeState, Phase};
use crate::plan::Direction;
use crate::reconcile::{self, Outcome, Request, Session};
use crate::report::short;
use crate::rollout::{ChangeKind, NeededChange, Record, Why};

/// The words of a failure in a log line or an event.
const MAX_WORDS: usize = 300;

impl Agent {
    /// What comes before a write of the record: whoever takes a turn, or goes on with that of a process before, holds the host's
    /// lock until the commit; and takes it only for what the API wants in this moment.
    pub(super) async fn prepare(
        &mut self,
        seen: &Seen,
        why: Why,
        record: &Record,
        session: &mut Option<Session>,
    ) -> Option<Part> {
        if !matches!(why, Why::TakeTurn | Why::Adopt | Why::Renew) {
            return None;
        }
        let is_clean = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
        if record.must_restore(&self.options.node) && is_clean && !seen.snapshot.state.is_known {
            // everything is removed, and only the scheduler is still watched: a lock would bring our directory back
            return None;
        }
        let is_new = record.entry.as_ref().is_some_and(|entry| entry.change == ChangeKind::New);
        if why == Why::TakeTurn
            && is_new
            && let Some(rest) = self.must_not_begin(seen).await
        {
            return Some(Self::nothing_now(rest));
        }
        // what was wanted when the turn was taken, by this process or the one before, may be out of date
        let generation = seen.journal.generation.max(seen.generation().unwrap_or_default());
        let is_unused = record.entry.as_ref().is_some_and(|entry| entry.generation > generation);
        if matches!(why, Why::TakeTurn | Why::Adopt | Why::Renew) && is_new && is_unused {
            match self.confirm_sources().await {
                Ok(true) => {}
                Ok(false) => return Some(Part::Again),
                Err(why) => return Some(Part::Done(super::Permission::Away(why), Some(super::LOOK_AGAIN))),
            }
        }
        let change = record.entry.as_ref().map(|entry| entry.change);
        let is_restore = change == Some(ChangeKind::Restore);
        let must_return = is_restore || change == Some(ChangeKind::Back);
        let is_said = must_return && !self.is_in_the_middle(seen);
        let refused = |finding: &Finding| {
            let part = Self::nothing_now(Rest::blocked(finding, RETRY));
            if is_said { part.said_aloud() } else { part }
        };
        let is_bare = is_restore && why != Why::TakeTurn && seen.snapshot.state.digest.is_none();
        // once everything is removed, the lock's own file would be left behind
        if is_bare {
            return None;
        }
        if session.is_none() {
            match self.begin_session(seen, !is_restore) {
                Ok(taken) => *session = Some(taken),
                Err(finding) => return Some(refused(&finding)),
            }
        }
        let session = session.as_ref().filter(|_| is_restore)?;
        self.note_what_runs(seen, session).await.err().map(|finding| refused(&finding))
    }

    /// What cannot be written now keeps no turn that this node has: the next look gives it back.
    pub(super) fn keep_no_turn(&mut self, why: Why, record: &Record) {
        let is_own = record.entry.as_ref().is_some_and(|entry| entry.node == self.options.node);
        let until = self.now() + RETRY;
        if let Some(member) = self.member.as_mut().filter(|_| why == Why::TakeTurn && is_own) {
            member.backs_off_until = Some(until);
        }
    }

    /// Why nothing new begins on this node.
    async fn must_not_begin(&mut self, seen: &Seen) -> Option<Rest> {
        let after = self.options.resync;
        if seen.plan.delays_cache && self.has_other_control_planes() {
            return Some(Rest { node_state: words::delays_cache(), after });
        }
        if !self.asks() && self.has_other_control_planes() {
            return Some(Rest { node_state: words::proves_nothing(), after });
        }
        self.objection(seen).await.map(|finding| Rest::blocked(&finding, RETRY))
    }

    /// Takes the host's lock, and remembers whose host it is where that is asked for.
    fn begin_session(&self, seen: &Seen, notes_owner: bool) -> Result<Session, Finding> {
        let request = self.request(Direction::Judge, Initiator::Agent);
        let taken = reconcile::begin(&request, &self.env(), &mut |event| super::super::write::log(&event))?;
        let is_news = |owner: &String| notes_owner && seen.journal.owner.as_ref() != Some(owner);
        if let Some(owner) = self.owner().filter(is_news) {
            let own = |mut journal: Journal| {
                journal.owner.get_or_insert_with(|| owner.clone());
                journal
            };
            reconcile::amend_in(&taken, &request, &self.env(), &own)?;
        }
        Ok(taken)
    }

    fn has_other_control_planes(&self) -> bool {
        let report = self.reporting.report.borrow();
        report.rollout.as_ref().is_some_and(|rollout| rollout.peers.control_planes > 1)
    }

    /// Logs a write of the record, and leaves an event for what people follow.
    pub(super) fn tell_of(&mut self, why: Why, before: &Record, after: &Record) {
        let digest = |record: &Record| record.entry.as_ref().and_then(|entry| entry.digest);
        let shown = digest(after).as_ref().map_or_else(|| "the original".to_owned(), short);
        let change = after.entry.as_ref().map(|entry| entry.change);
        match (why, change) {
            (Why::TakeTurn, Some(ChangeKind::New)) if before.digest != after.digest => {
                self.announce("RolloutBegan", format!("the rollout of {shown} begins on this node"), false);
            }
            (Why::TakeTurn, Some(ChangeKind::Back)) => {
                self.announce("RolloutTurnedBack", format!("this node goes back to {shown}"), true);
            }
            (Why::Seal, _) => {
                let sealed = after.sealed.as_ref().map(short).unwrap_or_default();
                self.announce("RolloutFinished", format!("every node has proven {sealed}"), false);
            }
            (Why::Report, _) => {
                let words = after.failed.last().map(|failed| failed.words.as_str()).unwrap_or_default();
                let words = &words[..words.floor_char_boundary(MAX_WORDS)];
                self.announce("RolloutFailed", format!("the rollout stops, this node reports: {words}"), true);
            }
            (Why::TakeOver, _) => {
                let node = before.entry.as_ref().map(|entry| entry.node.as_str()).unwrap_or_default();
                self.announce("RolloutTakenOver", format!("the agent of {node} lost its turn"), true);
            }
            _ => {}
        }
    }

    /// Logs what happened once, and leaves it for an event.
    fn announce(&mut self, reason: &str, message: String, is_warning: bool) {
        if is_warning {
            tracing::warn!(reason, "{message}");
        } else {
            tracing::info!(reason, "{message}");
        }
        self.reporting.report.send_modify(|report| report.notice(reason, message, is_warning));
    }

    /// Commits: the turn is this node's, and what it is for still holds.
    pub(super) async fn commit_in_turn(
        &mut self,
        seen: &Seen,
        needed: NeededChange,
        session: Option<&Session>,
    ) -> Part {
        let Some(session) = session else { return Part::Again };
        let (phase, reason, message) = match needed.change {
            ChangeKind::New => (Phase::Applying, "NewRevision", "the manifest is being replaced"),
            ChangeKind::Repair => {
                (Phase::Applying, "Drift", "somebody else changed the manifest; the agent puts our edit back")
            }
            ChangeKind::Back => {
                (Phase::Applying, "TurningBack", "the configuration failed on another node; this one goes back too")
            }
            ChangeKind::Restore => (Phase::Restoring, "Uninstalling", "our edit is being removed on request"),
        };
        self.say(Some(seen), NodeState::new(phase, reason, message));
        // those who follow the report see it before the commit holds up this thread
        tokio::task::yield_now().await;
        self.work.failure = None;
        let refused;
        let committed = match self.carry_out(seen, needed, session) {
            Ok(outcome) => {
                if outcome.still_loaded.is_some() {
                    self.end_hold(session);
                }
                refused = outcome
                    .plan
                    .error()
                    .filter(|_| outcome.plan.is_refused())
                    .or(outcome.still_loaded.as_ref())
                    .cloned();
                outcome.receipt.as_ref().is_some_and(|receipt| receipt.committed) || outcome.purged.is_some()
            }
            Err(finding) => {
                refused = Some(finding);
                false
            }
        };
        let refused = refused.filter(|_| !committed).map(|finding| NodeState::blocked(&finding).message);
        if let Some(message) = &refused {
            tracing::warn!("nothing was committed: {message}");
        }
        let now = self.now();
        if needed.change == ChangeKind::Repair && committed {
            self.pace.drifts.note(now);
            self.reporting.counts.drifts += 1;
        }
        if let Some(member) = self.member.as_mut() {
            // what was decided does not hold any more; the turn is given back
            member.backs_off_until = (!committed).then(|| now + RETRY);
            member.refused = refused;
        }
        Part::Again
    }

    /// An uninstall goes on later, or is withdrawn: then nothing of it may hold the node.
    fn end_hold(&self, session: &Session) {
        let unheld = |journal: Journal| Journal { hold: None, ..journal };
        let request = self.request(Direction::Judge, Initiator::Agent);
        if let Err(finding) = reconcile::amend_in(session, &request, &self.env(), &unheld) {
            tracing::warn!("cannot end the hold of the uninstall: {}", NodeState::blocked(&finding).message);
        }
    }

    fn carry_out(&mut self, seen: &Seen, needed: NeededChange, session: &Session) -> Result<Outcome, Finding> {
        let is_restore = needed.change == ChangeKind::Restore;
        let direction = needed.way_back(seen).unwrap_or(Direction::Apply);
        let first = if direction == Direction::Apply {
            (seen.snapshot.clone(), seen.plan.clone())
        } else {
            let back = self.look_towards(direction)?;
            (back.snapshot, back.plan)
        };
        // a person asked for the removal of everything, which also ends a hold
        let initiator = if is_restore { Initiator::Person } else { Initiator::Agent };
        let request = Request {
            expected_revision: seen.plan.revision.as_deref().filter(|_| direction == Direction::Apply),
            deadline: self.member.as_ref().and_then(|member| member.deadline),
            purge: is_restore,
            tried: self.tried(),
            ..self.request(direction, initiator)
        };
        let outcome = reconcile::run_in(session, &request, first, &self.env(), &mut |event| {
            super::super::write::log(&event);
        });
        self.note(outcome)
    }
}

impl NeededChange {
    /// Which way leads back, if it is one.
    pub(in crate::agent) fn way_back(self, seen: &Seen) -> Option<Direction> {
        match (self.change, self.digest) {
            // something else is wanted, which failed or waits
            (ChangeKind::Repair, digest) if seen.plan.is_refused() || digest != seen.plan.digest => {
                Some(Direction::LastGood)
            }
            (ChangeKind::New | ChangeKind::Repair, _) => None,
            (ChangeKind::Back, Some(_)) => Some(Direction::Sealed),
            (ChangeKind::Back, None) | (ChangeKind::Restore, _) => Some(Direction::Restore),
        }
    }
}
