//! The schedulers of all nodes, as far as the API shows them: for the view of a whole cluster.

use k8s_openapi::api::core::v1::Pod;

use super::static_pod::mirror_pod;

/// The namespace and the labels by which pods are found that may show a scheduler.
pub const SCHEDULER_PODS: (&str, [&str; 2]) = (mirror_pod::NAMESPACE, mirror_pod::LABELS);

/// A scheduler on some node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerElsewhere {
    /// The node
    pub node: String,
    /// The pod that shows it
    pub pod: String,
    /// Our revision that it was started from
    pub revision: Option<String>,
    /// Our generation, likewise
    pub generation: Option<String>,
    /// The revision that failed there before this one came back, if one did
    pub rolled_back_from: Option<String>,
    /// Which start of it this is
    pub instance: String,
    /// The configuration file that it was started with
    pub config: Option<String>,
    /// Whether it is ready
    pub ready: bool,
    /// Whether it is on its way out
    pub ending: bool,
    /// How far it is
    pub state: StartState,
}

/// How far the start of a scheduler is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum StartState {
    /// Nobody has said anything yet
    #[default]
    Unknown,
    /// It is not started: reason and message
    Waiting(String, String),
    /// It runs
    Running,
    /// It ended with this code
    Ended(i32),
}

/// The schedulers that these pods show, one for each node. A kind whose schedulers show in no pod adds none.
pub fn schedulers_elsewhere(pods: &[Pod]) -> Vec<SchedulerElsewhere> {
    mirror_pod::schedulers(pods)
}
