//! A text on trial: it is in another place than the target, and a restart of the host forgets it. Once it is proven it is written
//! into the target, and the other place is cleared.

use super::error::ApplyError;
use super::store::Store;
use super::target::{Meanwhile, Target};
use super::{Writer, restart};
use crate::host::HostPath;
use crate::journal::Journal;
use crate::observe::Snapshot;
use crate::plan::{Plan, PlannedTrial, StepKind};

/// Puts a text on trial in one rename; the target itself must be what the text was made from.
pub(super) fn put(
    writer: &Writer<'_>,
    plan: &Plan,
    (place, content): (&HostPath, &[u8]),
    target: &Target,
) -> Result<Meanwhile, ApplyError> {
    let Some(step) = plan.commit() else { return target.untouched(&[]) };
    Target::make_dir(writer.fs, writer.root, place)?;
    let meanwhile = target.untouched(plan.on_disk(step))?;
    let at = Target::open(writer.root, place)?;
    at.put_beside(writer.fs, place.name(), content, step.access)?;
    at.sync_dir(writer.fs).map_err(ApplyError::after_commit)?;
    Ok(meanwhile)
}

/// Clears the place of a trial.
pub(super) fn remove(writer: &Writer<'_>, place: &HostPath) -> Result<(), ApplyError> {
    let at = Target::open(writer.root, place)?;
    at.remove(writer.fs)?;
    at.sync_dir(writer.fs)
}

/// Writes a proven text into the target, and clears the place of its trial. Whether there was one.
pub(super) fn keep(writer: &Writer<'_>, plan: &Plan) -> Result<bool, ApplyError> {
    let (Some(trial), Some(step)) = (&plan.trial, plan.steps().iter().find(|step| step.kind == StepKind::Keep)) else {
        return Ok(false);
    };
    let before = plan.on_disk(step);
    if before != step.after {
        if before.is_empty() {
            Target::make_dir(writer.fs, writer.root, &step.path)?;
        }
        let target = Target::open(writer.root, &step.path)?;
        let successor = target.stage(writer.fs, before, &step.after)?;
        successor.sync()?;
        target.replace(writer.fs, before, successor)?;
    }
    remove(writer, &trial.place)?;
    Ok(true)
}

/// Takes a text from trial that whoever starts the scheduler does not load: nothing was restarted, so the scheduler goes on as before.
/// Whether there was one. `journal` is what was noted of it.
pub(super) fn take_back(
    writer: &Writer<'_>,
    (plan, snapshot): (&Plan, &Snapshot),
    store: &Store<'_>,
    journal: &Journal,
) -> Result<bool, ApplyError> {
    let (place, before) = if plan.commit().is_some() {
        let tried = plan.trial.as_ref().filter(|trial| trial.content.is_some());
        (tried.map(|trial| &trial.place), snapshot.state.journal.clone())
    } else {
        // an earlier run was killed before it could take it back
        let mut files = snapshot.facts.files();
        let file = plan.target.as_ref().and_then(|target| files.find(|file| file.path == target.path));
        let tried = file.and_then(|file| file.trial.as_ref()).filter(|trial| !trial.is_stale);
        (tried.map(|trial| &trial.place), Journal { restart: None, ..journal.clone() })
    };
    let Some(place) = place else { return Ok(false) };
    remove(writer, place)?;
    // where nobody can be asked, the command line that is loaded is not the one on trial either
    let _ = restart::let_go(writer, plan, None);
    let mut before = before;
    before.saw(journal.generation);
    store.write_journal(&before)?;
    store.sync_journal()?;
    Ok(true)
}

/// Clears the place of a trial that means nothing any more. Whether there was one.
pub(super) fn clear_stale(writer: &Writer<'_>, plan: &Plan) -> Result<bool, ApplyError> {
    let Some(PlannedTrial { place, is_stale: true, .. }) = &plan.trial else { return Ok(false) };
    remove(writer, place).map(|()| true)
}
