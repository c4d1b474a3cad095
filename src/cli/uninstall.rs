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
use crate::fleet::{self, Agents, Leftover, NodeSummary, patiently};
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
/// An agent that is just being replaced is there again after this time.
const COMES_SOON: Duration = Duration::from_mins(1);

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
        let (began, client) = (Instant::now(), self.api.connect().await?);
        let until = began + self.timeout;
        let agents = patiently(until, || fleet::agents(&client, self.namespace.as_deref())).await?;
        let nodes = patiently(until, || fleet::nodes_now(&client)).await?;
        let Some(agents) = agents else {
            let left = with_traces(&nodes);
            return if left.is_empty() {
                Ok("No agent is installed, and no node shows anything of schedpatch.\n".to_owned())
            } else {
                Err(nobody_there(&left))
            };
        };
        let lease = RolloutLease::new(client.clone());
        if self.cancel {
            patiently(until, || change(&client, &lease, Record::cancel_uninstall)).await?;
            return Ok("The request is withdrawn: the agents apply the configuration again.\n".to_owned());
        }
        let asked: BTreeSet<String> = self.node.iter().cloned().collect();
        if let Some(finding) = no_such_agent(&asked, &agents, &nodes) {
            return Err(finding);
        }
        if self.dry_run {
            let all = Leftover::of(&Record::default(), &nodes, &agents.nodes, &agents.nodes, &asked);
            let said = format!("Our edit and our files would be removed from: {}\n", all.waits.join(", "));
            let is_possible = all.without_agent.is_empty();
            return if is_possible { Ok(said) } else { Ok(said + &no_agent_on(&all.without_agent).message + "\n") };
        }
        let release = (agents.uid.clone(), agents.template);
        patiently(until, || change(&client, &lease, |record| record.ask_uninstall(&release, &asked))).await?;
        self.wait(&client, &lease, &agents, &asked, began).await
    }

    async fn wait(
        self,
        client: &kube::Client,
        lease: &RolloutLease,
        first: &Agents,
        asked: &BTreeSet<String>,
        began: Instant,
    ) -> Result<String, Finding> {
        let until = began + self.timeout;
        let (mut told, mut asked_for_restart) = (BTreeSet::<String>::new(), BTreeSet::<(String, String)>::new());
        loop {
            // the API may be away for a moment: the leader of etcd is restarted, or a load balancer changes
            let (_, record) = patiently(until, || read(lease)).await?;
            let record = record.unwrap_or_default();
            let nodes = patiently(until, || fleet::nodes_now(client)).await?;
            let agents = patiently(until, || fleet::agents(client, self.namespace.as_deref())).await?;
            let agents = agents.map(|agents| agents.nodes).unwrap_or_default();
            let left = Leftover::of(&record, &nodes, &agents, &first.nodes, asked);
            for node in left.done.iter().chain(&left.annotated) {
                if told.insert(node.clone()) {
                    let _ = writeln!(std::io::stderr(), "{:>6.1}s  {node}: removed", began.elapsed().as_secs_f64());
                }
            }
            for node in must_restart(&left, &nodes) {
                if asked_for_restart.insert((node.name.clone(), node.message.clone())) {
                    let seconds = began.elapsed().as_secs_f64();
                    let _ = writeln!(std::io::stderr(), "{seconds:>6.1}s  {}: {}", node.name, node.message);
                }
            }
            if left.is_done() {
                return Ok(all_done(&left));
            }
            if left.is_stuck() && began.elapsed() >= COMES_SOON.min(self.timeout) {
                return Err(no_agent_on(&left.without_agent));
            }
            if Instant::now() >= until {
                return Err(too_late(self.timeout, &left, &nodes));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }
}

/// The nodes that wait for a person's restart, with the command in their message: nothing goes on there before.
fn must_restart<'n>(left: &Leftover, nodes: &'n [NodeSummary]) -> impl Iterator<Item = &'n NodeSummary> {
    let is_waiting = |node: &&NodeSummary| {
        matches!(node.phase.as_str(), "Restoring" | "RestartRequired") && node.reason == "RestartRequired"
    };
    nodes.iter().filter(is_waiting).filter(|node| left.waits.contains(&node.name))
}

fn all_done(left: &Leftover) -> String {
    let s = if left.done.len() == 1 { "" } else { "s" };
    let without = if left.forgotten.is_empty() {
        String::new()
    } else {
        format!(
            ", without {}, which the rollout was told to forget: its agent removes our edit if it is back before the agents are \
             uninstalled; otherwise run schedpatch restore --purge on that node",
            left.forgotten.join(", ")
        )
    };
    format!("Nothing of schedpatch is left on {} node{s}{without}.\n", left.done.len())
}

fn with_traces(nodes: &[NodeSummary]) -> Vec<&String> {
    nodes.iter().filter(|node| node.is_annotated).map(|node| &node.name).collect()
}

fn too_late(timeout: Duration, left: &Leftover, nodes: &[NodeSummary]) -> Finding {
    let words = left.waits.iter().map(|name| {
        let said = nodes.iter().find(|node| node.name == *name).map(|node| format!("{} {}", node.phase, node.message));
        format!("{name} ({})", said.unwrap_or_default().trim())
    });
    let of_edit = words.collect::<Vec<_>>().join(", ");
    let parts = [
        ("our edit is not removed from", of_edit),
        ("our edit is removed, and the annotations of the node are not yet, on", left.annotated.join(", ")),
        ("no agent runs that could remove our edit on", left.without_agent.join(", ")),
    ];
    let parts =
        parts.into_iter().filter(|(_, names)| !names.is_empty()).map(|(what, names)| format!("{what}: {names}"));
    let message = format!("after {} s {}", timeout.as_secs(), parts.collect::<Vec<_>>().join("; "));
    let way_out = "run it again; for a node that will not come back: schedpatch rollout forget NODE; by hand on the node: \
                   schedpatch restore --purge; then helm uninstall --no-hooks";
    Finding::error("not-removed", message, way_out)
}

fn no_agent_on(names: &[String]) -> Finding {
    let message = format!("no agent runs that could remove our edit from: {}", names.join(", "));
    let way_out = "run schedpatch restore --purge on each of these nodes, then schedpatch rollout forget NODE, and run this again";
    Finding::error("no-agent-there", message, way_out)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nodes_that_wait_for_a_person_are_named_with_their_command() {
        let node = |name: &str, phase: &str, reason: &str| NodeSummary {
            name: name.to_owned(),
            phase: phase.to_owned(),
            reason: reason.to_owned(),
            ..NodeSummary::default()
        };
        let nodes = [
            node("cp1", "Restoring", "RestartRequired"),
            node("cp2", "Restoring", "Uninstalling"),
            // an earlier change waits for its restart
            node("cp3", "RestartRequired", "RestartRequired"),
            node("cp4", "Restoring", "RestartRequired"),
        ];
        let left = Leftover { waits: ["cp1", "cp2", "cp3"].map(str::to_owned).to_vec(), ..Leftover::default() };
        let found: Vec<&str> = must_restart(&left, &nodes).map(|node| node.name.as_str()).collect();
        assert_eq!(found, ["cp1", "cp3"]);
    }
}
