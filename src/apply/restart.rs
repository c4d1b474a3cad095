//! The restart that makes a new target effective where nobody notices it by itself: asked for once, through any crash.
//!
//! The intent of a commit says what ran before it. From then on the restart is due; it has happened once something else runs,
//! whoever asked for it. So a run that was killed before it asked, or before it noted that it did, neither forgets the restart
//! nor asks twice.

use super::error::ApplyError;
use super::store::Store;
use super::{Plan, Writer};
use crate::journal::Journal;
use crate::plan::{StepKind, TargetNow};
use crate::target::Restarter;

/// What runs before a commit that a restart must follow.
pub(super) fn running_before(writer: &Writer<'_>, plan: &Plan) -> Result<Option<String>, ApplyError> {
    let Some((target, restarter)) = restarter(plan) else { return Ok(None) };
    let running = restarter.instance(writer.root.path());
    running.map(Some).map_err(|why| failed("find out what runs for", target, why, false))
}

/// Asks for the restart that the plan has, unless one is under way.
pub(super) fn ask(
    writer: &Writer<'_>,
    plan: &Plan,
    store: &Store<'_>,
    journal: &Journal,
    committed: bool,
) -> Result<(), ApplyError> {
    let is_planned = plan.steps().iter().any(|step| step.kind == StepKind::Restart);
    let Some((target, restarter)) = restarter(plan).filter(|_| is_planned) else { return Ok(()) };
    let root = writer.root.path();
    let asked = restarter.is_pending(root).and_then(|pending| if pending { Ok(()) } else { restarter.restart(root) });
    asked.map_err(|why| failed("restart the scheduler of", target, why, committed))?;
    store.write_journal(&journal.clone().issued())
}

fn restarter(plan: &Plan) -> Option<(&TargetNow, &'static dyn Restarter)> {
    let target = plan.target.as_ref()?;
    Some((target, target.kind.activation(&target.spec).restarter()?))
}

fn failed(doing: &'static str, target: &TargetNow, why: String, committed: bool) -> ApplyError {
    ApplyError::Io { doing, path: target.path.to_string(), error: std::io::Error::other(why), committed }
}
