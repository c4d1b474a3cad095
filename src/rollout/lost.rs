//! A turn whose agent does not answer any more: what the node itself shows decides.

use super::record::{ChangeKind, Entry, Failed, Record};
use super::view::{AgentState, Other, View};
use crate::timestamp::Timestamp;

/// Phases of a node on which something was begun.
const BEGUN: [&str; 6] = ["Applying", "Verifying", "Restoring", "RolledBack", "Degraded", "Unknown"];

/// Whether an annotation of a node, without its prefix, shows that something was begun there: then a Lease without a record has
/// lost it.
pub fn is_trace(key: &str, value: &str) -> bool {
    matches!(key, "revision" | "generation" | "verified-digest") || key == "phase" && BEGUN.contains(&value)
}

/// The record once a lost turn is dealt with; none if the turn is not lost, or if nothing can be said of it yet.
pub(super) fn after(view: &View<'_>, entry: &Entry, now: Timestamp) -> Option<Box<Record>> {
    let View { record, me, waited, limits, .. } = view;
    let mut known = Box::new(Record::clone(record));
    let is_late = waited.turn >= limits.takeover;
    let Some(holder) = view.other(&entry.node) else {
        // the Node was deleted, or has just come and is not in this list yet
        known.free(&entry.node);
        return is_late.then_some(known);
    };
    // an agent that was started again has taken its turn up by then
    let has_ended = holder.agent == AgentState::Ended && waited.turn >= limits.renew * 2;
    let is_lost = is_late || has_ended;
    if !is_lost || !holder.is_ready || !waited.has_holder_reported {
        return None;
    }
    let there = what_is_there(entry, holder);
    if let (There::RolledBack, ChangeKind::New, Some(digest)) = (there, entry.change, entry.digest) {
        let words = "its agent took it back and could not say why".to_owned();
        known.fail(Failed { digest, node: entry.node.clone(), words, since: now }, me.wanted);
    }
    let needed = if there == There::SomethingElse { limits.clear } else { limits.settle };
    if holder.scheduler.is_healthy && waited.holder >= needed {
        known.entry = None;
    }
    (*known != **record).then_some(known)
}

/// What a node shows of a change.
#[derive(Clone, Copy, PartialEq, Eq)]
enum There {
    /// Its result, which may not run yet
    Done,
    /// What was put back because it failed
    RolledBack,
    /// Something that tells nothing about it
    SomethingElse,
}

fn what_is_there(entry: &Entry, holder: &Other) -> There {
    let scheduler = &holder.scheduler;
    let is_original = entry.change == ChangeKind::Restore || entry.revision.is_none();
    let is_done = if is_original {
        scheduler.revision.is_none()
    } else {
        scheduler.revision == entry.revision && scheduler.generation == Some(entry.generation)
    };
    if is_done {
        return There::Done;
    }
    // what was taken back before this turn has a lower number
    let is_later = scheduler.generation.is_some_and(|generation| generation > entry.generation);
    if entry.revision.is_some() && scheduler.rolled_back_from == entry.revision && is_later {
        return There::RolledBack;
    }
    There::SomethingElse
}
