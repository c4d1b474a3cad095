//! `schedpatch restore`: take ours out again.

use std::process::ExitCode;

use clap::ValueEnum;

use super::args::{HostArgs, LockArgs};
use super::output::ColorArgs;
use super::target::with_known_target;
use super::write::{self, Command, what_follows};
use crate::journal::Initiator;
use crate::plan::Direction;
use crate::reconcile::{Outcome, Request};

const EXAMPLES: &str = "\
Examples:
  Take out what schedpatch put into this node's scheduler, and keep an agent from putting it back:
    schedpatch restore

  Go back one step, to what was last proven to run:
    schedpatch restore --to last-good

  The same from a pod that has the host at /host, and leave no trace:
    schedpatch restore --host-root /host --purge

A hold is left: an agent writes nothing here until schedpatch apply. Works without our state file, by the record that
the manifest itself carries. By hand: docs/use/undo-by-hand.md.

Exit codes: 0 restored or nothing to do, 1 failed, 2 wrong usage.";

#[derive(Clone, Copy, Debug, ValueEnum)]
enum To {
    /// The manifest without ours
    Original,
    /// What was last proven to run
    LastGood,
}

/// Remove from this host's scheduler what schedpatch added
///
/// The manifest gets back the very bytes that it had, unless somebody else has written it since: then only our parts are removed, and
/// their change, such as an upgrade, stays.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// How far back
    #[arg(long, value_name = "STATE", default_value = "original", value_enum)]
    to: To,

    /// Say what would be done and what would be refused; write nothing
    #[arg(long)]
    dry_run: bool,

    /// Remove every trace of schedpatch from the host, the hold and the history too
    #[arg(long)]
    purge: bool,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    color: ColorArgs,
}

impl Args {
    /// Going back one step and leaving no trace contradict each other.
    pub(super) fn contradicts_itself(&self) -> bool {
        self.purge && matches!(self.to, To::LastGood)
    }

    pub(super) fn run(self) -> ExitCode {
        let k3s = self.host.k3s(false);
        let settings = with_known_target(self.host.settings(), k3s);
        let direction = match self.to {
            To::Original => Direction::Restore,
            To::LastGood => Direction::LastGood,
        };
        let (lock_timeout, purge) = (self.lock.lock_timeout, self.purge);
        let request =
            Request { purge, ..Request::new(&settings, direction, Initiator::Person, "restore", lock_timeout) };
        let colour = self.color.resolve();
        if self.dry_run { write::dry_run(&request, colour) } else { write::run(&request, colour, Command::Restore) }
    }
}

/// The last line.
pub(super) fn summary(outcome: &Outcome) -> String {
    let target = outcome.plan.target.as_ref().map_or("the manifest", |target| target.path.as_str());
    let done = match (&outcome.plan.revision, &outcome.receipt) {
        (Some(revision), Some(receipt)) if receipt.committed => {
            format!("Went back to revision {revision}. {}", what_follows(&outcome.plan))
        }
        (None, Some(receipt)) if receipt.committed => {
            format!("Restored: {target} carries nothing of schedpatch. {}", what_follows(&outcome.plan))
        }
        _ => "Nothing to restore.".to_owned(),
    };
    match outcome.purged {
        Some(true) => format!("{done} No trace is left on this host."),
        Some(false) => format!(
            "{done} Our files are removed; the directory itself stays: it holds other files, or is a link or a mount."
        ),
        None => format!("{done} Held: an agent writes nothing here until schedpatch apply."),
    }
}
