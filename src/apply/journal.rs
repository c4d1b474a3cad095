//! What a plan means for the journal. Pure: only the time comes in.

use crate::journal::{Asker, Bad, Commit, Hold, InFlight, Journal};
use crate::observe::State;
use crate::plan::{Direction, Plan, Step};
use crate::revision::Digest;
use crate::stamp::Stamp;

/// The journal as it stands, once work in flight is judged and the asker's word is taken.
pub(super) fn noted(plan: &Plan, state: &State, direction: Direction, asker: &Asker, now: Stamp) -> Journal {
    let mut journal = state.journal.clone();
    let Some(target) = &plan.target else { return journal };
    journal = journal.settled(&target.path, target.digest);
    if let Some(ours) = target.ours() {
        journal.saw(ours.generation);
    }
    match (direction, asker) {
        (Direction::Apply, Asker::Person) => {
            if let Some(revision) = &plan.revision {
                journal.hold = None;
                journal.bad.remove(revision);
            }
        }
        (Direction::Restore, Asker::Person) => hold(&mut journal, "schedpatch restore", now),
        (Direction::LastGood, Asker::Person) => hold(&mut journal, "schedpatch restore --to last-good", now),
        (_, Asker::AgentAfterFailure(reason)) => {
            if let Some(ours) = target.ours() {
                let bad = || Bad { reason: reason.clone(), since: now };
                journal.bad.entry(ours.revision.clone()).or_insert_with(bad);
            }
        }
        (_, Asker::Agent) | (Direction::Nudge, Asker::Person) => {}
    }
    if direction == Direction::Apply {
        adopt(&mut journal, plan, now);
    }
    // somebody else took ours out before us
    let is_out = direction != Direction::Apply && target.ours().is_none() && plan.commit().is_none();
    if is_out { journal.cleared() } else { journal }
}

/// The journal with the intent: a hold and bad marks go only when the commit has happened.
pub(super) fn before_commit(journal: &Journal, state: &State, direction: Direction) -> Journal {
    if direction != Direction::Apply {
        return journal.clone();
    }
    Journal { hold: state.journal.hold.clone(), bad: state.journal.bad.clone(), ..journal.clone() }
}

/// What others have added to our text since, or a commit that a lost journal knew, is taken for current: our edit stands.
fn adopt(journal: &mut Journal, plan: &Plan, now: Stamp) {
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

fn hold(journal: &mut Journal, by: &str, since: Stamp) {
    journal.hold.get_or_insert_with(|| Hold { by: by.to_owned(), since });
}

/// What is about to happen. Only a patched text has a generation.
pub(super) fn flight(plan: &Plan, step: &Step, now: Stamp) -> InFlight {
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
    }
}

/// The original, where the journal will name it and may not have named it before.
pub(super) fn new_original<'p>(plan: &'p Plan, state: &State, journal: &Journal) -> Option<&'p str> {
    let commits = plan.commit().is_some() && plan.generation.is_some();
    let adopts = plan.target.as_ref().is_some_and(|target| journal.is_current(target.digest));
    plan.original.as_deref().filter(|text| (commits || adopts) && is_new(text, state))
}

/// Whether a text may not be on the disk: no journal that is settled names it.
pub(super) fn is_new(text: &str, state: &State) -> bool {
    state.journal.in_flight.is_some() || !state.journal.texts().contains(&Digest::of_bytes(text.as_bytes()))
}
