//! `schedpatch verify`: whether pods are scheduled, by a pod that must be bound.

use std::fmt::Write as _;
use std::process::ExitCode;
use std::time::Duration;

use serde_json::json;

use super::args::second_or_more;
use super::lists::{List, all, lines};
use super::output::{Output, block_on, fail, print};
use super::rollout::ApiArgs;
use super::run::shutdown;
use crate::cluster;
use crate::finding::Finding;
use crate::fleet;
use crate::plan::Colour;
use crate::test_pod::{self, Candidate, Need, Outcome, SCHEDULER_USER, TestPod};

const EXAMPLES: &str = "\
Examples:
  Is a pod scheduled, where, and how fast?
    schedpatch verify

  By the profile of another name?
    schedpatch verify --scheduler-name gpu-scheduler

  May the scheduler do what its plugins need?
    schedpatch verify --need 'patch pods' --need 'list elasticquotas.scheduling.x-k8s.io'

  Can scoring be seen at all on this cluster?
    schedpatch verify --two-nodes

The pod needs no image; it is removed as soon as it is bound. The chart runs this as `helm test`.
Exit codes: 0 scheduled and nothing missing, 1 not, 2 wrong usage.";

/// Create a small pod, wait until a scheduler has bound it, say where and how fast, and remove it
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// The profile that shall bind the pod; by default the one that every pod has
    #[arg(long, value_name = "NAME")]
    scheduler_name: Option<String>,

    /// Something that the scheduler must be allowed to do: VERB RESOURCE[.GROUP][/SUBRESOURCE]; may be given several times, and
    /// in the environment one on each line
    #[arg(long = "need", value_name = "WHAT", env = "SCHEDPATCH_SCHEDULER_NEED", value_parser = lines(Need::parse))]
    needs: Vec<List<Need>>,

    /// The user that the scheduler is
    #[arg(long, value_name = "USER", default_value = SCHEDULER_USER)]
    scheduler_user: String,

    /// Say whether scoring can be seen: with fewer than two nodes that fit, no scheduler scores
    #[arg(long)]
    two_nodes: bool,

    /// Namespace of the pod
    #[arg(short, long, value_name = "NAME", default_value = "default", env = "SCHEDPATCH_NAMESPACE")]
    namespace: String,

    /// How long to wait for the scheduler
    #[arg(long, value_name = "TIME", default_value = "1m", value_parser = second_or_more)]
    timeout: Duration,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: Output,

    #[command(flatten)]
    api: ApiArgs,
}

/// What was found.
struct Found {
    outcome: Outcome,
    missing: Vec<String>,
    leader: Option<String>,
    /// Why nobody knows, where that is so
    extenders: Result<Vec<(String, String)>, String>,
    candidates: Option<Vec<Candidate>>,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        let output = self.output;
        match block_on(self.ask()) {
            Ok(found) => {
                let is_well = matches!(found.outcome, Outcome::Bound { .. }) && found.missing.is_empty();
                let text = match output {
                    Output::Json => found.to_json(),
                    Output::Text => found.to_text(),
                };
                print(&text, if is_well { ExitCode::SUCCESS } else { ExitCode::FAILURE })
            }
            Err(finding) => fail(&[finding], Colour::Off),
        }
    }

    async fn ask(self) -> Result<Found, Finding> {
        let client = self.api.connect().await?;
        let wrong = |why: String| {
            let way_out =
                "see whether the API answers, and whether you may create, get and delete pods in this namespace";
            Finding::error("test-pod", format!("cannot verify: {why}"), way_out)
        };
        let needs: Vec<Need> = all(self.needs);
        let missing = test_pod::missing(&client, &self.scheduler_user, &needs).await.map_err(wrong)?;
        let missing = missing.into_iter().map(|need| format!("{}, by the rule {}", need.text(), need.rule())).collect();
        let candidates = if self.two_nodes { Some(test_pod::candidates(&client).await.map_err(wrong)?) } else { None };
        let pod = TestPod { namespace: self.namespace, scheduler: self.scheduler_name, timeout: self.timeout };
        let outcome = test_pod::run(&client, &pod, shutdown()?).await.map_err(wrong)?;
        // what only explains the answer is left out where it cannot be had
        let leader = cluster::scheduler_leader(&client).await.ok().flatten();
        let extenders = fleet::extenders(&client).await;
        Ok(Found { outcome, missing, leader, extenders, candidates })
    }
}

impl Found {
    fn to_text(&self) -> String {
        let mut out = String::new();
        // writing to a String cannot fail
        let _ = self.write(&mut out);
        out
    }

    fn write(&self, out: &mut String) -> std::fmt::Result {
        match &self.outcome {
            Outcome::Bound { node, after } => {
                writeln!(out, "scheduled   on {node} after {:.1} s", after.as_secs_f64())?;
            }
            Outcome::Waiting { words } => {
                let words = words.as_deref().unwrap_or("no scheduler has looked at it");
                writeln!(out, "scheduled   no: {words}")?;
            }
        }
        if let Some(leader) = &self.leader {
            writeln!(out, "leader      {leader} (Lease kube-system/kube-scheduler)")?;
        }
        match &self.extenders {
            Ok(extenders) => {
                for (url, state) in extenders {
                    writeln!(out, "extender    {url}: {state}")?;
                }
            }
            Err(why) => writeln!(out, "extender    unknown, the nodes cannot be asked: {why}")?,
        }
        for need in &self.missing {
            writeln!(out, "missing     the scheduler may not {need}; the chart's value scheduler.rbac grants it")?;
        }
        let Some(candidates) = &self.candidates else { return Ok(()) };
        let fitting = candidates.iter().filter(|node| node.obstacle.is_none()).count();
        if fitting >= 2 {
            writeln!(out, "scoring     can be seen: {fitting} nodes fit")?;
        } else {
            writeln!(
                out,
                "scoring     cannot be seen: {fitting} node fits, and a scheduler scores only where two or more do"
            )?;
        }
        for Candidate { name, obstacle } in candidates {
            if let Some(obstacle) = obstacle {
                writeln!(out, "            {name} {obstacle}")?;
            }
        }
        Ok(())
    }

    fn to_json(&self) -> String {
        let (node, seconds, words) = match &self.outcome {
            Outcome::Bound { node, after } => (Some(node), Some(after.as_secs_f64()), None),
            Outcome::Waiting { words } => (None, None, words.clone()),
        };
        let candidates = self.candidates.as_ref().map(|nodes| {
            let nodes = nodes.iter().map(|node| json!({ "name": node.name, "obstacle": node.obstacle }));
            nodes.collect::<Vec<_>>()
        });
        let one = |(url, state): &(String, String)| json!({ "url": url, "state": state });
        let extenders = self.extenders.as_ref().ok().map(|all| all.iter().map(one).collect::<Vec<_>>());
        let document = json!({ "version": 1, "scheduled": node.is_some(), "node": node, "seconds": seconds, "words": words,
            "leader": self.leader, "extenders": extenders, "missing": self.missing, "nodes": candidates });
        format!("{document:#}\n")
    }
}
