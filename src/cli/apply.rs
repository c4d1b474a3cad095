//! `schedpatch apply`: make it so, once.

use std::process::ExitCode;

use super::args::{HostArgs, LockArgs, WantedArgs};
use super::output::ColorArgs;
use super::write::{self, Command, what_follows};
use crate::journal::Initiator;
use crate::plan::Direction;
use crate::reconcile::{Outcome, Request};

const EXAMPLES: &str = "\
Examples:
  Put the configuration in ./scheduler into this node's scheduler:
    schedpatch apply --source ./scheduler

  Look first: the same checks and a diff, nothing is written
    schedpatch apply --source ./scheduler --dry-run

  A revision failed here, its cause is mended outside of the configuration:
    schedpatch apply --source ./scheduler --retry

What is up to date is left alone: applying twice restarts the scheduler once.
schedpatch status tells what is applied, schedpatch restore undoes it.

Exit codes: 0 applied or nothing to do, 1 failed, 2 wrong usage.";

/// Put your configuration into this host's scheduler
///
/// Makes the plan that `schedpatch plan` shows and carries it out: the files of the revision first, then the manifest in one
/// rename. Can be killed at any instant and run again. Ends a hold that `schedpatch restore` left.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// Say what would be done and what would be refused; write nothing
    #[arg(long)]
    dry_run: bool,

    /// Try a revision again that failed on this host
    #[arg(long)]
    retry: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    color: ColorArgs,

    #[command(flatten)]
    wanted: WantedArgs,
}

impl Args {
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty()
    }

    pub(super) fn run(self) -> ExitCode {
        let colour = self.color.resolve();
        let mut settings = self.wanted.add_to(self.host.settings());
        settings.retry = self.retry;
        let (direction, lock_timeout) = (Direction::Apply, self.lock.lock_timeout);
        let request = Request::new(&settings, direction, Initiator::Person, "apply", lock_timeout);
        if self.dry_run { write::dry_run(&request, colour) } else { write::run(&request, colour, Command::Apply) }
    }
}

/// The last line.
pub(super) fn summary(outcome: &Outcome) -> String {
    let plan = &outcome.plan;
    match (&plan.revision, plan.generation, &outcome.receipt) {
        (Some(revision), Some(generation), Some(receipt)) if receipt.committed => format!(
            "Applied revision {revision}, generation {generation}. {} Whether it runs is not verified yet.",
            what_follows(plan)
        ),
        (Some(revision), _, Some(_)) => {
            format!("Revision {revision} is in place; schedpatch's own files are repaired.")
        }
        (Some(revision), ..) => format!("Nothing to change: revision {revision} is in place."),
        (None, ..) => "Nothing to change.".to_owned(),
    }
}
