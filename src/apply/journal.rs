//! What a plan means for the journal. Pure: only the time comes in.

use std::collections::BTreeSet;

use crate::journal::{Bad, Commit, Hold, InFlight, Initiator, Journal};
use crate::observe::State;
use crate::plan::{Direction, Plan, Step};
use crate::revision::Digest;
use crate::timestamp::Timestamp;

/// The journal as it will be recorded, with what the initiator's request means for it.
pub(super) fn next_journal(
    plan: &Plan,
    state: &State,
    direction: Direction,
    initiator: &Initiator,
    now: Timestamp,
) -> Journal {
    let mut journal = state.journal.clone();
    let Some(target) = &plan.target else { return journal };
    if let Some(ours) = target.ours() {
        journal.saw(ours.generation);
    }
    match (direction, initiator) {
        (Direction::Apply, Initiator::Person) => {
            if let Some(revision) = &plan.revision {
                journal.hold = None;
                journal.bad.remove(revision);
            }
        }
        (Direction::Restore, Initiator::Person) => hold(&mut journal, "schedpatch restore", now),
        (Direction::LastGood | Direction::AfterFailure | Direction::Sealed, Initiator::Person) => {
            hold(&mut journal, "schedpatch restore --to last-good", now);
        }
        (_, Initiator::AgentAfterFailure { revision, reason, original }) => {
            // also where somebody else took it out meanwhile: it failed all the same
            let digest = state.journal.current.as_ref().filter(|commit| commit.revision == *revision);
            let digest = digest.and_then(|commit| commit.digest);
            let (reason, retries) = (reason.clone(), journal.retries);
            let bad = Bad {
                reason,
                since: now,
                original: *original,
                digest,
                retries,
                is_reported: false,
                by_preflight: false,
            };
            let is_marked = |own: &Bad| own.original.is_none() || own.original == bad.original;
            if !journal.bad.get(revision).is_some_and(is_marked) {
                journal.bad.insert(revision.clone(), bad);
            }
        }
        (Direction::Apply, Initiator::Agent) if plan.commit().is_some() => {
            // a mark for another original does not hold any more
            let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
            journal = original.into_iter().fold(journal, Journal::with_marks_for);
        }
        (_, Initiator::Agent) | (Direction::Nudge | Direction::Judge, Initiator::Person) => {}
    }
    if direction == Direction::Apply {
        adopt(&mut journal, plan, now);
    }
    // somebody else took ours out before us
    let goes_back = !matches!(direction, Direction::Apply | Direction::Judge);
    let is_out = goes_back && target.ours().is_none() && plan.commit().is_none();
    if is_out { journal.cleared() } else { journal }
}

/// The journal with the intent: a hold and bad marks go only when the commit has happened.
pub(super) fn before_commit(journal: &Journal, state: &State, direction: Direction) -> Journal {
    if direction != Direction::Apply {
        return journal.clone();
    }
    Journal { hold: state.journal.hold.clone(), bad: state.journal.bad.clone(), ..journal.clone() }
}

/// Takes for current what others have added to our text since, or a commit that a lost journal knew: our edit is in place.
fn adopt(journal: &mut Journal, plan: &Plan, now: Timestamp) {
    let Some(target) = &plan.target else { return };
    let (Some(ours), Some(revision), Some(original)) = (target.ours(), &plan.revision, &plan.original) else { return };
    if plan.commit().is_some() || journal.is_current(target.digest) {
        return;
    }
    let known = journal.current.as_ref().filter(|commit| commit.generation == ours.generation);
    let since = known.map_or(now, |commit| commit.since);
    journal.target = Some(target.path.clone());
    journal.original = Some(Digest::of_bytes(original.as_bytes()));
    journal.current = Some(Commit {
        revision: revision.clone(),
        generation: ours.generation,
        digest: plan.digest,
        text: target.digest,
        files: plan.files.clone(),
        since,
    });
}

fn hold(journal: &mut Journal, by: &str, since: Timestamp) {
    journal.hold.get_or_insert_with(|| Hold { by: by.to_owned(), since });
}

/// What is about to happen. Only a patched text has a generation.
pub(super) fn flight(plan: &Plan, step: &Step, restarts: Option<String>, now: Timestamp) -> InFlight {
    let to = Digest::of_bytes(&step.after);
    let commit = match (&plan.revision, plan.generation) {
        (Some(revision), Some(generation)) => {
            let (revision, digest, files) = (revision.clone(), plan.digest, plan.files.clone());
            Some(Commit { revision, generation, digest, text: to, files, since: now })
        }
        _ => None,
    };
    let original = plan.original.as_ref().filter(|_| commit.is_some());
    InFlight {
        from: Digest::of_bytes(step.before.as_deref().unwrap_or_default()),
        to,
        commit,
        original: original.map(|text| Digest::of_bytes(text.as_bytes())),
        since: now,
        restarts,
    }
}

/// The texts that the journal names, or will, and that may not be on the disk: the original, and the text in place if it is good.
pub(super) fn texts_to_save<'p>(plan: &'p Plan, state: &State, journal: &Journal) -> Vec<&'p str> {
    let commits = plan.commit().is_some() && plan.generation.is_some();
    let stands = plan.target.as_ref().filter(|target| journal.is_current(target.digest));
    let good = stands.filter(|target| journal.last_good.as_ref().is_some_and(|good| good.text == target.digest));
    let original = plan.original.as_deref().filter(|_| commits || stands.is_some());
    let named = if state.was_interrupted() { BTreeSet::new() } else { state.recorded.texts() };
    let is_kept = |digest: &Digest| named.contains(digest) && state.texts.contains_key(digest);
    let texts = original.into_iter().chain(good.map(|target| target.text.as_str()));
    texts.filter(|text| !is_kept(&Digest::of_bytes(text.as_bytes()))).collect()
}
