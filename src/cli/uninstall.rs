//! `schedpatch uninstall`: asks all agents to remove our edit, one node at a time, and waits until they have.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use tokio::time::Instant;

use super::args::duration;
use super::output::{block_on, print_answer};
use super::rollout::{ApiArgs, change, read};
use crate::cluster::RolloutLease;
use crate::finding::Finding;
use crate::fleet::{self, Agents, NodeSummary, Unanswered};
use crate::rollout::Record;

const EXAMPLES: &str = "\
Examples:
  What would be removed, and from which nodes?
    schedpatch uninstall --dry-run

  Remove our edit and our files from every control-plane node, one by one, the leading scheduler last:
    schedpatch uninstall

  Only from one node; the others go on without it:
    schedpatch uninstall --node cp3

  Apply the configuration again, also on a node that was taken out:
    schedpatch uninstall --cancel

The chart does this before helm uninstall removes the agents. Interrupted, it can be run again. A new pod template of the agents (helm
upgrade with other values) cancels it too. Without this program:
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/uninstall=now
    kubectl -n kube-system annotate lease schedpatch-rollout schedpatch.io/uninstall-node=cp3
    kubectl get nodes -o custom-columns=NAME:.metadata.name,PHASE:.metadata.annotations.schedpatch\\.io/phase
    helm uninstall --no-hooks …        once no node shows a phase any more";

/// How often the progress is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Remove our edit from every control-plane node, or from some, one by one, and wait until it is gone
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Say what would be removed, and ask for nothing
    #[arg(long)]
    dry_run: bool,

    /// Only from this node; may be repeated
    #[arg(long, value_name = "NAME")]
    node: Vec<String>,

    /// Withdraw the request: the agents apply the configuration again
    #[arg(long, conflicts_with_all = ["dry_run", "node", "timeout"])]
    cancel: bool,

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
        print_answer(block_on(self.act()))
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
        if self.cancel {
            change(&RolloutLease::new(client), Record::cancel_uninstall).await?;
            return Ok("The request is withdrawn: the agents apply the configuration again.\n".to_owned());
        }
        let asked: BTreeSet<String> = self.node.iter().cloned().collect();
        if let Some(finding) = no_such_agent(&asked, &agents, &nodes) {
            return Err(finding);
        }
        let agents = Agents { nodes: if asked.is_empty() { agents.nodes } else { asked.clone() }, ..agents };
        if self.dry_run {
            let names: Vec<&str> = agents.nodes.iter().map(String::as_str).collect();
            return Ok(format!("Our edit and our files would be removed from: {}\n", names.join(", ")));
        }
        let lease = RolloutLease::new(client.clone());
        let release = (agents.uid.clone(), agents.template);
        change(&lease, |record| record.ask_uninstall(&release, &asked)).await?;
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
            let (forgotten, done): (Vec<&String>, Vec<&String>) =
                must.iter().partition(|node| record.forgotten.contains(**node));
            // the annotations go last
            if left.is_empty() && with_traces(&nodes).iter().all(|node| !done.contains(node)) {
                return Ok(all_done(&done, &forgotten));
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

fn all_done(done: &[&String], forgotten: &[&String]) -> String {
    let s = if done.len() == 1 { "" } else { "s" };
    let names: Vec<&str> = forgotten.iter().map(|name| name.as_str()).collect();
    let without = if names.is_empty() {
        String::new()
    } else {
        format!(", without {}, which the rollout was told to forget: it follows when it is back", names.join(", "))
    };
    format!("Nothing of schedpatch is left on {} node{s}{without}.\n", done.len())
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

/// Nodes that nobody can be asked on.
fn no_such_agent(asked: &BTreeSet<String>, agents: &Agents, nodes: &[NodeSummary]) -> Option<Finding> {
    let name = asked.iter().find(|name| !agents.nodes.contains(*name))?;
    let names: Vec<&str> = agents.nodes.iter().map(String::as_str).collect();
    Some(if nodes.iter().any(|node| node.name == *name) {
        let message = format!("no agent runs on node {name} that could remove our edit");
        Finding::error("no-agent-there", message, "run schedpatch restore --purge on that node")
    } else {
        let message = format!("there is no control-plane node {name}; agents run on: {}", names.join(", "));
        Finding::error("no-such-node", message, "give one of these with --node")
    })
}

fn nobody_there(left: &[&String]) -> Finding {
    let names: Vec<&str> = left.iter().map(|name| name.as_str()).collect();
    let message = format!("no agent is installed that could remove our edit from: {}", names.join(", "));
    let way_out =
        "run schedpatch restore --purge on each of these nodes, or install the chart again and then uninstall it";
    Finding::error("no-agents", message, way_out)
}
