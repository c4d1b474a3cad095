//! `schedpatch plan`: say what must change, change nothing.

use std::process::ExitCode;

use super::args::{HostArgs, WantedArgs};
use super::output::{ColorArgs, Output, print, print_error};
use super::preflight_args::{Mode, PreflightArgs};
use super::target::with_known_target;
use crate::finding::Finding;
use crate::observe;
use crate::plan::{self, Direction, Plan};
use crate::settings::Settings;

/// Exit code of `--check` when something must change.
const CHANGES: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  What would change on this node for the configuration in ./scheduler?
    schedpatch plan --source ./scheduler

  The same for a host that is mounted elsewhere, for a script:
    schedpatch plan --host-root /host --source /config -o json

  How is it taken out again?
    schedpatch plan --restore

  Is this node up to date? (exit 0: yes, 3: no, 1: cannot tell)
    schedpatch plan --source ./scheduler --check

Errors go to standard error; with -o json they are in the document on standard output.
Exit codes: 0 planned, 1 failed, 2 wrong usage, 3 --check found changes.";

/// Say exactly what must change on this host and why, as a diff; nothing is written
///
/// Finds the scheduler's static pod, composes the configuration from the sources, and prints each file that would
/// change. Needs no cluster, and no rights but to read the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// Plan the inverse: take out what schedpatch put in
    #[arg(long)]
    restore: bool,

    /// Exit with 3 if something must change
    #[arg(long)]
    check: bool,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: Output,

    #[command(flatten)]
    color: ColorArgs,

    #[command(flatten)]
    preflight: PreflightArgs,

    #[command(flatten)]
    wanted: WantedArgs,
}

impl Args {
    pub(super) fn is_empty(&self) -> bool {
        !self.restore && self.wanted.is_empty()
    }

    pub(super) fn run(self) -> ExitCode {
        let (check, output, colour) = (self.check, self.output, self.color.resolve());
        let direction = if self.restore { Direction::Restore } else { Direction::Apply };
        let k3s = self.host.k3s(false);
        let settings = self.settings();
        let settings = if direction == Direction::Restore { with_known_target(settings, k3s) } else { settings };
        let plan = match observe::take_snapshot(&settings) {
            Ok(snapshot) => plan::make(&snapshot, &settings, direction),
            Err(finding) => Plan::refused(vec![finding]),
        };
        let text = match output {
            Output::Text if plan.is_refused() => return print_error(&plan::show(&plan, colour)),
            Output::Text => plan::show(&plan, colour),
            Output::Json => json(&plan),
        };
        let code = if plan.is_refused() {
            ExitCode::FAILURE
        } else if check && !plan.steps().is_empty() {
            ExitCode::from(CHANGES)
        } else {
            ExitCode::SUCCESS
        };
        print(&text, code)
    }

    pub(super) fn settings(self) -> Settings {
        let preflight = self.preflight.setting(Mode::None);
        let settings = Settings { preflight, ..self.host.settings() };
        if self.restore { settings } else { self.wanted.add_to(settings) }
    }
}

fn json(plan: &Plan) -> String {
    let failed = |error| {
        Plan::refused(vec![Finding::error("json", format!("cannot write the plan as JSON: {error}"), "use -o text")])
    };
    let text = plan.to_json().or_else(|error| failed(error).to_json());
    text.unwrap_or_default() + "\n"
}
