//! Stage 3: the only code that writes to the host.
//!
//! The order makes it safe to be killed at any instant: first what the journal will name, then the journal with what is
//! about to happen, then the files that the new manifest refers to, then the manifest, in one rename; then the journal
//! again, and last what nobody needs any more. Who comes next, after a kill or not, judges by the manifest what happened.

mod dir;
mod door;
mod error;
mod lock;
mod purge;
mod replace;
mod store;
mod target;
mod watch;

use std::collections::BTreeMap;

pub use dir::{Dir, Root, Walk};
pub use door::{Door, HostDoor, NewFile};
pub use error::ApplyError;
pub use lock::{Claim, Lock};
pub use purge::purge;
pub use watch::Slipped;

use crate::journal::{Commit, Hold, InFlight, Journal};
use crate::observe::{Snapshot, State};
use crate::plan::{Direction, Plan, Step, StepKind};
use crate::revision::Digest;
use crate::stamp::Stamp;
use store::Store;
use target::Target;

/// A writer, which needs the lock.
pub struct Writer<'a> {
    /// The way to the host
    pub door: &'a dyn Door,
    /// The host's root
    pub root: &'a Root,
    /// The right to write
    pub lock: &'a Lock,
    /// The time, for the journal
    pub now: Stamp,
}

impl std::fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("root", self.root).field("lock", self.lock).finish_non_exhaustive()
    }
}

/// A change that was made, told as it happens.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done<'a> {
    /// A file of a revision
    Wrote(&'a str),
    /// The target
    Replaced(&'a str),
    /// A revision that nobody needs any more
    Collected(&'a str),
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Receipt {
    /// Whether the target was replaced
    pub committed: bool,
    /// What others did to it in that instant
    pub slipped: Slipped,
}

/// Whether there is nothing to do at all: nothing to write, nothing to note, nothing to clean up.
pub fn is_settled(plan: &Plan, snapshot: &Snapshot, direction: Direction) -> bool {
    let state = &snapshot.state;
    let has_leftover = plan.target.as_ref().is_some_and(|target| snapshot.facts.has_leftover(&target.path));
    plan.steps.is_empty()
        && state.leftovers.is_empty()
        && !has_leftover
        && noted(plan, state, direction, Stamp::default()) == state.journal
        && Garbage::of(&state.journal, state, plan).is_empty()
}

/// Says what the writer would refuse, without writing.
pub fn check(root: &Root, plan: &Plan) -> Result<(), ApplyError> {
    let Some(Step { path, before, .. }) = plan.commit() else { return Ok(()) };
    Target::open(root, path)?.check(before.as_deref().unwrap_or_default())
}

/// Carries a plan out. The plan must have been made under the lock.
pub fn carry_out(
    writer: &Writer<'_>,
    plan: &Plan,
    snapshot: &Snapshot,
    direction: Direction,
    told: &mut dyn FnMut(Done<'_>),
) -> Result<Receipt, ApplyError> {
    check(writer.root, plan)?;
    let Writer { door, root, lock, now } = *writer;
    let state = &snapshot.state;
    let store = Store::open(door, lock)?;
    sweep(writer, plan, snapshot, &store)?;
    let mut journal = noted(plan, state, direction, now);
    let mut on_disk = state.journal.clone();
    if let Some(step) = plan.commit() {
        store.keep_texts(new_texts(plan, step, state))?;
        journal = journal.intending(&step.path, flight(plan, step, now));
        store.write_journal(&journal)?;
        store.sync_journal()?;
        on_disk = journal.clone();
    }
    write_revision(&store, plan, told)?;
    let mut receipt = Receipt { committed: false, slipped: Slipped::Nothing };
    if let Some(step) = plan.commit() {
        let target = Target::open(root, &step.path)?;
        let slipped = target.replace(door, step.before.as_deref().unwrap_or_default(), &step.after)?;
        receipt = Receipt { committed: true, slipped };
        told(Done::Replaced(&step.path));
        journal = journal.settled(Digest::of_bytes(&step.after));
    }
    finish(&store, plan, state, &journal, journal != on_disk, told)
        .map_err(|error| if receipt.committed { error.after_commit() } else { error })?;
    Ok(receipt)
}

/// Notes what was done, and removes what nobody needs any more.
fn finish(
    store: &Store<'_>,
    plan: &Plan,
    state: &State,
    journal: &Journal,
    is_news: bool,
    told: &mut dyn FnMut(Done<'_>),
) -> Result<(), ApplyError> {
    let garbage = Garbage::of(journal, state, plan);
    if is_news {
        store.write_journal(journal)?;
        if !garbage.is_empty() {
            // the journal that may still come back after a loss of power names what is removed next
            store.sync_journal()?;
        }
    }
    store.remove_texts(garbage.texts)?;
    for revision in garbage.revisions {
        store.remove_revision(revision)?;
        told(Done::Collected(revision));
    }
    Ok(())
}

fn sweep(writer: &Writer<'_>, plan: &Plan, snapshot: &Snapshot, store: &Store<'_>) -> Result<(), ApplyError> {
    if !snapshot.state.leftovers.is_empty() {
        store.sweep()?;
    }
    match plan.target.as_ref().filter(|target| snapshot.facts.has_leftover(&target.path)) {
        Some(target) => Target::open(writer.root, &target.path)?.sweep(writer.door),
        None => Ok(()),
    }
}

fn write_revision(store: &Store<'_>, plan: &Plan, told: &mut dyn FnMut(Done<'_>)) -> Result<(), ApplyError> {
    let steps = plan.steps.iter().filter(|step| step.kind == StepKind::WriteFile);
    let named =
        steps.clone().filter_map(|step| Some((step.path.rsplit('/').next()?, (step.after.as_slice(), step.mode))));
    let files: BTreeMap<_, _> = named.collect();
    if let (Some(revision), false) = (&plan.revision, files.is_empty()) {
        store.write_revision(revision, &files)?;
        steps.for_each(|step| told(Done::Wrote(&step.path)));
    }
    Ok(())
}

/// The journal as it stands, once work in flight is judged and the person's word is taken.
fn noted(plan: &Plan, state: &State, direction: Direction, now: Stamp) -> Journal {
    let mut journal = state.journal.clone();
    if let Some(target) = &plan.target {
        journal = journal.settled(target.digest);
    }
    match direction {
        Direction::Apply => {
            journal.hold = None;
            if let Some(revision) = &plan.revision {
                journal.bad.remove(revision);
            }
        }
        Direction::Restore => hold(&mut journal, "schedpatch restore", now),
        Direction::LastGood => hold(&mut journal, "schedpatch restore --to last-good", now),
    }
    journal
}

fn hold(journal: &mut Journal, by: &str, since: Stamp) {
    journal.hold.get_or_insert_with(|| Hold { by: by.to_owned(), since });
}

/// What is about to happen. Only a patched text has a generation.
fn flight(plan: &Plan, step: &Step, now: Stamp) -> InFlight {
    let to = Digest::of_bytes(&step.after);
    let commit = match (&plan.revision, plan.generation) {
        (Some(revision), Some(generation)) => {
            Some(Commit { revision: revision.clone(), generation, text: to, since: now })
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

/// The texts that the journal will name and that are not kept yet.
fn new_texts<'p>(plan: &'p Plan, step: &'p Step, state: &State) -> Vec<&'p [u8]> {
    if plan.generation.is_none() {
        return Vec::new();
    }
    let texts = plan.original.iter().map(String::as_bytes).chain([step.after.as_slice()]);
    texts.filter(|text| !state.texts.contains_key(&Digest::of_bytes(text))).collect()
}

/// What nobody needs any more.
struct Garbage<'s> {
    texts: Vec<&'s str>,
    revisions: Vec<&'s str>,
}

impl<'s> Garbage<'s> {
    /// Of what was there before, all that neither the journal nor the target as it was seen names.
    fn of(journal: &Journal, state: &'s State, plan: &Plan) -> Self {
        let texts: Vec<String> = journal.texts().iter().map(Digest::to_string).collect();
        let named = plan.target.as_ref().and_then(|target| target.ours.as_ref()).map(|ours| ours.revision.as_str());
        let mut revisions = journal.revisions();
        revisions.extend(named.into_iter().chain(plan.revision.as_deref()));
        let is_hex = |name: &str| name.bytes().all(|byte| byte.is_ascii_hexdigit());
        Self {
            texts: names(&state.text_names)
                .filter(|name| is_hex(name) && !texts.iter().any(|text| text == name))
                .collect(),
            revisions: names(&state.revisions).filter(|name| is_hex(name) && !revisions.contains(name)).collect(),
        }
    }

    fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.revisions.is_empty()
    }
}

fn names(set: &std::collections::BTreeSet<String>) -> impl Iterator<Item = &str> {
    set.iter().map(String::as_str)
}
