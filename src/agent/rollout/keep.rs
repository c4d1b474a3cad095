//! Writes of the record, and how a node keeps its own turn.

use super::super::{Agent, Seen};
use super::{GO_WITHIN, LOOK_AGAIN, Part, Permission, RENEW, words};
use crate::apply::Deadline;
use crate::cluster::{LeaseError, LeaseNow};
use crate::rollout::{Record, Why};

/// Whether the own turn could be renewed for a commit that follows at once.
pub(in crate::agent) enum Renewal {
    /// There is nobody to agree with
    Alone,
    /// Yes, and the commit must happen within this time
    Renewed(Deadline),
    /// It is not known to be this process's turn
    NotOurs,
}

impl Agent {
    /// Keeps the own turn during a trial, without asking for more than that needs. None where the turn is not known to be
    /// this process's.
    pub(super) async fn keep_turn(&mut self, seen: &Seen) -> Option<Part> {
        let (now, node, nonce) = (self.now(), self.options.node.clone(), self.command.clone());
        let is_own =
            |record: &Record| record.entry.as_ref().is_some_and(|entry| entry.node == node && entry.nonce == nonce);
        let member = self.member.as_mut()?;
        let record = member.known_record().filter(is_own)?;
        let written = member.written?;
        if record.must_restore(&node) || record.retries > seen.journal.retries {
            return None;
        }
        let age = now.saturating_sub(written);
        // a little early, so that it needs no turn of the loop of its own
        if age + LOOK_AGAIN * 2 >= RENEW {
            let lease = member.lease.read().await.ok()??;
            let mut record = lease.record().ok()??;
            if !is_own(&record) {
                return None;
            }
            if let Some(entry) = &mut record.entry {
                entry.renewed += 1;
            }
            if let Err(part) = self.replace(&lease, &record, Some(Why::Renew)).await {
                return Some(part);
            }
        }
        let Part::Done(permission, _) = self.judge_first(seen, false) else { return None };
        Some(Part::Done(permission, Some(RENEW)))
    }

    /// Renews the own turn by a fresh read, for a commit that follows at once.
    pub(in crate::agent) async fn renew_turn(&mut self) -> Renewal {
        let (node, nonce) = (self.options.node.clone(), self.command.clone());
        let Some(member) = self.member.as_mut() else { return Renewal::Alone };
        let Ok(Some(lease)) = member.lease.read().await else { return Renewal::NotOurs };
        let Ok(Some(mut record)) = lease.record() else { return Renewal::NotOurs };
        match &mut record.entry {
            Some(entry) if entry.node == node && entry.nonce == nonce => entry.renewed += 1,
            _ => return Renewal::NotOurs,
        }
        let is_written = matches!(self.replace(&lease, &record, Some(Why::Renew)).await, Ok(true));
        let deadline = self.member.as_ref().and_then(|member| member.deadline).filter(|_| is_written);
        deadline.map_or(Renewal::NotOurs, Renewal::Renewed)
    }

    /// Replaces the record; says whether that was done, or somebody else was faster. Then it is read again.
    pub(super) async fn replace(&mut self, lease: &LeaseNow, record: &Record, why: Option<Why>) -> Result<bool, Part> {
        let sent = self.now();
        let deadline = Deadline::within(GO_WITHIN);
        let Some(member) = self.member.as_mut() else { return Ok(false) };
        match member.lease.replace(lease, record).await {
            Ok(()) => {
                member.last_written = Some(record.clone());
                let is_own = record.entry.as_ref().is_some_and(|entry| entry.node == self.options.node);
                if is_own {
                    member.memory.wrote_turn(sent);
                    (member.deadline, member.written) = (Some(deadline), Some(sent));
                } else {
                    member.memory.gave_turn();
                }
                if !matches!(why, Some(Why::Renew)) {
                    member.waits = 0;
                }
                if let Some(why) = why {
                    tracing::debug!("the rollout was written: {why:?}");
                }
                Ok(true)
            }
            Err(LeaseError::Overtaken) => Ok(false),
            Err(LeaseError::Away(why)) => Err(Part::Done(Permission::Away(why), Some(LOOK_AGAIN))),
            Err(LeaseError::Forbidden(why)) => Err(Part::denied(words::lease_forbidden(&why), LOOK_AGAIN * 6)),
            Err(LeaseError::Unauthorized(why)) => Err(Part::denied(words::token_refused(&why), LOOK_AGAIN * 2)),
        }
    }
}
