//! `schedpatch status` over the cluster.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::args::duration;
use super::output::{block_on, fail, print};
use super::status::StatusOutput;
use super::write::now;
use crate::finding::Finding;
use crate::fleet::{self, Columns, Fleet, Unanswered};
use crate::plan::{self, Colour};

/// Exit code when not all schedulers are proven.
const NOT_PROVEN: u8 = 3;

/// Which cluster, and whether to wait for it.
#[derive(Clone, Debug, clap::Args)]
#[command(next_help_heading = "Over the cluster (each of these asks the API instead of this host)")]
pub(super) struct ClusterArgs {
    /// Ask the cluster of KUBECONFIG, of ~/.kube/config, or in a pod its own; `kubectl schedpatch status` means this
    #[arg(long)]
    cluster: bool,

    /// Ask the cluster of this kubeconfig
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,

    /// Ask the cluster of this context of the kubeconfig
    #[arg(long, value_name = "NAME")]
    context: Option<String>,

    /// Where the agents are; otherwise they are looked for in all namespaces
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    /// Wait until all are proven, at most this long [default: 10m]; progress goes to standard error
    #[arg(long, value_name = "TIME", num_args = 0..=1, default_missing_value = "10m", value_parser = duration)]
    wait: Option<Duration>,
}

impl ClusterArgs {
    /// Whether the cluster is meant, and not this host.
    pub fn is_meant(&self) -> bool {
        let Self { cluster, kubeconfig, context, namespace, wait } = self;
        *cluster || kubeconfig.is_some() || context.is_some() || namespace.is_some() || wait.is_some()
    }

    /// Means the cluster.
    pub fn mean(&mut self) {
        self.cluster = true;
    }

    pub fn run(self, output: StatusOutput, colour: Colour) -> ExitCode {
        match (block_on(self.ask()), output) {
            (Err(finding), StatusOutput::Json) => json(&Fleet::unknown(finding), colour),
            (Err(finding), _) => fail(&[finding], colour),
            (Ok(fleet), StatusOutput::Json) => json(&fleet, colour),
            (Ok(fleet), _) => {
                let columns = if output == StatusOutput::Wide { Columns::All } else { Columns::Few };
                let shown = fleet::show(&fleet, columns, now()) + &plan::show_findings(&fleet.findings, colour);
                print(&shown, code(&fleet))
            }
        }
    }

    async fn ask(self) -> Result<Fleet, Finding> {
        let client = fleet::connect(self.kubeconfig.as_deref(), self.context.as_deref()).await?;
        let namespace = self.namespace.as_deref();
        match self.wait {
            None => {
                let answers = Box::pin(fleet::ask(&client, namespace)).await.map_err(Unanswered::finding)?;
                Ok(fleet::judge(&answers))
            }
            Some(limit) => {
                let mut tell = |after: Duration, line: &str| {
                    let _ = writeln!(std::io::stderr(), "{:>6.1}s  {line}", after.as_secs_f64());
                };
                fleet::wait(&client, namespace, limit, &mut tell).await
            }
        }
    }
}

fn json(fleet: &Fleet, colour: Colour) -> ExitCode {
    match fleet.to_json() {
        Ok(text) => print(&(text + "\n"), code(fleet)),
        Err(error) => fail(&[Finding::error("json", error.to_string(), "use -o text")], colour),
    }
}

fn code(fleet: &Fleet) -> ExitCode {
    if fleet.has_errors() {
        ExitCode::FAILURE
    } else if fleet.proven {
        ExitCode::SUCCESS
    } else {
        ExitCode::from(NOT_PROVEN)
    }
}
