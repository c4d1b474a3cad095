//! What this node is in the rollout: from the journal, the plan and the API to one value.

use std::time::Duration;

use super::super::peers::Peers;
use super::super::turn::Rest;
use super::super::{Agent, Seen};
use super::{Part, Permission};
use crate::finding::Finding;
use crate::journal::{Bad, Initiator, Journal};
use crate::phase::{Change, NodeState, Phase, Subject};
use crate::plan::{Direction, Plan};
use crate::reconcile::{self, Session};
use crate::revision::Digest;
use crate::rollout::{ChangeKind, Entry, Failed, Me, OwnEtcd, Record, Sealed, Work};
use crate::target::Activation;
use crate::verify::Verdict;

/// What of ours is in place here, by the journal and the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct InPlace {
    digest: Option<Digest>,
    /// Somebody else wrote over it
    is_overwritten: bool,
    /// It must be written differently, though the same is asked for
    is_outmoded: bool,
}

impl InPlace {
    fn of(seen: &Seen) -> Self {
        let plan = &seen.plan;
        let ours = plan.target.as_ref().and_then(|target| target.ours());
        let current = seen.journal.current.as_ref();
        let is_wanted = plan.revision.is_some()
            && ours.map(|ours| &ours.revision) == plan.revision.as_ref()
            && !plan.is_refused()
            && plan.commit().is_none();
        let digest = if is_wanted { plan.digest } else { current.and_then(|commit| commit.digest) };
        let is_drift = plan.commit().is_some()
            && current.is_some()
            && current.map(|commit| &commit.revision) == plan.revision.as_ref();
        let is_overwritten = ours.is_none() && current.is_some() || ours.is_some() && digest.is_none() || is_drift;
        let is_outmoded = plan.commit().is_some() && digest.is_some() && digest == plan.digest && !is_overwritten;
        Self { digest, is_overwritten, is_outmoded }
    }
}

fn change_of(seen: &Seen) -> Change {
    if seen.plan.commit().is_some() { Change::New } else { Change::Files }
}

impl Agent {
    /// Another release keeps its state in the same directory.
    pub(in crate::agent) fn is_of_another_release(&self, seen: &Seen) -> Option<Rest> {
        let own = self.owner()?;
        let owner = seen.journal.owner.as_ref().filter(|owner| **owner != own)?;
        let message = format!(
            "the state directory {} belongs to the agents of {owner}, and this agent is one of {own}: uninstall one of the two, \
             or remove what the other left with schedpatch restore --purge; if they are one release whose name, namespace or \
             fullnameOverride changed, change it back",
            self.settings.state_dir
        );
        let node_state = NodeState::new(Phase::Blocked, "AnotherRelease", message);
        Some(Rest { node_state, after: self.options.resync })
    }

    /// The release of this agent, if a DaemonSet runs it.
    pub(super) fn owner(&self) -> Option<String> {
        let release = &self.options.release;
        release.daemon_set.as_ref().map(|name| format!("{}/{name}", release.namespace))
    }

    /// Whether nothing can follow from the rollout, by what the watch showed last.
    pub(super) fn is_at_rest(&mut self, seen: &Seen) -> bool {
        let Some(record) = self.member.as_mut().and_then(super::Member::known_record) else { return false };
        let InPlace { digest, is_overwritten, is_outmoded } = InPlace::of(seen);
        let is_at_rest = record.entry.is_none()
            && !record.must_restore(&self.options.node)
            && !record.is_rebuilt
            && !record.forgotten.contains(&self.options.node)
            && record.retries == seen.journal.retries
            && digest.is_some()
            && digest == seen.plan.digest
            && digest == record.sealed
            && record.sealed.is_some_and(|digest| seen.journal.has_sealed(digest, record.seals))
            && !is_overwritten
            && !is_outmoded
            && !self.is_on_trial(seen)
            && !self.preflights.is_running()
            && seen.journal.stopped.is_none()
            && unreported(seen, &record).is_none();
        if is_at_rest {
            self.report_rollout(&record, None);
        }
        is_at_rest
    }

    /// Takes over from the record what this host must remember.
    pub(super) fn note_record(&mut self, seen: &Seen, record: &Record, session: Option<&Session>) -> Option<Part> {
        if record.must_restore(&self.options.node) {
            return None;
        }
        let journal = &seen.journal;
        if record.retries > journal.retries {
            let retries = record.retries;
            return self.amend(session, &move |journal| journal.retried(retries));
        }
        let is_known = |bad: &Bad| bad.digest.is_some_and(|digest| record.has_failed(digest)) && !bad.is_reported;
        if let Some(digest) = journal.bad.values().find(|bad| is_known(bad)).and_then(|bad| bad.digest) {
            return self.amend(session, &move |journal| journal.reported(digest));
        }
        if let Some(stopped) = &journal.stopped {
            let known = record.stopped.as_ref().filter(|known| known.node == self.options.node);
            let is_known = known.is_some_and(|known| known.digest == stopped.digest);
            let is_wanted = seen.plan.digest.is_none_or(|wanted| wanted == stopped.digest);
            if !is_wanted || record.has_failed(stopped.digest) {
                return self.amend(session, &|journal| journal.resumed());
            }
            if is_known && !stopped.is_reported {
                return self.amend(session, &|journal| journal.stop_reported());
            }
        }
        let digest = record.sealed.filter(|sealed| InPlace::of(seen).digest == Some(*sealed) && seen.was_proven())?;
        let number = record.seals;
        if journal.has_sealed(digest, number) {
            return None;
        }
        self.amend(session, &move |journal| journal.sealed(digest, number))
    }

    /// This node, as the rollout sees it.
    pub(super) async fn me(&mut self, seen: &Seen, record: &Record, peers: &Peers) -> Me {
        let entry = record.entry.as_ref().filter(|entry| entry.node == self.options.node);
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours()).cloned();
        // the journal takes no note of whether the original runs
        let is_original = ours.is_none() && seen.journal.current.is_none();
        let can_return = self.can_return(seen, record);
        let awaits_original = is_original && entry.is_some_and(|entry| led_to_original(entry, seen, can_return));
        let is_pending = self.is_on_trial(seen) || awaits_original && !self.runs(seen).await;
        let InPlace { mut digest, mut is_overwritten, mut is_outmoded } = InPlace::of(seen);
        let (plan, journal) = (&seen.plan, &seen.journal);
        let is_held = journal.hold.is_some();
        is_overwritten &= !plan.is_refused() || self.last_good_lost(seen).is_none();
        if plan.is_left_to_upgrade {
            // nothing of ours is in place, and nothing is to be put back
            (digest, is_overwritten, is_outmoded) = (None, false, false);
        }
        // an uninstall that was interrupted between its rename and the removal of our files
        is_overwritten |= record.must_restore(&self.options.node) && seen.snapshot.state.digest.is_some();
        if is_held && !record.must_restore(&self.options.node) {
            (digest, is_overwritten, is_outmoded) = (None, false, false);
        }
        let is_bad = plan.revision.as_ref().is_some_and(|revision| journal.bad.contains_key(revision));
        let (backs_off, is_fought_over) = (self.backs_off(seen), self.is_fought_over(seen));
        let (now, stopped) = (self.now(), journal.stopped.as_ref());
        let too_soon_for = self.member.as_mut().and_then(|member| member.too_soon_for(stopped, now));
        let may_want_more = self.may_want_more(seen, now);
        let stopped = stopped.filter(|stopped| entry.is_some_and(|entry| entry.digest == Some(stopped.digest)));
        let failed = |(revision, bad): (&String, &Bad)| failed_on(&self.options.node, revision, bad);
        Me {
            name: self.options.node.clone(),
            is_listed: peers.is_listed,
            nonce: self.command.clone(),
            daemon_set: (peers.agents.0.clone(), self.options.release.template),
            is_outdated: peers.is_outdated,
            wanted: plan.digest.filter(|_| !is_held && (plan.revision.is_some() || plan.is_refused())),
            wanted_revision: plan.revision.clone(),
            is_blocked: plan.is_refused() && !is_bad || self.waits_for_original(seen),
            in_place: digest,
            revision: ours.as_ref().map(|ours| ours.revision.clone()),
            generation: journal.generation.max(ours.map_or(0, |ours| ours.generation)),
            work: if is_pending { Work::Pending } else { Work::Settled },
            is_overwritten,
            is_outmoded,
            backs_off,
            is_fought_over,
            last_sealed: journal.sealed.as_ref().map(|sealed| Sealed {
                digest: sealed.digest,
                revision: sealed.commit.revision.clone(),
                number: sealed.number,
                can_return,
            }),
            marks: journal.bad.iter().filter_map(failed).collect(),
            retries: journal.retries,
            // whether the revision is to blame shows when what came back runs
            unreported: unreported(seen, record).filter(|_| !is_pending).and_then(failed),
            too_soon_for,
            may_want_more,
            stopped: stopped.map(|stopped| stopped.words.clone()),
            is_healthy: peers.is_healthy,
            is_leader: peers.is_leader,
            awaits_preflight: false,
            etcd: self.own_etcd(seen, peers),
        }
    }

    /// Whether what every node had proven can be put back here. Where somebody else has changed the target since, its text would
    /// undo that.
    fn can_return(&self, seen: &Seen, record: &Record) -> bool {
        let Some(sealed) = &seen.journal.sealed else { return false };
        if record.failed.is_empty() {
            // nothing leads back, so nobody needs to know
            return true;
        }
        let revision = Some(&sealed.commit.revision);
        let is_there = |plan: &Plan| {
            let ours = plan.target.as_ref().and_then(|target| target.ours());
            plan.commit().is_none() && ours.map(|ours| &ours.revision) == revision
        };
        // a host that cannot be read now says nothing: the commit would say why
        self.look_towards(Direction::Sealed).map_or(true, |back| {
            back.plan.is_refused() || back.plan.revision.as_ref() == revision || is_there(&back.plan)
        })
    }

    /// Where a change restarts the server and its API, it waits until nothing else has changed for a moment: helm upgrade writes
    /// several objects, and must come to its end.
    fn may_want_more(&mut self, seen: &Seen, now: Duration) -> bool {
        let wanted = seen.plan.digest;
        let since = match self.work.wanted {
            Some((digest, since)) if digest == wanted => since,
            _ => now,
        };
        self.work.wanted = Some((wanted, since));
        seen.is_service() && now.saturating_sub(since) < super::SOURCES_STAY
    }

    /// On k3s a change restarts the whole server, and with it a member of etcd.
    fn own_etcd(&self, seen: &Seen, peers: &Peers) -> OwnEtcd {
        OwnEtcd { restarts: peers.runs_etcd && seen.is_service(), may_lose_quorum: self.options.allows_quorum_loss }
    }

    /// Whether an uninstall has removed our edit from the target, and not everything else yet.
    pub(super) fn is_uninstalling(&self, seen: &Seen) -> bool {
        let must_restore = self.member.as_ref().is_some_and(|member| member.must_restore);
        let is_clean = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
        must_restore && is_clean && seen.snapshot.state.digest.is_some()
    }

    /// Before an uninstall removes our edit where a person restarts the scheduler: remembers whether the scheduler runs with the edit
    /// now. Only then a later start without it shows that systemd has reloaded its units.
    pub(super) async fn note_what_runs(&mut self, seen: &Seen, session: &Session) -> Result<(), Finding> {
        let Some(target) = seen.plan.target.as_ref().filter(|target| target.ours().is_some()) else { return Ok(()) };
        if !matches!(target.kind.activation(&target.spec), Activation::Person(_)) {
            return Ok(());
        }
        let ran = Some(target.digest).filter(|_| self.asks());
        let ran = if ran.is_some() && self.runs(seen).await { ran } else { None };
        let request = self.request(Direction::Judge, Initiator::Agent);
        let note = |journal: Journal| Journal { ran, ..journal };
        reconcile::amend_in(session, &request, &self.env(), &note).map(drop)
    }

    /// Whether the scheduler was seen to run as the target says now.
    async fn runs(&mut self, seen: &Seen) -> bool {
        if !self.asks() {
            return true;
        }
        let subject = Subject::Original { reason: String::new() };
        matches!(self.judge(seen, &subject, super::super::judge::Ask::Now).await, Some(Verdict::Proven(_)))
    }

    /// Whether nothing is begun now, whatever it is for.
    fn backs_off(&mut self, seen: &Seen) -> bool {
        let now = self.now();
        let is_early = self.member.as_ref().and_then(|member| member.backs_off_until).is_some_and(|until| now < until);
        is_early || self.must_brake(change_of(seen), false).is_some()
    }

    /// Whether somebody else has rewritten the target too often. To go back or to leave is no part of such a fight.
    fn is_fought_over(&mut self, seen: &Seen) -> bool {
        InPlace::of(seen).is_overwritten && self.must_brake(change_of(seen), true).is_some()
    }

    /// Why no commit may follow now, if one would.
    pub(super) fn brake_of(&mut self, seen: &Seen) -> Option<Rest> {
        let is_drift = InPlace::of(seen).is_overwritten;
        self.must_brake(change_of(seen), is_drift)
    }

    /// How long is long enough.
    pub(super) fn wait_limits(&self) -> crate::rollout::WaitLimits {
        let (settle, patience) = (self.options.limits.settle, self.options.limits.timeout);
        crate::rollout::WaitLimits {
            go: super::GO_WITHIN,
            renew: super::RENEW,
            takeover: super::TAKEOVER,
            settle,
            clear: super::CLEAR,
            patience,
            quorum: super::QUORUM,
        }
    }

    /// What permission is left where nothing may be begun.
    pub(super) fn nothing_now(rest: Rest) -> Part {
        let after = rest.after;
        Part::Done(Permission::Denied(rest), Some(after))
    }
}

/// Whether a turn was used, and what it led to is the original: also where a way back to a digest could not be written.
fn led_to_original(entry: &Entry, seen: &Seen, can_return: bool) -> bool {
    match entry.change {
        ChangeKind::Restore => true,
        ChangeKind::Back => entry.digest.is_none() || !can_return,
        ChangeKind::New | ChangeKind::Repair => seen.journal.generation >= entry.generation,
    }
}

/// A mark as others read it, and how many retries there had been when it was made.
fn failed_on(node: &str, revision: &str, bad: &Bad) -> Option<(Failed, u64)> {
    let words = format!("revision {revision}: {}", bad.reason);
    Some((Failed { digest: bad.digest?, node: node.to_owned(), words, since: bad.since }, bad.retries))
}

/// A failure that the others do not know of.
fn unreported<'s>(seen: &'s Seen, record: &Record) -> Option<(&'s String, &'s Bad)> {
    let is_news = |bad: &Bad| {
        bad.digest.is_some_and(|digest| !record.has_failed(digest) && record.sealed != Some(digest))
            // what is wanted and failed must be known, also to a record that lost it
            && (!bad.is_reported || bad.digest == seen.plan.digest)
            && bad.retries >= record.retries
    };
    seen.journal.bad.iter().find(|(_, bad)| is_news(bad))
}
