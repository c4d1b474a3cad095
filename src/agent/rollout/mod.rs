//! This node's part in the rollout over all nodes: reads the Lease and what the other nodes show, decides by `crate::rollout`,
//! and commits when it is this node's turn.

mod commit;
mod keep;
mod me;
mod member;
mod part;
mod words;

use std::time::Duration;

use kube::Client;

use super::peers::{self, Peers};
use super::preflight::Gate;
use super::turn::Rest;
use super::{Agent, ClientHandle, Release, Seen};
use crate::cluster::{AskError, LeaseError, LeaseNow};
use crate::phase::{NodeState, Phase};
use crate::plan::Direction;
use crate::reconcile::{self, Session};
use crate::report::RolloutReport;
use crate::rollout::{self, Me, NextStep, Record, View};
pub(super) use keep::Renewal;
pub(super) use member::Member;
pub(super) use part::{Part, Permission};

/// A commit must follow the answer to the write of its turn within this time.
const GO_WITHIN: Duration = Duration::from_secs(2);
/// A turn is renewed this often.
const RENEW: Duration = Duration::from_secs(30);
/// After so long without a renewal the holder of a turn counts as dead: it would have renewed three times. Its liveness probe may
/// take longer; a process that wakes later commits nothing, because the deadline of its turn is over at the rename.
const TAKEOVER: Duration = Duration::from_secs(200);
/// A lost turn of which nothing can be said is cleared after this time.
const CLEAR: Duration = Duration::from_mins(1);
/// So long every other member of etcd must have been there before one is restarted.
const QUORUM: Duration = Duration::from_mins(1);
/// The API is away once it has answered nothing for so long. A single request fails too where a server restarts, and then another
/// node may be in the middle of its change.
const AWAY: Duration = RENEW;
/// So long the sources must stay as they are where a change stops the API.
const SOURCES_STAY: Duration = Duration::from_millis(4500);
/// How often a node that waits looks again, even when the Lease does not change; and how often once that has lasted.
const LOOK_AGAIN: Duration = Duration::from_secs(5);
const LOOK_SELDOM: Duration = Duration::from_secs(30);
const _: () = assert!(LOOK_SELDOM.as_secs() < rollout::MAX_GAP.as_secs(), "else a wait counts as less than it lasts");
/// So often it looks again soon.
const SOON: u32 = 24;
/// What another node has proven it says a moment after it gave the turn back: so soon, and so often, whoever yields to it looks again.
const LOOK_AT_ONCE: Duration = Duration::from_millis(300);
const AT_ONCE: u32 = 8;
/// Writes of the record in one turn of the loop.
const MAX_WRITES: usize = 8;

impl Agent {
    /// Does what the rollout asks of this node, until it asks for nothing more now.
    pub(super) async fn take_part(&mut self, seen: &Seen) -> Part {
        match Box::pin(self.take_part_now(seen)).await {
            Part::Done(Permission::Away(why), _) => self.without_answer(why),
            part => {
                // only now: an API that answers questions and refuses every write has not answered
                if let Some(member) = &mut self.member {
                    member.away = None;
                }
                part
            }
        }
    }

    async fn take_part_now(&mut self, seen: &Seen) -> Part {
        let Some(ClientHandle(client)) = self.outside.client.clone() else {
            return Part::Done(Permission::Free, None);
        };
        if self.member.is_none() {
            self.member = Some(Member::new(&client));
        }
        if let Some(rest) = self.is_of_another_release(seen) {
            return Part::Refused(rest);
        }
        if self.is_at_rest(seen) {
            let node_state = NodeState::new(Phase::Waiting, "NotNow", "the rollout asks for nothing on this node now");
            return Part::Done(Permission::Denied(Rest { node_state, after: LOOK_AGAIN }), None);
        }
        let is_held = seen.journal.hold.is_some();
        if seen.plan.commit().is_some() && !is_held && self.reporting.report.borrow().node_state.is_ready() {
            // the API may take its time to answer, and what runs is not what is wanted any more
            let message = "the other nodes are asked whether this one may change now";
            self.say(Some(seen), NodeState::new(Phase::Waiting, "AsksForItsTurn", message));
        }
        if self.is_on_trial(seen)
            && let Some(part) = self.keep_turn(seen).await
        {
            return part;
        }
        let mut session: Option<Session> = None;
        for _ in 0..MAX_WRITES {
            let (lease, record, peers) = match Box::pin(self.read_rollout(&client, seen.is_service())).await {
                Ok(read) => read,
                Err(part) => return *part,
            };
            if let Some(part) = self.take_step(seen, &lease, &record, &peers, &mut session).await {
                return part;
            }
        }
        Part::Again
    }

    /// Remembers whether this node is to be restored.
    fn note_request(&mut self, record: &Record) {
        if let Some(member) = &mut self.member {
            member.must_restore = record.must_restore(&self.options.node);
        }
        if !record.must_restore(&self.options.node) {
            self.report_uninstalled(false);
            self.work.still_loaded = None;
        }
    }

    /// One step of the rollout; none where it has written and must read again.
    async fn take_step(
        &mut self,
        seen: &Seen,
        lease: &LeaseNow,
        record: &Record,
        peers: &Peers,
        session: &mut Option<Session>,
    ) -> Option<Part> {
        if let Some(part) = self.note_record(seen, record, session.as_ref()) {
            return Some(part);
        }
        self.note_request(record);
        let mut me = self.me(seen, record, peers).await;
        let needed = rollout::needed_change(record, &me, self.options.on_failure);
        let gate = match self.gate(seen, record, needed, session.is_some()).await {
            Gate::Again => return Some(Part::Again),
            gate => gate.closed(),
        };
        me.awaits_preflight = gate.is_some();
        let now = self.now();
        let member = self.member.as_mut()?;
        let waited = member.memory.note(now, (lease.version(), record), &peers.others);
        if let Some(asked) = rollout::asked(record, lease.annotations(), &peers.agents) {
            return self.replace(lease, &asked, None).await.err();
        }
        let limits = self.wait_limits();
        let view = View { record, me: &me, others: &peers.others, waited, limits, on_failure: self.options.on_failure };
        let way_back = needed.and_then(|needed| needed.way_back(seen));
        let must_return = matches!(way_back, Some(Direction::Sealed | Direction::Restore));
        match rollout::step(&view, (self.options.clock)()) {
            NextStep::Write(written, why) => {
                if let Some(part) = self.prepare(seen, why, &written, session).await {
                    self.keep_no_turn(why, record);
                    return Some(part);
                }
                match self.replace(lease, &written, Some(why)).await {
                    Ok(is_written) => {
                        // whoever was overtaken has nothing to tell
                        if is_written {
                            self.tell_of(why, record, &written);
                        }
                        None
                    }
                    Err(part) => Some(part),
                }
            }
            NextStep::Go(needed) => Some(self.commit_in_turn(seen, needed, session.as_ref()).await),
            // what is in place is up to date by its own measure, and must not be mended around the preflight, whatever it waits for
            NextStep::Wait(_) if gate.is_some() && way_back.is_some() => gate.map(Part::Refused),
            NextStep::Wait(rollout::Waiting::Preflight) => gate.map(Self::nothing_now),
            NextStep::Wait(waiting) => {
                let part = self.wait_for(seen, &me, peers, &waiting);
                Some(if must_return && !self.is_in_the_middle(seen) { part.said_aloud() } else { part })
            }
            NextStep::Judge => {
                let is_uninstall = record.must_restore(&self.options.node);
                Some(self.judge_first(seen, is_uninstall))
            }
            NextStep::Forget => {
                tracing::warn!("somebody else replaced the target before the last commit was proven: it is forgotten");
                let forgotten = self.amend(session.as_ref(), &|journal| journal.forgotten());
                Some(forgotten.unwrap_or_else(|| self.judge_first(seen, false)))
            }
            NextStep::Rest => Some(self.rest(&view, seen)),
        }
    }

    /// The API did not answer. Only once that has lasted may this node repair drift without a turn; where there is no other
    /// control-plane node, there is nobody to wait for.
    fn without_answer(&mut self, why: String) -> Part {
        self.preflights.note_away();
        let (now, after) = (self.now(), self.wait_longer());
        let is_alone =
            self.reporting.report.borrow().rollout.as_ref().is_some_and(|seen| seen.peers.control_planes == 1);
        let Some(member) = &mut self.member else { return Part::Done(Permission::Away(why), Some(after)) };
        // an agent that rests asks nothing for hours
        let known = member.away.filter(|(_, last)| now.saturating_sub(*last) < AWAY * 3);
        let (since, _) = *member.away.insert((known.map_or(now, |(since, _)| since), now));
        let left = AWAY.saturating_sub(now.saturating_sub(since));
        if is_alone || left.is_zero() {
            return Part::Done(Permission::Away(why), Some(after));
        }
        Part::denied(words::api_away(&why), after.min(left))
    }

    /// Nothing may be begun yet, for this reason.
    fn wait_for(&mut self, seen: &Seen, me: &Me, peers: &Peers, waiting: &rollout::Waiting) -> Part {
        let brake = self.brake_of(seen).filter(|_| *waiting == rollout::Waiting::BackOff);
        let is_first = self.member.as_ref().is_some_and(|member| member.waits < AT_ONCE);
        let after = self.wait_longer();
        let after = match waiting {
            rollout::Waiting::Yields { .. } if is_first => LOOK_AT_ONCE,
            _ => after,
        };
        let stopped = seen.journal.stopped.as_ref().filter(|stopped| me.wanted == Some(stopped.digest));
        let stopped = stopped.filter(|_| *waiting == rollout::Waiting::BackOff);
        let refused = self.member.as_ref().and_then(|member| member.refused.as_ref());
        let refused = refused.filter(|_| *waiting == rollout::Waiting::BackOff);
        if let (Some(why), Some(command)) = (&self.work.still_loaded, restart_by_hand(seen)) {
            let state_dir = &self.settings.state_dir;
            return Part::denied(words::still_loaded(&command, why, state_dir), after);
        }
        match (brake, stopped) {
            (Some(rest), _) => Part::Done(Permission::Denied(rest), Some(after)),
            (None, Some(stopped)) => Part::denied(words::tries_again(&stopped.words), after),
            (None, None) => match refused {
                Some(why) => Part::denied(words::came_to_nothing(why), after),
                None => Part::denied(words::of_waiting(waiting, peers, &self.options.node), after),
            },
        }
    }

    /// What is committed must be seen to run before anything else.
    fn judge_first(&mut self, seen: &Seen, is_uninstall: bool) -> Part {
        let after = self.wait_longer();
        if let Some(rest) = self.brake_of(seen) {
            return Part::Done(Permission::Denied(rest), Some(after));
        }
        let message = "the agent waits until the scheduler is seen to run before it changes anything else";
        Part::denied(
            if is_uninstall {
                let is_removed = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
                match restart_by_hand(seen) {
                    Some(command) => words::restart_to_restore(&command, is_removed),
                    None => NodeState::new(Phase::Restoring, "Uninstalling", message),
                }
            } else {
                NodeState::new(Phase::Verifying, "NotYetProven", message)
            },
            after,
        )
    }

    /// How long to wait until the next look at the rollout.
    fn wait_longer(&mut self) -> Duration {
        let Some(member) = &mut self.member else { return LOOK_SELDOM };
        member.waits += 1;
        if member.waits <= SOON { LOOK_AGAIN } else { LOOK_SELDOM }
    }

    /// Nothing is to be done for the rollout.
    fn rest(&mut self, view: &View<'_>, seen: &Seen) -> Part {
        let record = view.record;
        let node_state = words::of_rest(record, view.me, seen);
        let is_uninstalled = record.must_restore(&self.options.node);
        self.report_uninstalled(is_uninstalled);
        // the last node's annotations may come after its turn was over
        let awaits_seal = view.me.wanted.is_some() && record.sealed != view.me.wanted && !is_uninstalled;
        let is_first = self.member.as_ref().is_some_and(|member| member.waits < SOON);
        let after = awaits_seal.then(|| if is_first { self.wait_longer() } else { self.options.resync });
        let rest = Rest { node_state, after: after.unwrap_or(self.options.resync) };
        Part::Done(Permission::Denied(rest), after)
    }

    /// Reads the Lease and what the other nodes show; or says what follows where that is not possible.
    async fn read_rollout(
        &mut self,
        client: &Client,
        are_servers: bool,
    ) -> Result<(LeaseNow, Record, Peers), Box<Part>> {
        let away = |why: String| Box::new(Part::Done(Permission::Away(why), Some(LOOK_AGAIN)));
        let Some(member) = &mut self.member else { return Err(away("there is no API".to_owned())) };
        let (node, release) = (&self.options.node, &self.options.release);
        // where the Lease is known, both are read at once: a change waits for this
        let known = member.known_record();
        let expected = known.as_ref().map(|record| holder(record, node));
        let read_peers = async |holder: Option<String>| {
            Box::pin(peers::read(client, node, release, holder.as_deref(), are_servers))
                .await
                .map_err(|why| Box::new(unread(why, release)))
        };
        let (lease, peers) = tokio::join!(member.lease.read(), async {
            match &expected {
                Some(holder) => Some(read_peers(holder.clone()).await),
                None => None,
            }
        });
        let lease = match lease {
            Ok(Some(lease)) => lease,
            Ok(None) => return Err(Box::new(Part::denied(words::lease_missing(), LOOK_AGAIN * 2))),
            Err(LeaseError::Forbidden(why)) => {
                return Err(Box::new(Part::denied(words::lease_forbidden(&why), LOOK_AGAIN * 6)));
            }
            Err(LeaseError::Unauthorized(why)) => {
                return Err(Box::new(Part::denied(words::token_refused(&why), LOOK_AGAIN * 2)));
            }
            Err(LeaseError::Away(why)) => return Err(away(why)),
            Err(LeaseError::Overtaken) => return Err(Box::new(Part::Again)),
        };
        let record = match lease.record() {
            Ok(record) => record,
            Err(error) => return Err(Box::new(Part::denied(words::unreadable(&error), LOOK_AGAIN * 6))),
        };
        let holder = record.as_ref().and_then(|record| holder(record, node));
        let peers = match peers {
            Some(peers) if expected == Some(holder.clone()) => peers?,
            _ => read_peers(holder).await?,
        };
        // a record that is gone while nodes carry something of ours was lost; alone there is nobody who could know more
        let is_rebuilt = peers.has_traces && !peers.others.is_empty();
        let record = record.unwrap_or_else(|| Record { is_rebuilt, ..Record::default() });
        self.report_rollout(&record, Some(&peers));
        Ok((lease, record, peers))
    }

    /// A node that is uninstalled says nothing any more.
    fn report_uninstalled(&self, is_uninstalled: bool) {
        self.reporting
            .report
            .send_if_modified(|report| std::mem::replace(&mut report.is_uninstalled, is_uninstalled) != is_uninstalled);
    }

    /// Reports what the record says; without a look at the other nodes, what was seen of them last.
    fn report_rollout(&self, record: &Record, peers: Option<&Peers>) {
        let known = self.reporting.report.borrow().rollout.as_ref().map(|rollout| rollout.peers);
        let rollout = RolloutReport {
            sealed: record.sealed,
            turn: record.entry.as_ref().map(|entry| entry.node.clone()),
            failed: record.failed.len(),
            is_paused: record.paused,
            peers: peers.map(|peers| peers.counts).or(known).unwrap_or_default(),
        };
        self.reporting.report.send_if_modified(|report| {
            let is_news = report.rollout.as_ref() != Some(&rollout);
            report.rollout = Some(rollout);
            is_news
        });
    }

    /// Changes what is remembered on this host; none where that is nothing new, or the journal is damaged and a commit must first
    /// write it anew.
    fn amend(
        &self,
        session: Option<&Session>,
        change: &dyn Fn(crate::journal::Journal) -> crate::journal::Journal,
    ) -> Option<Part> {
        let request = self.request(crate::plan::Direction::Judge, crate::journal::Initiator::Agent);
        let amended = match session {
            Some(session) => reconcile::amend_in(session, &request, &self.env(), change),
            None => reconcile::amend(&request, &self.env(), change),
        };
        match amended {
            Ok(is_news) => is_news.then_some(Part::Again),
            Err(finding) => {
                Some(Part::Done(Permission::Denied(Rest::blocked(&finding, super::RETRY)), Some(super::RETRY)))
            }
        }
    }
}

/// What follows where the other nodes cannot be seen. Only an API that does not answer lets this node repair drift without a turn:
/// where it answers, other nodes may be in the middle of a change.
fn unread(why: AskError, release: &Release) -> Part {
    match why {
        AskError::Away(why) => Part::Done(Permission::Away(why), Some(LOOK_AGAIN)),
        AskError::Forbidden(right) => Part::denied(words::peers_forbidden(&right), LOOK_AGAIN * 6),
        AskError::Unauthorized(why) => Part::denied(words::token_refused(&why), LOOK_AGAIN * 2),
        AskError::Missing => Part::denied(words::daemon_set_missing(release), LOOK_AGAIN * 6),
    }
}

/// Another node whose turn it is: of its kubelet the last report matters.
fn holder(record: &Record, node: &str) -> Option<String> {
    record.entry.as_ref().map(|entry| entry.node.clone()).filter(|holder| holder != node)
}

/// What a person runs to restart the scheduler, where nobody else does.
fn restart_by_hand(seen: &Seen) -> Option<String> {
    seen.plan.target.as_ref()?.expectation().service?.restart_by_hand
}
