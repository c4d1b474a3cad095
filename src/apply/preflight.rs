//! Preflights: a file beside the target for as long as the scheduler checks a new text, and not an instant longer than that.
//!
//! A killed run leaves it there. Whoever writes next removes it, whatever it writes.

use std::collections::BTreeSet;

use super::error::ApplyError;
use super::store::Store;
use super::target::Target;
use super::{Done, Writer, check, note, repair, tidy_up};
use crate::host::HostPath;
use crate::observe::Snapshot;
use crate::plan::{Access, Direction, Plan};
use crate::target::PreflightManifest;

/// Who may read the target may read a copy of it.
const PRIVATE: Access = Access::of_mode(0o600);

/// Begins a preflight: first the journal, which gives it its number, then the files that it refers to, then its own.
pub fn begin_preflight(
    writer: &Writer<'_>,
    plan: &Plan,
    snapshot: &Snapshot,
    manifest: &PreflightManifest,
    on_event: &mut dyn FnMut(Done<'_>),
) -> Result<(), ApplyError> {
    let Some(target) = &plan.target else { return Ok(()) };
    check(writer.root, writer.lock.state.path(), plan)?;
    let state = &snapshot.state;
    let store = Store::open(writer, !state.is_known || state.was_interrupted())?;
    // earlier preflights go with the rest that a killed run may have left
    tidy_up(writer, plan, snapshot, Direction::Apply, &store)?;
    let journal = state.recorded.clone().tried(manifest.attempt);
    // a number that is given twice makes the same pod twice, and the kubelet then tells how the first one ended
    note(&store, &journal, journal != state.recorded, true)?;
    repair(&store, plan, state, on_event)?;
    Target::open(writer.root, &target.path)?.put_beside(writer.fs, &manifest.file, manifest.content.as_bytes(), PRIVATE)
}

/// Ends all preflights: their files go, and stay away through a loss of power.
pub fn end_preflights(writer: &Writer<'_>, snapshot: &Snapshot) -> Result<(), ApplyError> {
    let found = &snapshot.facts.preflights;
    for path in found {
        Target::open(writer.root, path)?.remove(writer.fs)?;
    }
    // one file of each directory stands for it
    let dirs: BTreeSet<HostPath> = found.iter().map(HostPath::parent).collect();
    for dir in dirs {
        let Some(path) = found.iter().find(|path| path.parent() == dir) else { continue };
        Target::open(writer.root, path)?.sync_dir(writer.fs)?;
    }
    Ok(())
}
