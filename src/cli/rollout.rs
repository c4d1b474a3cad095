//! `schedpatch rollout`: the rollout over all control-plane nodes, as the Lease has it.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use super::output::{block_on, print, print_answer};
use super::write::now;
use crate::cluster::{LEASE_NAME, LEASE_NAMESPACE, LeaseError, LeaseNow, RolloutLease};
use crate::finding::Finding;
use crate::fleet::{self, Columns, NodeSummary, Unanswered};
use crate::rollout::{Record, RecordError};

const EXAMPLES: &str = "\
Examples:
  Which node is at what, and what failed?
    schedpatch rollout status
    schedpatch rollout status --watch

  Begin nothing new until I say so; nodes that must go back still do:
    schedpatch rollout pause
    schedpatch rollout resume

  Try again what failed:
    schedpatch rollout retry

  Go on without a node that will not come back:
    schedpatch rollout forget cp3

The same without this program, by annotations of the Lease that the next agent carries out:
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/pause=true
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/retry=now
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/forget=cp3";

/// How often the live view looks.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// A write that somebody else overtook is tried again.
const MAX_WRITES: usize = 10;

/// Show or steer the rollout over all control-plane nodes
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    action: Action,

    #[command(flatten)]
    api: ApiArgs,
}

/// Which cluster.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct ApiArgs {
    /// How to reach the API; by default KUBECONFIG or ~/.kube/config, else the pod's service account
    #[arg(long, value_name = "FILE", global = true)]
    kubeconfig: Option<PathBuf>,

    /// Context of the kubeconfig
    #[arg(long, value_name = "NAME", global = true)]
    context: Option<String>,
}

impl ApiArgs {
    pub async fn connect(&self) -> Result<kube::Client, Finding> {
        fleet::connect(self.kubeconfig.as_deref(), self.context.as_deref()).await
    }
}

#[derive(Debug, clap::Subcommand)]
enum Action {
    /// Say whose turn it is, what every node runs, and what failed
    Status(StatusArgs),
    /// Begin nothing new
    Pause,
    /// Begin again
    Resume,
    /// Try again what failed, on every node
    Retry,
    /// Do not wait for a node any more, until its agent writes again
    Forget {
        /// The node
        node: String,
        /// Also one whose agent runs: its turn ends, and another node may begin while it is in the middle of a change
        #[arg(long)]
        force: bool,
    },
    /// Make the Lease, where the chart did not
    Init,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        print_answer(block_on(self.act()))
    }

    async fn act(self) -> Result<String, Finding> {
        let client = self.api.connect().await?;
        let lease = RolloutLease::new(client.clone());
        let said = |text: &str| Ok(format!("{text}\n"));
        match self.action {
            Action::Status(args) => args.run(&client, &lease).await,
            Action::Pause => {
                change(&client, &lease, |record| record.paused = true).await.map_err(Unanswered::finding)?;
                said("The rollout is paused: no node begins anything new.")
            }
            Action::Resume => {
                change(&client, &lease, |record| record.paused = false).await.map_err(Unanswered::finding)?;
                said("The rollout goes on.")
            }
            Action::Retry => {
                change(&client, &lease, Record::retry).await.map_err(Unanswered::finding)?;
                said("What failed is tried again.")
            }
            Action::Forget { node, force } => {
                forget(&client, &lease, &node, force).await?;
                said(&format!("The rollout goes on without node {node}, until its agent writes again."))
            }
            Action::Init => match lease.create().await {
                Ok(()) => said(&format!("The Lease {LEASE_NAMESPACE}/{LEASE_NAME} is there.")),
                Err(LeaseError::Overtaken) => said(&format!("The Lease {LEASE_NAMESPACE}/{LEASE_NAME} was there.")),
                Err(error) => Err(of_error(&error).finding()),
            },
        }
    }
}

/// Goes on without a node. One that nobody knows is a typo; one that lives goes on by itself.
async fn forget(client: &kube::Client, lease: &RolloutLease, node: &str, is_forced: bool) -> Result<(), Finding> {
    let (_, record) = read(lease).await.map_err(Unanswered::finding)?;
    let nodes = fleet::nodes_now(client).await.map_err(Unanswered::finding)?;
    let is_alive = if is_forced { false } else { fleet::is_alive(client, node).await.map_err(Unanswered::finding)? };
    if let Some(finding) = fleet::must_not_forget(node, &record.unwrap_or_default(), &nodes, is_alive) {
        return Err(finding);
    }
    let existing: BTreeSet<String> = nodes.into_iter().map(|node| node.name).collect();
    let forget = |record: &mut Record| {
        record.forgotten.retain(|name| existing.contains(name));
        record.forget(node);
    };
    change(client, lease, forget).await.map(drop).map_err(Unanswered::finding)
}

/// The Lease and its record, if there is one, or why they cannot be used.
pub(super) async fn read(lease: &RolloutLease) -> Result<(LeaseNow, Option<Record>), Unanswered> {
    let now = lease.read().await.map_err(|error| of_error(&error))?.ok_or_else(|| {
        let message = format!("there is no Lease {LEASE_NAMESPACE}/{LEASE_NAME}");
        let way_out = "install the chart, or make it with schedpatch rollout init";
        Unanswered::Refused(Finding::error("no-lease", message, way_out))
    })?;
    let record = now.record().map_err(|error| {
        let message = format!("the record in the Lease {LEASE_NAMESPACE}/{LEASE_NAME} cannot be used: {error}");
        let way_out = match error {
            RecordError::Newer(_) => "use the newest schedpatch",
            RecordError::Malformed(_) => "remove its annotation schedpatch.io/rollout; the agents rebuild it",
        };
        Unanswered::Refused(Finding::error("rollout-record", message, way_out))
    })?;
    Ok((now, record))
}

/// Changes the record, however often somebody else is faster. Where there is none and a node shows that something was begun, the
/// record was lost: the agents must know that.
pub(super) async fn change(
    client: &kube::Client,
    lease: &RolloutLease,
    change: impl Fn(&mut Record),
) -> Result<Record, Unanswered> {
    for _ in 0..MAX_WRITES {
        let (now, record) = read(lease).await?;
        let mut record = if let Some(record) = record {
            record
        } else {
            let nodes = fleet::nodes_now(client).await?;
            let is_rebuilt = nodes.len() > 1 && nodes.iter().any(|node| node.has_begun);
            Record { is_rebuilt, ..Record::default() }
        };
        change(&mut record);
        match lease.replace(&now, &record).await {
            Ok(()) => return Ok(record),
            Err(LeaseError::Overtaken) => {}
            Err(error) => return Err(of_error(&error)),
        }
    }
    Err(of_error(&LeaseError::Overtaken))
}

pub(super) fn of_error(error: &LeaseError) -> Unanswered {
    let name = format!("{LEASE_NAMESPACE}/{LEASE_NAME}");
    match error {
        LeaseError::Away(why) => {
            let message = format!("the API server does not answer: {why}");
            Unanswered::Away(Finding::error("api-away", message, "see --kubeconfig and --context"))
        }
        LeaseError::Forbidden(why) => {
            let message = format!("you may not read and update the Lease {name}: {why}");
            let way_out = "ask for get and update on leases.coordination.k8s.io there";
            Unanswered::Refused(Finding::error("lease-forbidden", message, way_out))
        }
        LeaseError::Unauthorized(why) => {
            let message = format!("the API server does not know you (401): {why}");
            Unanswered::Refused(Finding::error("api-unauthorized", message, "log in again, or give another --context"))
        }
        LeaseError::Overtaken => {
            let message = format!("others keep writing the Lease {name}");
            Unanswered::Away(Finding::error("lease-busy", message, "try again in a moment"))
        }
    }
}

/// The record, and what the nodes say.
async fn look(client: &kube::Client, lease: &RolloutLease) -> Result<(Record, Vec<NodeSummary>), Unanswered> {
    let (_, record) = read(lease).await?;
    Ok((record.unwrap_or_default(), fleet::nodes_now(client).await?))
}

/// What `rollout status` shows, and how.
#[derive(Clone, Copy, Debug, clap::Args)]
struct StatusArgs {
    /// Go on, and show every change
    #[arg(short, long)]
    watch: bool,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: RolloutOutput,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum RolloutOutput {
    /// In at most 120 columns
    Text,
    /// With every column of the table
    Wide,
}

impl StatusArgs {
    async fn run(self, client: &kube::Client, lease: &RolloutLease) -> Result<String, Finding> {
        let columns = match self.output {
            RolloutOutput::Text => Columns::Few,
            RolloutOutput::Wide => Columns::All,
        };
        let mut last = None;
        let mut is_away = false;
        loop {
            match look(client, lease).await {
                Ok(seen) => {
                    let text = fleet::show_rollout(&seen.0, &seen.1, columns, now());
                    if !self.watch {
                        return Ok(text);
                    }
                    // ages change all the time
                    let seen = Some(seen);
                    if seen != last || is_away {
                        let _ = print(&format!("{text}\n"), ExitCode::SUCCESS);
                        (last, is_away) = (seen, false);
                    }
                }
                // in a rollout an API server may restart; one that never answered is a wrong address
                Err(Unanswered::Away(finding)) if last.is_some() => {
                    if !is_away {
                        let _ = writeln!(io::stderr(), "{}; trying again", finding.message);
                    }
                    is_away = true;
                }
                Err(unanswered) => return Err(unanswered.finding()),
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}
