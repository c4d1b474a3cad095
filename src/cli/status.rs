//! `schedpatch status`: what is applied here.

use std::process::ExitCode;

use super::args::HostArgs;
use super::output::{ColorArgs, Output, fail, print};
use crate::finding::{Finding, Level};
use crate::observe;
use crate::plan::{self, Direction};
use crate::status::{self, Status};

/// Exit code when work is in flight or the target is not what we wrote.
const UNSETTLED: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  What is applied on this node, since when, and is it still what was written?
    schedpatch status

  For a script:
    schedpatch status -o json

Exit codes: 0 settled, 1 failed, 2 wrong usage, 3 work is in flight or somebody else changed what was written.";

/// Say what is applied on this host; nothing is written
///
/// Revision and generation in the manifest, since when, whether it was proven to run, the last good revision, bad ones with
/// their reasons, a hold, work in flight, and what others have changed.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: Output,

    #[command(flatten)]
    color: ColorArgs,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        let colour = self.color.resolve();
        let settings = self.host.settings();
        let status = match observe::take_snapshot(&settings) {
            Ok(snapshot) => Status::of(&snapshot, &plan::make(&snapshot, &settings, Direction::Restore)),
            Err(finding) => Status::unknown(finding),
        };
        let code = if status.findings.iter().any(|finding| finding.level == Level::Error) {
            ExitCode::FAILURE
        } else if status.is_unsettled() {
            ExitCode::from(UNSETTLED)
        } else {
            ExitCode::SUCCESS
        };
        match self.output {
            Output::Text => print(&(status::show(&status) + &plan::show_findings(&status.findings, colour)), code),
            Output::Json => match status.to_json() {
                Ok(text) => print(&(text + "\n"), code),
                Err(error) => fail(&[Finding::error("json", error.to_string(), "use -o text")], colour),
            },
        }
    }
}
