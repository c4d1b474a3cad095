//! The configuration file: which Prometheus is asked, which policies judge nodes, and for which pods.

mod check;
mod error;
mod load;
#[cfg(test)]
mod tests;
mod values;

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::Deserialize;

pub use check::warnings;
pub use error::ConfigError;
pub use load::{MAX_FILE_BYTES, load, parse};
pub use values::PodField;

/// The JSON schema of the file, for editors and other checkers.
pub const SCHEMA: &str = include_str!("../schema.json");

/// The annotation by which a pod chooses its policies, if the file names no other.
const POLICY_ANNOTATION: &str = "schedpatch.io/extender-policies";

/// The whole file.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Config {
    /// Whom to ask
    pub prometheus: Prometheus,
    /// How nodes are judged
    pub policies: Vec<Policy>,
    /// For which pods
    #[serde(default)]
    pub pods: Pods,
    /// Differences of the weighted mean (0 to 1) below this are not stretched over all of 0 to 10
    #[serde(default = "minimum_spread")]
    pub minimum_spread: f64,
    /// What pods that were just bound cost their node
    #[serde(default)]
    pub herd: Herd,
    /// Whether pods that a threshold kept waiting are tried again
    #[serde(default)]
    pub recovery: Recovery,
}

/// Prometheus and how to reach it.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Prometheus {
    /// `http://` or `https://`, host, port, and a path if it has a prefix
    pub url: String,
    /// So long one query may take
    #[serde(default = "timeout", deserialize_with = "values::duration")]
    pub timeout: Duration,
    /// Pause between two rounds of queries
    #[serde(default = "interval", deserialize_with = "values::duration")]
    pub interval: Duration,
    /// File with a bearer token, read before each round
    pub bearer_token_file: Option<PathBuf>,
    /// File with `user:password`, read before each round
    pub basic_auth_file: Option<PathBuf>,
    /// File with the CA certificates of the server; needed for https
    pub ca_file: Option<PathBuf>,
    /// File with the client's certificate
    pub client_certificate_file: Option<PathBuf>,
    /// File with the client's key
    pub client_key_file: Option<PathBuf>,
}

/// One way to judge nodes.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub struct Policy {
    /// Name in metrics, tables and the pods' annotation
    pub name: String,
    /// PromQL that gives one series for each node (or for each node and workload, see `match`)
    pub query: String,
    /// PromQL for the plain value of nodes, where `query` has series of workloads only
    pub plain_query: Option<String>,
    /// Which label of a series names its node, and how
    #[serde(default)]
    pub node: Mapping,
    /// Which values are better
    pub prefer: Prefer,
    /// The values that mean worst and best
    #[serde(default, deserialize_with = "values::range")]
    pub range: Range,
    /// Part of the weighted mean; 0 scores nothing, for policies that only filter
    #[serde(default = "weight")]
    pub weight: f64,
    /// Nodes with a greater value are refused
    pub avoid_above: Option<f64>,
    /// Nodes with a smaller value are refused
    pub avoid_below: Option<f64>,
    /// What happens if the policy would refuse every node that is left
    #[serde(default)]
    pub when_all_exceed: WhenAllExceed,
    /// Values older than this count as missing
    #[serde(default = "stale_after", deserialize_with = "values::duration")]
    pub stale_after: Duration,
    /// Labels of series that must equal fields of the pod
    #[serde(default, rename = "match")]
    pub workload: BTreeMap<String, PodField>,
}

/// From a series to a node.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Mapping {
    /// The series' label that names the node
    pub label: String,
    /// What that label holds
    pub is: NodeField,
    /// With `is: nodeLabel`: the label of nodes that holds the same value
    pub node_label: Option<String>,
}

/// What of a node the label of a series holds.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[serde(rename_all = "camelCase")]
pub enum NodeField {
    /// Its name
    #[default]
    Name,
    /// Its InternalIP, with or without a port
    #[serde(rename = "internalIP")]
    InternalIp,
    /// Its Hostname address, with or without a port
    Hostname,
    /// One of its labels
    NodeLabel,
}

/// Which values are better.
#[derive(Clone, Copy, Debug, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum Prefer {
    /// Small ones
    Lower,
    /// Great ones
    Higher,
}

/// The values that mean worst and best.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub enum Range {
    /// The smallest and the greatest among the nodes that are asked for
    #[default]
    MinMax,
    /// These; what is beyond counts as the nearer one
    Fixed {
        /// The smallest
        from: f64,
        /// The greatest
        to: f64,
    },
}

/// What happens if a policy would refuse every node that is left.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum WhenAllExceed {
    /// It refuses none
    #[default]
    Allow,
    /// It refuses all, and the pod waits
    Reject,
}

/// Which pods the policies are for.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Pods {
    /// Only pods of these namespaces; all if empty
    pub namespaces: Vec<String>,
    /// Never pods of these namespaces
    pub exempt_namespaces: Vec<String>,
    /// Only pods with all of these labels
    pub labels: BTreeMap<String, String>,
    /// The annotation by which a pod chooses its policies: names with commas between them, or `none`
    pub policy_annotation: String,
    /// Policies of pods without the annotation; all if it is not given
    pub default_policies: Option<Vec<String>>,
}

/// What pods that were just bound cost their node: `perPod × (1 − age / window)` of the scale from 0 to 1 for each.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Herd {
    /// Whether pods are watched and counted
    pub enabled: bool,
    /// What a pod costs at the moment when it is bound
    pub per_pod: f64,
    /// When it costs nothing any more, because the metric shows it
    #[serde(deserialize_with = "values::duration")]
    pub window: Duration,
}

/// Waiting pods are tried again when a node recovers.
#[derive(Clone, Debug, Deserialize, PartialEq)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Recovery {
    /// Whether an annotation is written to the pods that this extender refused
    pub enabled: bool,
}

impl Default for Mapping {
    fn default() -> Self {
        Self { label: "node".to_owned(), is: NodeField::Name, node_label: None }
    }
}

impl Default for Pods {
    fn default() -> Self {
        Self {
            namespaces: Vec::new(),
            exempt_namespaces: vec![check::SYSTEM.to_owned()],
            labels: BTreeMap::new(),
            policy_annotation: POLICY_ANNOTATION.to_owned(),
            default_policies: None,
        }
    }
}

impl Default for Herd {
    fn default() -> Self {
        Self { enabled: true, per_pod: 0.05, window: Duration::from_mins(2) }
    }
}

impl Default for Recovery {
    fn default() -> Self {
        Self { enabled: true }
    }
}

fn minimum_spread() -> f64 {
    0.1
}

fn timeout() -> Duration {
    Duration::from_secs(5)
}

fn interval() -> Duration {
    Duration::from_secs(15)
}

fn stale_after() -> Duration {
    Duration::from_mins(2)
}

fn weight() -> f64 {
    1.0
}

impl Config {
    /// Whether series are mapped to nodes by more than their names, so that Node objects must be known.
    pub fn needs_nodes(&self) -> bool {
        self.policies.iter().any(|policy| policy.node.is != NodeField::Name)
    }

    /// The labels of nodes that policies map by.
    pub fn node_labels(&self) -> BTreeSet<Arc<str>> {
        self.policies.iter().filter_map(|policy| policy.node.node_label.as_deref().map(Arc::from)).collect()
    }

    /// Whether any policy can refuse a node.
    pub fn refuses(&self) -> bool {
        self.policies.iter().any(Policy::refuses)
    }

    /// Whether pods must be watched.
    pub fn needs_pods(&self) -> bool {
        self.herd.enabled || (self.recovery.enabled && self.refuses())
    }
}

impl Policy {
    /// Whether it can refuse a node.
    pub fn refuses(&self) -> bool {
        self.avoid_above.is_some() || self.avoid_below.is_some()
    }

    /// Whether it refuses a node with this value.
    pub fn exceeds(&self, value: f64) -> bool {
        self.avoid_above.is_some_and(|most| value > most) || self.avoid_below.is_some_and(|least| value < least)
    }
}
