//! What an agent does next. Pure: a view comes in, a step comes out. Whoever carries it out looks again afterwards.

use std::time::Duration;

use super::lost;
use super::order::{self, Waiting};
use super::record::{ChangeKind, Entry, Failed, Record};
use super::view::{View, Work};
use super::want::{self, NeededChange};
use crate::timestamp::Timestamp;

/// A commit shows in the cluster this long after its turn's time for it at the latest, where its agent lives.
const SHOWN: Duration = Duration::from_secs(3);

/// What an agent does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextStep {
    /// Nothing: this node runs what it should
    Rest,
    /// Nothing, for this reason
    Wait(Waiting),
    /// Replace the record, unless somebody else did meanwhile
    Write(Box<Record>, Why),
    /// Commit: the turn is this node's
    Go(NeededChange),
    /// Judge what was committed to its end
    Judge,
    /// Forget what was committed: its text is gone, and so is its turn
    Forget,
}

/// Why the record is replaced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// To begin a change
    TakeTurn,
    /// To keep the turn
    Renew,
    /// The process that took the turn is gone, and this one goes on
    Adopt,
    /// The turn was not used, and must not be any more
    GiveBack,
    /// The change of this turn is done
    Release,
    /// A digest failed here
    Report,
    /// Another node's turn is over, though it did not say so
    TakeOver,
    /// Every node has proven what is wanted
    Seal,
    /// The record was lost: what this node knows comes back
    Rebuild,
    /// This node was forgotten, and is here
    Returned,
    /// Those who know more of a lost record had the time to say it
    Rebuilt,
    /// Nothing of ours is left here
    Restored,
    /// The agents were installed anew after somebody had asked to take them out
    Reinstalled,
}

/// What this agent does next. `now` is only written down.
pub fn step(view: &View<'_>, now: Timestamp) -> NextStep {
    let View { record, me, .. } = view;
    if record.forgotten.contains(&me.name) {
        return write(record, Why::Returned, |record| {
            record.forgotten.remove(&me.name);
        });
    }
    if let Some(record) = rebuilt(view) {
        return NextStep::Write(record, Why::Rebuild);
    }
    if let Some(record) = with_failure(view) {
        return NextStep::Write(record, Why::Report);
    }
    if record.uninstall.as_ref().is_some_and(|asked| is_newer(&me.daemon_set, asked)) {
        return write(record, Why::Reinstalled, Record::cancel_uninstall);
    }
    match &record.entry {
        Some(entry) if entry.node == me.name => own_turn(view, entry, now),
        _ if me.work == Work::Pending && me.is_overwritten => NextStep::Forget,
        _ if me.work == Work::Pending => NextStep::Judge,
        Some(entry) => match lost::after(view, entry, now) {
            Some(record) => NextStep::Write(record, Why::TakeOver),
            None => NextStep::Wait(Waiting::Turn { node: entry.node.clone(), change: entry.change }),
        },
        None => no_turn(view, now),
    }
}

/// The turn is this node's.
fn own_turn(view: &View<'_>, entry: &Entry, now: Timestamp) -> NextStep {
    let View { record, me, waited, limits, .. } = view;
    if entry.nonce != me.nonce {
        return write_entry(record, Why::Adopt, |entry| me.nonce.clone_into(&mut entry.nonce));
    }
    let renew = || write_entry(record, Why::Renew, |_| ());
    if me.work == Work::Pending {
        let is_due = waited.own_write.is_none_or(|since| since >= limits.renew);
        return if is_due { renew() } else { NextStep::Judge };
    }
    let is_used = match entry.change {
        ChangeKind::Restore => !want::has_ours(me),
        _ => me.generation >= entry.generation,
    };
    if is_used {
        // somebody wrote over it before it was proven: this node's scheduler restarts, so the turn goes on with the repair
        let is_taken_back = me.stopped.is_some() && me.in_place != entry.digest;
        let repair = want::change(view).filter(|wanted| wanted.change == ChangeKind::Repair && me.is_overwritten);
        if let Some(repair) = repair.filter(|repair| !is_taken_back && order::must_not_go(view, *repair).is_none()) {
            return take_turn(view, repair);
        }
        return write(record, Why::Release, |record| release(record, view, entry, now));
    }
    let wanted = NeededChange { change: entry.change, digest: entry.digest };
    if want::change(view) != Some(wanted) || order::must_not_go(view, wanted).is_some() {
        return write(record, Why::GiveBack, |record| record.entry = None);
    }
    match waited.own_write {
        Some(since) if since <= limits.go => NextStep::Go(wanted),
        _ => renew(),
    }
}

fn release(record: &mut Record, view: &View<'_>, entry: &Entry, now: Timestamp) {
    let me = view.me;
    record.entry = None;
    if record.stopped.as_ref().is_some_and(|stopped| Some(stopped.digest) == entry.digest) {
        record.stopped = None;
    }
    if let (ChangeKind::New, Some(digest), Some(words)) = (entry.change, entry.digest, &me.stopped)
        && me.in_place != entry.digest
    {
        record.stopped = Some(super::Stopped { digest, node: me.name.clone(), words: words.clone() });
    }
    if record.must_restore(&me.name) && me.in_place.is_none() {
        record.restored.insert(me.name.clone(), now);
    }
}

/// The turn is nobody's.
fn no_turn(view: &View<'_>, now: Timestamp) -> NextStep {
    let View { record, me, waited, limits, others, .. } = view;
    if record.is_rebuilt {
        // an agent that died in the middle may not have said so, but its scheduler does not run
        let may_change = |other: &&super::Other| {
            let does_not_run = other.scheduler.revision.is_some() && !other.scheduler.is_healthy;
            let is_changing = other.is_changing || does_not_run && waited.record < limits.patience;
            is_changing && !record.forgotten.contains(&other.name)
        };
        let node = others.iter().find(may_change).map(|other| other.name.clone());
        if waited.record < limits.takeover || node.is_some() {
            return NextStep::Wait(Waiting::Rebuilding { node });
        }
    }
    if let Some(digest) = want::can_seal(view) {
        return write(record, Why::Seal, |record| {
            record.seal(digest, record.seals + 1);
            record.is_rebuilt = false;
            // who does not exist is not waited for, and says so itself when it comes
            record.forgotten.retain(|name| others.iter().any(|other| other.name == *name));
        });
    }
    let Some(wanted) = want::change(view) else {
        let is_news = record.must_restore(&me.name) && !record.restored.contains_key(&me.name);
        return if record.is_rebuilt {
            write(record, Why::Rebuilt, |record| record.is_rebuilt = false)
        } else if is_news {
            write(record, Why::Restored, |record| {
                record.restored.insert(me.name.clone(), now);
            })
        } else {
            NextStep::Rest
        };
    };
    if let Some(waiting) = order::why_wait(view, wanted) {
        return NextStep::Wait(waiting);
    }
    // a record that is lost right after its first turn looks like that of a new cluster, until the commit of that turn shows
    if record.turns == 0 && record.seals == 0 && !others.is_empty() && waited.lease <= limits.go + SHOWN {
        return NextStep::Wait(Waiting::FirstTurn);
    }
    take_turn(view, wanted)
}

fn take_turn(view: &View<'_>, wanted: NeededChange) -> NextStep {
    let View { record, me, .. } = view;
    write(record, Why::TakeTurn, |record| {
        record.is_rebuilt = false;
        record.turns += 1;
        if wanted.change == ChangeKind::New {
            record.digest = wanted.digest;
            let asked = record.uninstall.clone();
            record.restored.retain(|node, _| asked.as_ref().is_some_and(|asked| asked.nodes.contains(node)));
            record.stopped = record.stopped.take().filter(|stopped| Some(stopped.digest) == wanted.digest);
        }
        let revision = match wanted.change {
            ChangeKind::New => me.wanted_revision.clone(),
            ChangeKind::Back => {
                let sealed = me.last_sealed.as_ref().filter(|_| wanted.digest.is_some());
                sealed.map(|sealed| sealed.revision.clone())
            }
            ChangeKind::Repair => me.revision.clone(),
            ChangeKind::Restore => None,
        };
        record.entry = Some(Entry {
            node: me.name.clone(),
            nonce: me.nonce.clone(),
            change: wanted.change,
            digest: wanted.digest,
            revision,
            number: record.turns,
            generation: me.generation + 1,
            renewed: 0,
        });
    })
}

/// A lost record with what this node knows of it, if that is news.
fn rebuilt(view: &View<'_>) -> Option<Box<Record>> {
    let View { record, me, .. } = view;
    if !record.is_rebuilt {
        return None;
    }
    let mut known = Record::clone(record);
    if me.retries > known.retries {
        known.retry();
        known.retries = me.retries;
    }
    let retries = known.retries;
    for (failed, _) in me.marks.iter().filter(|(_, own)| *own >= retries) {
        known.fail(failed.clone(), me.wanted);
    }
    if let Some(sealed) = me.last_sealed.as_ref().filter(|sealed| sealed.number > known.seals) {
        known.seal(sealed.digest, sealed.number);
    }
    (known != **record).then(|| Box::new(known))
}

/// The record with what failed here, if that is news. Failures from before the last retry are void, and what every node has
/// proven does not fail for all.
fn with_failure(view: &View<'_>) -> Option<Box<Record>> {
    let View { record, me, .. } = view;
    let (failed, retries) = me.unreported.as_ref()?;
    let mut known = Record::clone(record);
    if *retries >= record.retries {
        known.fail(Failed::clone(failed), me.wanted);
    }
    (known != **record).then(|| Box::new(known))
}

/// Whether agents of another DaemonSet, or of a newer template, ask.
fn is_newer((uid, template): &(String, i64), asked: &super::Uninstall) -> bool {
    *uid != asked.daemon_set || *template > asked.template
}

fn write(record: &Record, why: Why, change: impl FnOnce(&mut Record)) -> NextStep {
    let mut record = Box::new(record.clone());
    change(&mut record);
    NextStep::Write(record, why)
}

/// The same turn, written anew: whoever watches it sees that its agent lives.
fn write_entry(record: &Record, why: Why, change: impl FnOnce(&mut Entry)) -> NextStep {
    write(record, why, |record| {
        if let Some(entry) = &mut record.entry {
            change(entry);
            entry.renewed += 1;
        }
    })
}
