//! What the commands that write have in common: progress as it happens, and a last line.

use std::process::ExitCode;
use std::time::{SystemTime, UNIX_EPOCH};

use super::output::{fail, print, print_error};
use super::{apply, restore};
use crate::apply::{Done, ForeignWrite, RealFs};
use crate::finding::{Finding, Level};
use crate::plan::{self, Colour, Plan};
use crate::reconcile::{self, Env, Event, Outcome, Request};
use crate::timestamp::Timestamp;

/// Whose last line is printed.
#[derive(Clone, Copy, Debug)]
pub(super) enum Command {
    Apply,
    Restore,
}

/// Runs one pass and prints each step as it is done.
pub(super) fn run(request: &Request<'_>, colour: Colour, command: Command) -> ExitCode {
    let env = Env { fs: &RealFs, clock: &now };
    let outcome = reconcile::run(request, &env, &mut |event| {
        print(&line(&event), ExitCode::SUCCESS);
    });
    let outcome = match outcome {
        Ok(outcome) => outcome,
        Err(finding) => return fail(&[finding], colour),
    };
    if outcome.plan.is_refused() {
        return fail(&outcome.plan.findings, colour);
    }
    let restart_failed = outcome.receipt.as_ref().and_then(|receipt| receipt.restart_failed.as_ref());
    if let Some(finding) = restart_failed.or(outcome.still_loaded.as_ref()).cloned() {
        return fail(&[finding], colour);
    }
    let uncollected = outcome.receipt.as_ref().and_then(|receipt| receipt.uncollected.clone());
    let uncollected = uncollected.map(|finding| Finding { level: Level::Warning, ..finding });
    let findings = outcome.plan.findings.iter().cloned().chain(foreign_write(&outcome)).chain(uncollected);
    let text = plan::show_findings(&findings.collect::<Vec<_>>(), colour);
    let last = match command {
        Command::Apply => apply::summary(&outcome),
        Command::Restore => restore::summary(&outcome),
    };
    print(&format!("{text}{last}\n"), ExitCode::SUCCESS)
}

/// Says what would be done, and what would be refused.
pub(super) fn dry_run(request: &Request<'_>, colour: Colour) -> ExitCode {
    match reconcile::dry_run(request) {
        Ok(plan) if plan.is_refused() => print_error(&plan::show(&plan, colour)),
        Ok(plan) => print(&plan::show(&plan, colour), ExitCode::SUCCESS),
        Err(finding) => fail(&[finding], colour),
    }
}

fn line(event: &Event<'_>) -> String {
    plan::visible(&words(event)) + "\n"
}

fn words(event: &Event<'_>) -> String {
    match event {
        Event::Planned(plan) => {
            let target = plan.target.as_ref().map_or("", |target| target.path.as_str());
            format!("target      {target} ({})", plan.platform.unwrap_or_default())
        }
        Event::Waiting(holder) => format!("waiting     for another schedpatch: {holder}"),
        Event::Again(path) => format!("again       {path} was changed by somebody else meanwhile"),
        Event::Done(Done::Wrote(path)) => format!("wrote       {path}"),
        Event::Done(Done::Replaced(path)) => format!("replaced    {path}"),
        Event::Done(Done::Collected(revision)) => format!("removed     the old revision {revision}"),
    }
}

/// What happens next.
pub(super) fn what_follows(plan: &Plan) -> String {
    plan.target.as_ref().map_or_else(String::new, |target| target.kind.what_follows(&target.spec))
}

/// What others did in the instant of the commit.
fn foreign_write(outcome: &Outcome) -> Option<Finding> {
    let receipt = outcome.receipt.as_ref().filter(|receipt| receipt.committed);
    let finding = match receipt.map(|receipt| receipt.foreign_write) {
        Some(ForeignWrite::Lost) => overwritten(receipt.and_then(|receipt| receipt.kept.as_deref())),
        Some(ForeignWrite::Unwatched) => Finding::info(
            "unwatched",
            "the system gave no watch, so a change by others in the instant of the commit would not have been noticed",
            "raise fs.inotify.max_user_instances and max_user_watches",
        ),
        _ => return None,
    };
    let path = outcome.plan.target.as_ref().map(|target| target.path.clone()).unwrap_or_default();
    Some(finding.in_file(path))
}

/// Somebody else's write that our commit replaced.
fn overwritten(kept: Option<&str>) -> Finding {
    let message = "somebody else wrote the manifest in the instant before it was replaced";
    match kept {
        Some(path) => {
            let way_out =
                format!("their text is kept in {path}: compare it with the manifest, and have them write it again");
            Finding::warning("overwritten", message, way_out)
        }
        None => Finding::warning(
            "overwritten",
            format!("{message}, and what they wrote is lost"),
            "have them write it again: it will then be kept",
        ),
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line is where the clock is read")]
pub(super) fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    Timestamp::from_unix(since.map_or(0, |since| since.as_secs()))
}
