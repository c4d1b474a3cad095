//! Where all control-plane nodes are, as the cluster tells it: `schedpatch status` for a person with a kubeconfig.
//!
//! `ask` gets the API's objects, `wanted`, `judge` and `gap` make one [`Fleet`] of them, `show` prints it, `wait` does so again and
//! again. Only `ask` and `wait` are not pure. The JSON form is public: documented in `docs/reference/formats.md`, pinned by a fixture.

mod ask;
mod extenders;
mod gap;
mod judge;
mod members;
mod rollout;
mod show;
mod step;
mod table;
mod uninstall;
mod wait;
mod wanted;

use serde::Serialize;

pub(crate) use ask::AGENT_LABELS;
pub use ask::{Unanswered, ask, connect};
pub use extenders::extenders;
pub(crate) use judge::leading;
pub use judge::{ClusterObjects, judge};
pub use members::{Agents, NodeSummary, agents, is_alive, nodes_now};
pub use rollout::show_rollout;
pub use show::{age, show};
pub use table::{Columns, NOTHING, table};
pub use uninstall::{Leftover, must_not_forget};
pub use wait::{patiently, wait};

use crate::finding::{Finding, Level};
use crate::target::{SchedulerElsewhere, StartState};

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

/// All control-plane nodes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Fleet {
    version: u32,
    /// Tells it from the status of one host
    scope: &'static str,
    /// Whether every scheduler is proven at what is wanted
    pub proven: bool,
    wanted: Wanted,
    counts: Counts,
    /// Who leads, as the Lease names it
    leader: Option<String>,
    nodes: Vec<NodeRow>,
    /// What else is to be said
    pub findings: Vec<Finding>,
}

/// What is wanted, read through the API: a mount may be older.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Wanted {
    digest: Option<String>,
    /// `namespace/name` of the agents' DaemonSet
    daemon_set: Option<String>,
    /// `namespace/name` of what their sources show
    config_maps: Vec<String>,
}

/// They must agree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Counts {
    control_planes: usize,
    agents: usize,
    schedulers: usize,
    proven: usize,
}

/// One node.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeRow {
    name: String,
    control_plane: bool,
    proven: bool,
    /// Why it is not proven
    gap: Option<Missing>,
    /// What the agent said last
    #[serde(flatten)]
    said: NodeAnnotations,
    agent: Option<AgentPod>,
    scheduler: Option<SchedulerPod>,
    /// None where the Lease does not tell
    leader: Option<bool>,
}

/// The node's annotations.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct NodeAnnotations {
    phase: Option<String>,
    reason: Option<String>,
    message: Option<String>,
    since: Option<String>,
    platform: Option<String>,
    scheduler_version: Option<String>,
    /// The sources as the agent sees them
    digest: Option<String>,
    /// Digest of the sources that were proven last and are still in place
    verified_digest: Option<String>,
    revision: Option<String>,
    generation: Option<String>,
    /// Extenders that did not take a connection from the node
    extenders_unreachable: Option<String>,
    scheduler_image: Option<String>,
}

/// What lacks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Missing {
    /// In CamelCase, for machines
    reason: String,
    /// In words
    message: String,
    /// Whether waiting does not help: somebody must change something
    r#final: bool,
}

/// The agent's pod on a node.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct AgentPod {
    pod: String,
    /// Whether it runs as the DaemonSet says now
    current: bool,
    /// Why its container does not run; none if it does
    stopped: Option<String>,
    ready: bool,
}

/// The scheduler's pod on a node: what really runs there.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct SchedulerPod {
    pod: String,
    revision: Option<String>,
    generation: Option<String>,
    /// The `--config` that it was started with
    config: Option<String>,
    ready: bool,
    /// Whether it is on its way out
    #[serde(skip)]
    ending: bool,
    #[serde(skip)]
    state: StartState,
}

impl From<SchedulerElsewhere> for SchedulerPod {
    fn from(seen: SchedulerElsewhere) -> Self {
        let SchedulerElsewhere { pod, revision, generation, config, ready, ending, state, .. } = seen;
        Self { pod, revision, generation, config, ready, ending, state }
    }
}

impl Fleet {
    /// Of a cluster that could not be asked, or not about this.
    pub fn unknown(finding: Finding) -> Self {
        Self {
            version: FORMAT_VERSION,
            scope: "cluster",
            proven: false,
            wanted: Wanted::default(),
            counts: Counts::default(),
            leader: None,
            nodes: Vec::new(),
            findings: vec![finding],
        }
    }

    /// Whether something could not be found out.
    pub fn has_errors(&self) -> bool {
        self.findings.iter().any(|finding| finding.level == Level::Error)
    }

    /// Nodes for which waiting does not help: name, agent, and why.
    fn final_gaps(&self) -> impl Iterator<Item = (&str, Option<&str>, &Missing)> {
        self.nodes.iter().filter_map(|node| {
            let gap = node.gap.as_ref().filter(|gap| gap.r#final)?;
            Some((node.name.as_str(), node.agent.as_ref().map(|agent| agent.pod.as_str()), gap))
        })
    }

    /// Where a change is on each node that is in the middle of one: name, and the step in words.
    pub fn steps(&self) -> impl Iterator<Item = (&str, String)> {
        self.nodes.iter().filter_map(|node| Some((node.name.as_str(), step::step(node)?)))
    }

    /// The whole as one JSON document.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}
