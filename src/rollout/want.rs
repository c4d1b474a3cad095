//! What this node should run, by the sources and the record alone.

use super::record::{ChangeKind, Record};
use super::view::{Me, OnFailure, Other, View, Work};
use crate::revision::Digest;

/// A change that this node needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeededChange {
    /// What for
    pub change: ChangeKind,
    /// What it leads to; none for the original
    pub digest: Option<Digest>,
}

/// The change that this node needs, if any.
pub(super) fn change(view: &View<'_>) -> Option<NeededChange> {
    needed_change(view.record, view.me, view.on_failure)
}

/// The same for who knows nothing of the other nodes yet.
pub fn needed_change(record: &Record, me: &Me, on_failure: OnFailure) -> Option<NeededChange> {
    if record.must_restore(&me.name) {
        return has_ours(me).then_some(NeededChange { change: ChangeKind::Restore, digest: None });
    }
    if let Some(wanted) = me.wanted.filter(|wanted| can_begin(record, me, *wanted)) {
        let is_there = me.in_place == Some(wanted);
        return if is_there {
            repair(me)
        } else if me.too_soon_for == Some(wanted) && repair(me).is_some() {
            // what is wanted waits, and what was overwritten does not
            repair(me)
        } else {
            Some(NeededChange { change: ChangeKind::New, digest: Some(wanted) })
        };
    }
    back(record, me, on_failure).or_else(|| repair(me).filter(|_| !is_failed(record, me)))
}

/// Whether anything of ours is on this node.
pub(super) fn has_ours(me: &Me) -> bool {
    me.in_place.is_some() || me.is_overwritten
}

fn can_begin(record: &Record, me: &Me, wanted: Digest) -> bool {
    let is_there = me.in_place == Some(wanted);
    !record.has_failed(wanted) && (is_there || !me.is_bad(wanted, record) && !me.is_blocked)
}

fn repair(me: &Me) -> Option<NeededChange> {
    let needs_repair = me.in_place.is_some() && (me.is_overwritten || me.is_outmoded);
    needs_repair.then_some(NeededChange { change: ChangeKind::Repair, digest: me.in_place })
}

/// Whether what is in place failed somewhere. What every node had proved before may fail on one and stay on the others.
fn is_failed(record: &Record, me: &Me) -> bool {
    me.in_place.is_some_and(|digest| record.has_failed(digest) && record.sealed != Some(digest))
}

/// The way back: from what failed, and from what is unsealed once what is wanted has failed.
fn back(record: &Record, me: &Me, on_failure: OnFailure) -> Option<NeededChange> {
    let (is_failed, is_wanted_failed) =
        (is_failed(record, me), me.wanted.is_some_and(|wanted| record.has_failed(wanted)));
    if on_failure == OnFailure::Stop || !is_failed && !is_wanted_failed {
        return None;
    }
    let can_return = |digest: &Digest| !record.has_failed(*digest) && !me.is_bad(*digest, record);
    let here = me.last_sealed.as_ref().filter(|sealed| sealed.can_return).map(|sealed| sealed.digest);
    let back = match record.sealed {
        None => None,
        sealed if sealed == here && sealed.as_ref().is_some_and(can_return) => sealed,
        // what every node proved was never here, does not run here or cannot be written: what can be put back must do
        _ if is_failed => here.filter(can_return),
        _ => return None,
    };
    (me.in_place != back).then_some(NeededChange { change: ChangeKind::Back, digest: back })
}

/// Whether every node that can has proven what is wanted, so that it becomes the way back.
pub(super) fn can_seal(view: &View<'_>) -> Option<Digest> {
    let View { record, me, others, .. } = view;
    let wanted = me.wanted?;
    let is_here = me.in_place == Some(wanted) && me.work == Work::Settled && !me.is_overwritten && !me.is_outdated;
    let is_out = |name: &String| record.forgotten.contains(name) || record.must_restore(name);
    let counts = |other: &&Other| other.is_ready && !other.is_blocked && !is_out(&other.name);
    let is_everywhere = others.iter().filter(counts).all(|other| other.proven == Some(wanted));
    let is_news = record.sealed != Some(wanted) && !record.has_failed(wanted) && !record.must_restore(&me.name);
    (is_news && is_here && is_everywhere).then_some(wanted)
}
