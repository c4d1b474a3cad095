//! Stage 3: the only code that writes to the host.
//!
//! The order makes it safe to be killed at any instant: first what the journal will name, then the journal with what is
//! about to happen, then the files that the new manifest refers to, then the manifest, in one rename; then the journal
//! again, then the restart of a scheduler that nobody else restarts, and last the removal of unused files. The next run, after a kill or not, judges by the manifest what happened.

mod deadline;
mod error;
mod foreign_write;
mod garbage;
mod guard;
mod host_fs;
mod journal;
mod lock;
mod preflight;
mod purge;
mod replace;
mod restart;
mod store;
mod target;
mod trial;

use std::collections::BTreeMap;

pub use deadline::Deadline;
pub use error::ApplyError;
pub use foreign_write::ForeignWrite;
pub use host_fs::{HostFs, NewFile, RealFs};
pub use lock::{Claim, Lock};
pub use preflight::{begin_preflight, end_preflights};
pub use purge::{purge, refuse_if_used};
pub use restart::let_go;

use crate::finding::Finding;
use crate::host::Root;
use crate::journal::{Initiator, Journal};
use crate::observe::{Snapshot, State};
use crate::plan::{Direction, Plan, Step, StepKind};
use crate::revision::Digest;
use crate::timestamp::Timestamp;
use garbage::Garbage;
use replace::Staged;
use store::{RevisionDir, Store};
use target::{Meanwhile, Successor, Target};

/// A writer, which needs the lock.
pub struct Writer<'a> {
    /// The way to the host
    pub fs: &'a dyn HostFs,
    /// The host's root
    pub root: &'a Root,
    /// The right to write
    pub lock: &'a Lock,
    /// The time, for the journal
    pub now: Timestamp,
    /// The target is replaced before this, or not at all
    pub deadline: Option<Deadline>,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("root", self.root).field("lock", self.lock).finish_non_exhaustive()
    }
}

/// A change that was made, reported as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done<'a> {
    /// A file of a revision
    Wrote(&'a str),
    /// The target
    Replaced(&'a str),
    /// An unused revision was removed
    Collected(&'a str),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Whether the target was replaced
    pub committed: bool,
    /// What others did to it in that instant
    pub foreign_write: ForeignWrite,
    /// Where what they wrote is kept, if it could be
    pub kept: Option<String>,
    /// Why the scheduler could not be restarted, where that is needed: the next pass tries again
    pub restart_failed: Option<Finding>,
    /// Why unused files could not be removed
    pub uncollected: Option<Finding>,
}

/// Whether there is nothing to do at all: nothing to write, nothing to note, nothing to clean up.
pub fn is_settled(plan: &Plan, snapshot: &Snapshot, direction: Direction, initiator: &Initiator) -> bool {
    is_recorded(plan, snapshot, direction, initiator) && Garbage::of(&snapshot.state.journal, snapshot, plan).is_empty()
}

/// Like [`is_settled`], but unused files may be left to remove.
pub fn is_recorded(plan: &Plan, snapshot: &Snapshot, direction: Direction, initiator: &Initiator) -> bool {
    let state = &snapshot.state;
    let has_leftover = plan.target.as_ref().is_some_and(|target| snapshot.facts.has_leftover(&target.path));
    let journal = journal::next_journal(plan, state, direction, initiator, Timestamp::default());
    plan.steps().is_empty()
        && state.leftovers.is_empty()
        && state.closed.is_empty()
        && plan.exposed.is_empty()
        && plan.trial.is_none()
        && state.damaged.is_none()
        && !has_leftover
        && snapshot.facts.preflights.is_empty()
        && journal == state.recorded
        && journal::texts_to_save(plan, state, &journal).is_empty()
}

/// Says what the writer would refuse, without writing.
pub fn check(root: &Root, state_dir: &str, plan: &Plan) -> Result<(), ApplyError> {
    let Some(now) = &plan.target else { return Ok(()) };
    if now.text.is_empty() && Target::needs_dir(root, &now.path) {
        return Ok(());
    }
    let target = Target::open(root, &now.path)?;
    target.refuse_within(root, state_dir)?;
    if let Ok(dir) = root.dir(state_dir) {
        guard::refuse_if_others_may_write(&dir)?;
        guard::refuse_if_unwritable(&dir)?;
    }
    match plan.commit() {
        Some(step) => target.check(plan.on_disk(step)),
        None => Ok(()),
    }
}

/// Carries a plan out. The plan must have been made under the lock.
pub fn carry_out(
    writer: &Writer<'_>,
    plan: &Plan,
    snapshot: &Snapshot,
    (direction, initiator): (Direction, &Initiator),
    on_event: &mut dyn FnMut(Done<'_>),
) -> Result<Receipt, ApplyError> {
    check(writer.root, writer.lock.state.path(), plan)?;
    let Writer { fs, root, now, .. } = *writer;
    let state = &snapshot.state;
    let interrupted = state.was_interrupted();
    let store = Store::open(writer, !state.is_known || interrupted)?;
    tidy_up(writer, plan, snapshot, direction, &store)?;
    let mut is_to_load = trial::clear_stale(writer, plan)?;
    let mut journal = journal::next_journal(plan, state, direction, initiator, now);
    let mut on_disk = state.recorded.clone();
    store.keep_texts(&journal::texts_to_save(plan, state, &journal), &state.texts)?;
    let mut receipt = Receipt {
        committed: false,
        foreign_write: ForeignWrite::None,
        kept: None,
        restart_failed: None,
        uncollected: None,
    };
    let mut meanwhile = None;
    if let Some(step) = plan.commit() {
        restart::refuse_unreadable(writer, plan, direction)?;
        let restarts = restart::running_before(writer, plan)?;
        journal = journal.intending(step.path.clone(), journal::flight(plan, step, restarts, now));
        on_disk = journal::before_commit(&journal, state, direction);
        let done = commit(writer, &store, (plan, step), state, &on_disk, on_event)?;
        (receipt.committed, meanwhile) = (true, Some((done, step)));
        on_event(Done::Replaced(&step.path));
        journal = journal.settled(Digest::of_bytes(&step.after));
    } else {
        repair(&store, plan, state, on_event)?;
        is_to_load = trial::keep(writer, plan)?;
    }
    if let (true, false, Some(target)) = (interrupted, receipt.committed, &plan.target) {
        // the interrupted run may have replaced it and not have come to sync it
        Target::open(root, &target.path)?.sync_dir(fs)?;
    }
    let garbage = Garbage::of(&journal, snapshot, plan);
    let is_last_word = journal != on_disk && !receipt.committed;
    note(&store, &journal, journal != on_disk, is_last_word || !garbage.texts.is_empty())
        .map_err(|error| if receipt.committed { error.after_commit() } else { error })?;
    if let Some((meanwhile, step)) = meanwhile {
        let (foreign_write, overwritten) = meanwhile.look_again(plan.on_disk(step));
        receipt.foreign_write = foreign_write;
        receipt.kept = overwritten.and_then(|text| store.keep_overwritten(&text).ok());
    }
    let asked = if is_to_load && !receipt.committed { restart::load(writer, plan) } else { Ok(()) };
    let asked = asked.and_then(|()| restart::ask(writer, plan, &store, journal.clone(), receipt.committed));
    if matches!(asked, Err(ApplyError::NotLoaded { .. }))
        && trial::take_back(writer, (plan, snapshot), &store, &journal)?
    {
        return asked.map(|()| receipt);
    }
    if receipt.committed && direction.is_way_back() {
        restart::let_go_for_person(writer, plan);
    }
    receipt.restart_failed = asked.err().map(|error| error.finding());
    receipt.uncollected = garbage.remove(&store, on_event).err().map(|error| error.after_commit().finding());
    Ok(receipt)
}

/// Records that the text in place was seen to run; `false` if the manifest has changed meanwhile.
pub fn prove(writer: &Writer<'_>, plan: &Plan, snapshot: &Snapshot, text: Digest) -> Result<bool, ApplyError> {
    let (state, Some(target)) = (&snapshot.state, &plan.target) else { return Ok(false) };
    let is_on_target = state.journal.target.as_ref() == Some(&target.path);
    if target.digest != text || !is_on_target || !state.journal.is_current(text) {
        return Ok(false);
    }
    let journal = state.journal.clone().proven(text);
    if journal == state.recorded {
        return Ok(true);
    }
    let interrupted = state.was_interrupted();
    let store = Store::open(writer, interrupted)?;
    if interrupted {
        Target::open(writer.root, &target.path)?.sync_dir(writer.fs)?;
    }
    store.keep_texts(&journal::texts_to_save(plan, state, &journal), &state.texts)?;
    note(&store, &journal, true, true)?;
    // what cannot be removed now is removed by the next pass that writes; a preflight may use files that nothing else names yet
    if snapshot.facts.preflights.is_empty() {
        let _ = Garbage::of(&journal, snapshot, plan).remove(&store, &mut |_| {});
    }
    Ok(true)
}

/// Closes files of ours that everybody may read.
pub fn tighten(writer: &Writer<'_>, plan: &Plan) -> Result<(), ApplyError> {
    Store::open(writer, false)?.tighten(writer.root, &plan.exposed)
}

/// Changes what is remembered, and nothing else; `false` where that is nothing new.
pub fn amend(writer: &Writer<'_>, state: &State, change: &dyn Fn(Journal) -> Journal) -> Result<bool, ApplyError> {
    let journal = change(state.recorded.clone());
    if state.damaged.is_some() || journal == state.recorded {
        return Ok(false);
    }
    let store = Store::open(writer, !state.is_known || state.was_interrupted())?;
    note(&store, &journal, true, true)?;
    Ok(true)
}

/// Removes the mark of a revision; `false` if there is none.
pub fn forgive(writer: &Writer<'_>, state: &State, revision: &str) -> Result<bool, ApplyError> {
    let mut journal = state.recorded.clone();
    if state.damaged.is_some() || journal.bad.remove(revision).is_none() {
        return Ok(false);
    }
    let store = Store::open(writer, state.was_interrupted())?;
    note(&store, &journal, true, true)?;
    Ok(true)
}

/// Writes down what was done. After a commit that need not last: the intent and the manifest tell the same. But where the
/// note is all there is, or an earlier journal that may still come back relies on what is removed next, it must be on the
/// disk. A text is relied on; a revision that goes was at most among the last three.
fn note(store: &Store<'_>, journal: &Journal, is_news: bool, must_last: bool) -> Result<(), ApplyError> {
    if is_news {
        store.write_journal(journal)?;
    }
    if must_last { store.sync_journal() } else { Ok(()) }
}

/// Puts our own directory in order before anything new is written.
fn tidy_up(
    writer: &Writer<'_>,
    plan: &Plan,
    snapshot: &Snapshot,
    direction: Direction,
    store: &Store<'_>,
) -> Result<(), ApplyError> {
    let Snapshot { state, facts, .. } = snapshot;
    if state.damaged.is_some() {
        store.set_aside()?;
    }
    store.make_enterable(writer.root, &state.closed)?;
    match store.tighten(writer.root, &plan.exposed) {
        // the way back must not fail for that
        Err(_) if direction != Direction::Apply => {}
        tightened => tightened?,
    }
    store.sweep(writer.root, &state.leftovers)?;
    preflight::end_preflights(writer, snapshot)?;
    match plan.target.as_ref().filter(|target| facts.has_leftover(&target.path)) {
        Some(target) => Target::open(writer.root, &target.path)?.sweep(writer.fs),
        None => Ok(()),
    }
}

/// Replaces the target, once all that it refers to and the intent are on the disk. All is written before anything is synced:
/// most file systems sync more than they are asked for, and have little left to do then.
fn commit(
    writer: &Writer<'_>,
    store: &Store<'_>,
    (plan, step): (&Plan, &Step),
    state: &State,
    intent: &Journal,
    on_event: &mut dyn FnMut(Done<'_>),
) -> Result<Meanwhile, ApplyError> {
    let before = plan.on_disk(step);
    let tried = plan.trial.as_ref().and_then(|trial| Some((&trial.place, trial.content.as_deref()?)));
    if before.is_empty() {
        Target::make_dir(writer.fs, writer.root, &step.path)?;
    }
    let target = Target::open(writer.root, &step.path)?;
    let intent = store.stage_journal(intent)?;
    let revision = revision_to_write(store, plan, state)?;
    let files = revision.as_ref().map(|dir| store.stage_files(dir, &files_of(plan))).transpose()?.unwrap_or_default();
    let successor = if tried.is_none() { Some(target.stage(writer.fs, before, &step.after)?) } else { None };
    intent.sync()?;
    files.iter().try_for_each(Staged::sync)?;
    successor.iter().try_for_each(Successor::sync)?;
    intent.put()?;
    files.into_iter().try_for_each(Staged::put)?;
    store.sync_journal()?;
    if let Some(dir) = &revision {
        store.sync_revision(dir)?;
        report_files(plan, on_event);
    }
    if writer.deadline.is_some_and(|deadline| deadline.is_over()) {
        return Err(ApplyError::TooLate { path: String::from(&step.path) });
    }
    let meanwhile = match (tried, successor) {
        (Some(tried), _) => return trial::put(writer, plan, tried, &target),
        (None, Some(successor)) => target.replace(writer.fs, before, successor)?,
        (None, None) => target.untouched(before)?,
    };
    match &plan.trial {
        Some(trial) if !trial.is_stale => trial::remove(writer, &trial.place).map_err(ApplyError::after_commit)?,
        _ => {}
    }
    Ok(meanwhile)
}

/// Repairs files of the revision in place. Those that a killed run has left may have to reach the disk yet.
fn repair(store: &Store<'_>, plan: &Plan, state: &State, on_event: &mut dyn FnMut(Done<'_>)) -> Result<(), ApplyError> {
    let Some(dir) = revision_to_write(store, plan, state)? else { return Ok(()) };
    let staged = store.stage_files(&dir, &files_of(plan))?;
    staged.iter().try_for_each(Staged::sync)?;
    staged.into_iter().try_for_each(Staged::put)?;
    store.sync_revision(&dir)?;
    report_files(plan, on_event);
    Ok(())
}

/// The directory of the revision, unless it is known to be on the disk with all its files.
fn revision_to_write(store: &Store<'_>, plan: &Plan, state: &State) -> Result<Option<RevisionDir>, ApplyError> {
    let Some(revision) = &plan.revision else { return Ok(None) };
    let was_committed = !state.was_interrupted() && state.recorded.revisions().contains(revision.as_str());
    if was_committed && files_of(plan).is_empty() {
        return Ok(None);
    }
    store.open_revision(revision, was_committed).map(Some)
}

/// The steps that write files of the revision, by the files' names.
fn files_of(plan: &Plan) -> BTreeMap<&str, &Step> {
    let steps = plan.steps().iter().filter(|step| step.kind == StepKind::WriteFile);
    steps.map(|step| (step.path.name(), step)).collect()
}

fn report_files(plan: &Plan, on_event: &mut dyn FnMut(Done<'_>)) {
    plan.steps()
        .iter()
        .filter(|step| step.kind == StepKind::WriteFile)
        .for_each(|step| on_event(Done::Wrote(&step.path)));
}
