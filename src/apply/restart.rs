//! The restart that makes a new target effective where nobody notices it by itself: asked for once, through any crash.
//!
//! The intent of a commit says what ran before it. From then on the restart is due; it has happened once something else runs,
//! whoever asked for it. So a run that was killed before it asked, or before it noted that it did, neither forgets the restart
//! nor asks twice. Where the new text must be loaded first, a start before that does not count: then what runs is noted once more
//! when the text is loaded.

use super::error::ApplyError;
use super::store::Store;
use super::{Plan, Writer};
use crate::journal::Journal;
use crate::plan::{Direction, StepKind, TargetNow};
use crate::revision::Digest;
use crate::target::{Activation, NotLoaded, Restartable, Restarter};

/// What runs before a commit that a restart must follow.
pub(super) fn running_before(writer: &Writer<'_>, plan: &Plan) -> Result<Option<String>, ApplyError> {
    let Some((target, restarter)) = restarter(plan) else { return Ok(None) };
    let running = restarter.instance(&at(writer, target));
    running.map(Some).map_err(|why| failed("find out what runs for", target, why, false))
}

/// Asks for the restart that the plan has, unless one is under way.
pub(super) fn ask(
    writer: &Writer<'_>,
    plan: &Plan,
    store: &Store<'_>,
    mut journal: Journal,
    committed: bool,
) -> Result<(), ApplyError> {
    let is_planned = plan.steps().iter().any(|step| step.kind == StepKind::Restart);
    let Some((target, restarter)) = restarter(plan).filter(|_| is_planned) else { return Ok(()) };
    let at = at(writer, target);
    let failed = |why| failed("restart the scheduler of", target, why, committed);
    let is_new = restarter.must_load() && !journal.is_loaded();
    if is_new {
        restarter.load(&at, plan.loads.as_deref()).map_err(|error| match error {
            NotLoaded::Unasked(why) => failed(why),
            NotLoaded::Overridden(why) => not_loaded(target, why),
        })?;
        journal = journal.loaded(&restarter.instance(&at).map_err(failed)?);
        store.write_journal(&journal)?;
        store.sync_journal()?;
    }
    // a run that was killed may have asked already; but a start that was under way before the text was loaded has another one
    if is_new || !restarter.is_pending(&at).map_err(failed)? {
        restarter.restart(&at).map_err(failed)?;
    }
    store.write_journal(&journal.issued())
}

/// Before the files of our edit are removed: whoever starts the scheduler must not need them any more. `runs` is the text that the
/// scheduler is seen to run with, where it was seen to run with our edit right before that was removed. Where a person restarts it, and
/// nobody may ask who starts it, that shows the same: only a reload after the removal lets it start without the edit.
pub fn let_go(writer: &Writer<'_>, plan: &Plan, runs: Option<Digest>) -> Result<(), ApplyError> {
    let Some(target) = &plan.target else { return Ok(()) };
    let activation = target.kind.activation(&target.spec);
    let (Activation::Restart(restarter) | Activation::Person(restarter)) = activation else { return Ok(()) };
    let done = restarter.let_go(&at(writer, target));
    let is_by_person = matches!(activation, Activation::Person(_));
    if is_by_person && plan.commit().is_none() && target.ours().is_none() && runs == Some(target.digest) {
        return Ok(());
    }
    done.map_err(|why| ApplyError::StillLoaded { path: target.path.to_string(), why })
}

/// Where a person restarts the scheduler, it must start with what came back also if it ends by itself before that.
pub(super) fn let_go_for_person(writer: &Writer<'_>, plan: &Plan) {
    let target = plan.target.as_ref();
    if target.is_some_and(|target| matches!(target.kind.activation(&target.spec), Activation::Person(_))) {
        // the person lets systemd read its units in any case
        let _ = let_go(writer, plan, None);
    }
}

/// Lets whoever starts the scheduler read the target without a restart: its text says what runs already.
pub(super) fn load(writer: &Writer<'_>, plan: &Plan) -> Result<(), ApplyError> {
    let Some((target, restarter)) = restarter(plan).filter(|(_, restarter)| restarter.must_load()) else {
        return Ok(());
    };
    let loaded = restarter.load(&at(writer, target), plan.loads.as_deref());
    loaded.map_err(|error| failed("have the new text loaded of", target, error.into_words(), true))
}

/// Refuses a new text that whoever starts the scheduler would not start it with, before anything is written. The way back is never
/// refused.
pub(super) fn refuse_unreadable(writer: &Writer<'_>, plan: &Plan, direction: Direction) -> Result<(), ApplyError> {
    let Some((target, restarter)) = restarter(plan).filter(|_| !direction.is_way_back()) else { return Ok(()) };
    restarter.why_unreadable(&at(writer, target)).map_or(Ok(()), |why| Err(not_loaded(target, why)))
}

fn at<'a>(writer: &'a Writer<'_>, target: &'a TargetNow) -> Restartable<'a> {
    Restartable { host_root: writer.root.path(), target: &target.path, spec: &target.spec }
}

fn restarter(plan: &Plan) -> Option<(&TargetNow, &'static dyn Restarter)> {
    let target = plan.target.as_ref()?;
    Some((target, target.kind.activation(&target.spec).restarter()?))
}

fn not_loaded(target: &TargetNow, why: String) -> ApplyError {
    ApplyError::NotLoaded { path: target.path.to_string(), why }
}

fn failed(doing: &'static str, target: &TargetNow, why: String, committed: bool) -> ApplyError {
    ApplyError::Service { doing, path: target.path.to_string(), why, committed }
}
