//! `schedpatch status`: what is applied here, or with a kubeconfig where all control-plane nodes are.

use std::process::ExitCode;

use super::args::HostArgs;
use super::fleet::ClusterArgs;
use super::output::{ColorArgs, block_on, fail, print};
use super::target::with_known_target;
use crate::compose;
use crate::finding::{Finding, Level};
use crate::host::HostRoot;
use crate::observe;
use crate::plan::{self, Direction, Plan};
use crate::report::Reach;
use crate::settings::Settings;
use crate::status::{self, Status};

/// Exit code when work is in flight or the target is not what we wrote.
const UNSETTLED: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  What is applied on this node, since when, and is it still what was written?
    schedpatch status

  Do the extenders of what is applied take connections from here?
    schedpatch status --extenders

  Are the schedulers of all control-plane nodes proven at what is wanted?
    schedpatch status --cluster
    kubectl schedpatch status          the same, with a link kubectl-schedpatch to this program in PATH

  Wait for it, for example after helm upgrade; fail at once when a node rolled back:
    schedpatch status --context production --wait 5m

  For a script:
    schedpatch status -o json

Exit codes on the host: 0 settled, 1 failed, 2 wrong usage, 3 work is in flight or somebody else changed what was written.
Over the cluster: 0 all schedulers are proven, 1 failed, 2 wrong usage, 3 not all are.";

/// Say what is applied on this host, or where all control-plane nodes are; nothing is written
///
/// On this host: revision and generation in the manifest, since when, whether it was proven to run, the last good revision,
/// bad ones with their reasons, a hold, work in flight, and what others have changed.
///
/// Over the cluster: one table of the control-plane nodes. What is wanted is read from the ConfigMap through the API, what
/// runs from the schedulers' mirror pods; a node is proven when its agent has verified just that, and the pod shows it.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// Ask whether each extender of what is applied takes connections from this host; never part of the exit code
    #[arg(long)]
    extenders: bool,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: StatusOutput,

    #[command(flatten)]
    color: ColorArgs,

    #[command(flatten)]
    cluster: ClusterArgs,
}

/// How the answer is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(super) enum StatusOutput {
    /// For people, in at most 120 columns
    Text,
    /// The same, with every column of the table
    Wide,
    /// One document for machines, printed on errors too
    Json,
}

impl Args {
    /// Means the cluster, whatever the flags say.
    pub(super) fn mean_cluster(&mut self) {
        self.cluster.mean();
    }

    pub(super) fn contradicts_itself(&self) -> bool {
        self.extenders && self.cluster.is_meant()
    }

    pub(super) fn run(self) -> ExitCode {
        let colour = self.color.resolve();
        if self.cluster.is_meant() {
            return self.cluster.run(self.output, colour);
        }
        let k3s = self.host.k3s(false);
        let settings = with_known_target(self.host.settings(), k3s);
        let status = match observe::take_snapshot(&settings) {
            Ok(snapshot) => {
                let restore = plan::make(&snapshot, &settings, Direction::Restore);
                let mut status = Status::of(&snapshot, &restore);
                if restore.target.is_none() && !observe::exists(&settings) {
                    status.findings.push(not_a_node());
                }
                if self.extenders { status.with_extenders(ask_extenders(&settings, &restore)) } else { status }
            }
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
            StatusOutput::Text | StatusOutput::Wide => {
                print(&(status::show(&status) + &plan::show_findings(&status.findings, colour)), code)
            }
            StatusOutput::Json => match status.to_json() {
                Ok(text) => print(&(text + "\n"), code),
                Err(error) => fail(&[Finding::error("json", error.to_string(), "use -o text")], colour),
            },
        }
    }
}

/// A person on a workstation means the cluster.
fn not_a_node() -> Finding {
    let message = "this host has neither a scheduler's manifest nor files of schedpatch, so it is no control-plane node that \
                   schedpatch knows";
    Finding::info("not-a-node", message, "to ask the cluster of your kubeconfig: schedpatch status --cluster")
}

/// Asks the extenders of the configuration that the manifest names.
fn ask_extenders(settings: &Settings, plan: &Plan) -> Result<Vec<(String, bool)>, Finding> {
    let unreadable = |path: &str, why: &str| {
        Finding::warning(
            "extenders-unknown",
            format!("cannot find out the extenders: {why}"),
            "schedpatch apply repairs it",
        )
        .in_file(path)
    };
    let spec = plan.target.as_ref().map(|target| &target.spec);
    let Some(path) = spec.and_then(|spec| spec.host_path(spec.config()?.1)) else { return Ok(Vec::new()) };
    let text = HostRoot::new(&settings.host_root).text(&path).ok_or_else(|| unreadable(&path, "no such text"))?;
    let urls = compose::extenders_of(&text).ok_or_else(|| unreadable(&path, "it is no configuration"))?;
    block_on(async { Ok(Reach::default().ask(&urls).await.to_vec()) })
}
