//! The few fields of pods and nodes that are read. Everything else is skipped while decoding.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{NodeSelector, Taint, Toleration};
use schedpatch_service::feed::Watched;
use serde::Deserialize;

/// The scheduling gate that gate mode lifts.
pub const GATE: &str = "schedpatch.io/pin";
/// The label by which a pod opts in to gate mode; its value is the scheduler's name.
pub const OPT_IN_LABEL: &str = "schedpatch.io/pin";

/// Quantities by the name of their resource, as text.
pub type Quantities = BTreeMap<String, String>;

/// Metadata of any object.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Meta {
    /// Name
    pub name: String,
    /// Namespace
    pub namespace: String,
    /// UID
    pub uid: String,
    /// Version
    pub resource_version: String,
    /// Labels
    pub labels: BTreeMap<String, String>,
    /// Set while the object is being deleted
    pub deletion_timestamp: Option<String>,
}

/// A pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Pod {
    /// Metadata
    pub metadata: Meta,
    /// What is wanted
    pub spec: PodSpec,
    /// What is seen
    pub status: PodStatus,
}

/// What is wanted of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct PodSpec {
    /// Where it is bound
    pub node_name: String,
    /// Who binds it
    pub scheduler_name: String,
    /// Gates that keep every scheduler away
    pub scheduling_gates: Vec<Named>,
    /// Labels that its node must have
    pub node_selector: BTreeMap<String, String>,
    /// Affinity; of it only the nodes'
    pub affinity: Option<Affinity>,
    /// Taints that it bears
    pub tolerations: Vec<Toleration>,
    /// Containers
    pub containers: Vec<Container>,
    /// Init containers and sidecars
    pub init_containers: Vec<Container>,
    /// What the runtime needs on top
    pub overhead: Quantities,
    /// Resources of the whole pod
    pub resources: Resources,
    /// Volumes; of them only claims
    pub volumes: Vec<Volume>,
}

/// Something with a name.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Named {
    /// Its name
    pub name: String,
}

/// Affinity.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Affinity {
    /// To nodes
    pub node_affinity: Option<NodeAffinity>,
}

/// Affinity to nodes.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct NodeAffinity {
    /// What its node must match
    #[serde(rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    pub required: Option<NodeSelector>,
}

/// A container.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Container {
    /// Resources
    pub resources: Resources,
    /// Ports
    pub ports: Vec<Port>,
    /// `Always` makes an init container a sidecar
    pub restart_policy: String,
}

/// Resources; of them only the requests.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Resources {
    /// What the scheduler counts
    pub requests: Quantities,
}

/// A port.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Port {
    /// Port of the node, 0 if none
    pub host_port: u16,
    /// Address of the node, all if empty
    #[serde(rename = "hostIP")]
    pub host_ip: String,
    /// TCP if empty
    pub protocol: String,
}

/// A volume.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Volume {
    /// Name
    pub name: String,
    /// A claim
    pub persistent_volume_claim: Option<Claim>,
    /// A claim that is made for the pod
    pub ephemeral: Option<serde::de::IgnoredAny>,
}

/// A volume's claim.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct Claim {
    /// Name
    pub claim_name: String,
}

/// What is seen of a pod.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct PodStatus {
    /// Phase
    pub phase: String,
    /// Why it is in that phase
    pub reason: String,
}

/// A node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Node {
    /// Metadata
    pub metadata: Meta,
    /// What is wanted
    pub spec: NodeSpec,
    /// What is seen
    pub status: NodeStatus,
}

/// What is wanted of a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct NodeSpec {
    /// Cordoned
    pub unschedulable: bool,
    /// Taints
    pub taints: Vec<Taint>,
}

/// What is seen of a node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct NodeStatus {
    /// What pods may request in all
    pub allocatable: Quantities,
    /// Conditions
    pub conditions: Vec<Condition>,
}

/// A condition.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Condition {
    /// Which
    #[serde(rename = "type")]
    pub kind: String,
    /// True, False or Unknown
    pub status: String,
}

impl Node {
    /// Whether its kubelet reports that it is well.
    pub fn is_ready(&self) -> bool {
        self.status.conditions.iter().any(|condition| condition.kind == "Ready" && condition.status == "True")
    }
}

impl Pod {
    /// `namespace/name`.
    pub fn full_name(&self) -> String {
        format!("{}/{}", self.metadata.namespace, self.metadata.name)
    }

    /// Whether it still takes up what it requests.
    pub fn is_over(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }

    /// Whether it waits for this gate.
    pub fn has_gate(&self, name: &str) -> bool {
        self.spec.scheduling_gates.iter().any(|gate| gate.name == name)
    }
}

impl Watched for Pod {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

impl Watched for Node {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}
