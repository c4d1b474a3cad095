//! `schedpatch uninstall`: asks all agents to remove our edit, one node at a time, and waits until they have.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::args::duration;
use super::output::{fail, print};
use super::rollout::{ApiArgs, change, read};
use crate::cluster::RolloutLease;
use crate::finding::Finding;
use crate::fleet::{self, Agents, NodeSummary, Unanswered};
use crate::plan::Colour;
use crate::rollout::{Record, Uninstall};

const EXAMPLES: &str = "\
Examples:
  What would be removed, and from which nodes?
    schedpatch uninstall --dry-run

  Remove our edit and our files from every control-plane node, one by one, the leading scheduler last:
    schedpatch uninstall

The chart does this before helm uninstall removes the agents. Interrupted, it can be run again. Without this program:
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/uninstall=now
    kubectl get nodes -o custom-columns=NAME:.metadata.name,PHASE:.metadata.annotations.schedpatch\\.io/phase
    helm uninstall --no-hooks …        once no node shows a phase any more";

/// How often the progress is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Remove our edit from every control-plane node, one by one, and wait until it is gone
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Say what would be removed, and ask for nothing
    #[arg(long)]
    dry_run: bool,

    /// How long to wait for the agents
    #[arg(long, value_name = "TIME", default_value = "10m", value_parser = duration)]
    timeout: Duration,

    /// Where the agents are; otherwise they are looked for in all namespaces
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,

    #[command(flatten)]
    api: ApiArgs,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let done = match runtime {
            Ok(runtime) => runtime.block_on(self.act()),
            Err(error) => Err(Finding::error("runtime", error.to_string(), "see ulimit -n")),
        };
        match done {
            Ok(text) => print(&text, ExitCode::SUCCESS),
            Err(finding) => fail(&[finding], Colour::Off),
        }
    }

    async fn act(self) -> Result<String, Finding> {
        let client = self.api.connect().await?;
        let agents = fleet::agents(&client, self.namespace.as_deref()).await.map_err(Unanswered::finding)?;
        let nodes = fleet::nodes_now(&client).await.map_err(Unanswered::finding)?;
        let Some(agents) = agents else {
            let left = with_traces(&nodes);
            return if left.is_empty() {
                Ok("No agent is installed, and no node shows anything of schedpatch.\n".to_owned())
            } else {
                Err(nobody_there(&left))
            };
        };
        if self.dry_run {
            let names: Vec<&str> = agents.nodes.iter().map(String::as_str).collect();
            return Ok(format!("Our edit and our files would be removed from: {}\n", names.join(", ")));
        }
        let lease = RolloutLease::new(client.clone());
        change(&lease, |record| {
            let (daemon_set, template) = (agents.uid.clone(), agents.template);
            record.uninstall = Some(Uninstall { daemon_set, template });
        })
        .await?;
        self.wait(&client, &lease, &agents).await
    }

    async fn wait(self, client: &kube::Client, lease: &RolloutLease, agents: &Agents) -> Result<String, Finding> {
        let began = Instant::now();
        let mut told: BTreeSet<String> = BTreeSet::new();
        loop {
            let (_, record) = read(lease).await?;
            let nodes = fleet::nodes_now(client).await.map_err(Unanswered::finding)?;
            let existing: BTreeSet<&String> = nodes.iter().map(|node| &node.name).collect();
            let must: Vec<&String> = agents.nodes.iter().filter(|node| existing.contains(node)).collect();
            let left = left(&record, &must);
            for node in must.iter().filter(|node| record.restored.contains_key(**node)) {
                if told.insert((*node).clone()) {
                    let _ = writeln!(std::io::stderr(), "{:>6.1}s  {node}: removed", began.elapsed().as_secs_f64());
                }
            }
            // the annotations go last
            if left.is_empty() && with_traces(&nodes).iter().all(|node| !agents.nodes.contains(*node)) {
                return Ok(format!("Nothing of schedpatch is left on {} nodes.\n", must.len()));
            }
            if began.elapsed() >= self.timeout {
                return Err(too_late(self.timeout, &left, &nodes));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// Nodes that have not said that they are done. Nodes that a person forgot are not waited for.
fn left(record: &Record, must: &[&String]) -> Vec<String> {
    let is_done = |node: &String| record.restored.contains_key(node) || record.forgotten.contains(node);
    must.iter().filter(|node| !is_done(node)).map(|node| (*node).clone()).collect()
}

fn with_traces(nodes: &[NodeSummary]) -> Vec<&String> {
    nodes.iter().filter(|node| !node.phase.is_empty()).map(|node| &node.name).collect()
}

fn too_late(timeout: Duration, left: &[String], nodes: &[NodeSummary]) -> Finding {
    let words = left.iter().map(|name| {
        let said = nodes.iter().find(|node| node.name == *name).map(|node| format!("{} {}", node.phase, node.message));
        format!("{name} ({})", said.unwrap_or_default().trim())
    });
    let message =
        format!("after {} s our edit is not removed from: {}", timeout.as_secs(), words.collect::<Vec<_>>().join(", "));
    let way_out = "run it again; for a node that will not come back: schedpatch rollout forget NODE; by hand on the node: \
                   schedpatch restore --purge; then helm uninstall --no-hooks";
    Finding::error("not-removed", message, way_out)
}

fn nobody_there(left: &[&String]) -> Finding {
    let names: Vec<&str> = left.iter().map(|name| name.as_str()).collect();
    let message = format!("no agent is installed that could remove our edit from: {}", names.join(", "));
    let way_out =
        "run schedpatch restore --purge on each of these nodes, or install the chart again and then uninstall it";
    Finding::error("no-agents", message, way_out)
}
