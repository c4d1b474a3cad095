//! From a label of a series to the nodes that it is about.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use serde::Deserialize;

use crate::config::{Config, Mapping, NodeField};

/// The few fields of a Node that mappings need.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Node {
    /// Metadata
    pub metadata: NodeMeta,
    /// What is seen
    pub status: NodeStatus,
}

/// Metadata of a Node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeMeta {
    /// Name
    pub name: String,
    /// Labels
    pub labels: BTreeMap<String, String>,
    /// Version
    pub resource_version: String,
}

/// What is seen of a Node; of it only addresses.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct NodeStatus {
    /// Addresses
    pub addresses: Vec<Address>,
}

/// An address of a Node.
#[derive(Clone, Debug, Default, Deserialize, PartialEq)]
#[serde(default)]
pub struct Address {
    /// InternalIP, Hostname and others
    #[serde(rename = "type")]
    pub kind: String,
    /// The address
    pub address: String,
}

/// What series can be mapped by, beside names: addresses and labels of nodes.
#[derive(Clone, Debug, Default)]
pub struct NodeBook {
    /// By field (and key of the node label) and value: names of nodes
    names: HashMap<(NodeFieldKey, String), Vec<Arc<str>>>,
}

type NodeFieldKey = (u8, Option<Arc<str>>);

fn field_key(field: NodeField, label: Option<&str>) -> NodeFieldKey {
    let number = match field {
        NodeField::Name => 0,
        NodeField::InternalIp => 1,
        NodeField::Hostname => 2,
        NodeField::NodeLabel => 3,
    };
    (number, label.map(Arc::from))
}

impl NodeBook {
    /// Collects what the policies of a configuration need of these nodes.
    pub fn new<'n>(config: &Config, nodes: impl Iterator<Item = &'n Node>) -> Self {
        let labels: BTreeSet<&str> =
            config.policies.iter().filter_map(|policy| policy.node.node_label.as_deref()).collect();
        let mut book = Self::default();
        for node in nodes {
            let name: Arc<str> = node.metadata.name.as_str().into();
            let addresses = node.status.addresses.iter().filter_map(|address| {
                let field = match address.kind.as_str() {
                    "InternalIP" => NodeField::InternalIp,
                    "Hostname" => NodeField::Hostname,
                    _ => return None,
                };
                Some((field_key(field, None), address.address.clone()))
            });
            let labelled = labels.iter().filter_map(|key| {
                Some((field_key(NodeField::NodeLabel, Some(key)), node.metadata.labels.get(*key)?.clone()))
            });
            for key in addresses.chain(labelled) {
                book.names.entry(key).or_default().push(Arc::clone(&name));
            }
        }
        book
    }

    /// Calls `take` with the name of each node that a series with this value is about.
    pub fn find(&self, mapping: &Mapping, value: &str, mut take: impl FnMut(&str)) {
        if mapping.is == NodeField::Name {
            // names of nodes have no colon
            return take(without_port(value).unwrap_or(value));
        }
        let key = field_key(mapping.is, mapping.node_label.as_deref());
        let with = |value: &str| self.names.get(&(key.clone(), value.to_owned()));
        let is_address = mapping.is != NodeField::NodeLabel;
        let found = with(value).or_else(|| with(without_port(value).filter(|_| is_address)?));
        for name in found.into_iter().flatten() {
            take(name);
        }
    }
}

/// `10.0.0.1:9100` and `[fd00::1]:9100` without their port.
fn without_port(value: &str) -> Option<&str> {
    let (host, port) = value.rsplit_once(':')?;
    let is_port = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    match host.strip_prefix('[').and_then(|inner| inner.strip_suffix(']')) {
        Some(inner) => is_port.then_some(inner),
        // an address with colons and without brackets has no port
        None => (is_port && !host.contains(':') && !host.is_empty()).then_some(host),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn book() -> NodeBook {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, node: {label: zone, is: nodeLabel, nodeLabel: topology.kubernetes.io/zone}}\n";
        let config = crate::config::parse("test.yaml".as_ref(), text).expect("it is valid");
        let node = |name: &str, ip: &str, zone: &str| -> Node {
            let json = serde_json::json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone, "other": "x"}},
                "status": {"addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": format!("{name}.example")}, {"type": "ExternalIP", "address": "1.2.3.4"}]},
            });
            serde_json::from_value(json).expect("a node")
        };
        NodeBook::new(
            &config,
            [node("n1", "10.0.0.1", "a"), node("n2", "fd00::2", "a"), node("n3", "10.0.0.3", "b")].iter(),
        )
    }

    fn found(is: NodeField, node_label: Option<&str>, value: &str) -> Vec<String> {
        let mapping = Mapping { label: "x".to_owned(), is, node_label: node_label.map(str::to_owned) };
        let mut names = Vec::new();
        book().find(&mapping, value, |name| names.push(name.to_owned()));
        names
    }

    #[test]
    fn addresses_are_found_with_and_without_a_port() {
        for (value, name) in [("10.0.0.1", "n1"), ("10.0.0.1:9100", "n1"), ("[fd00::2]:9100", "n2"), ("fd00::2", "n2")]
        {
            assert_eq!(found(NodeField::InternalIp, None, value), [name], "{value}");
        }
        assert_eq!(found(NodeField::Hostname, None, "n3.example:9100"), ["n3"]);
        for nobody in ["", ":", "1.2.3.4", "10.0.0.1:", "10.0.0.1:x", "10.0.0.9:9100"] {
            assert!(found(NodeField::InternalIp, None, nobody).is_empty(), "{nobody}");
        }
    }

    #[test]
    fn names_are_taken_as_they_are_and_labels_stand_for_all_nodes_that_carry_them() {
        assert_eq!(found(NodeField::Name, None, "n1"), ["n1"]);
        assert_eq!(found(NodeField::Name, None, "n1:9100"), ["n1"]);
        let zone = Some("topology.kubernetes.io/zone");
        assert_eq!(found(NodeField::NodeLabel, zone, "a"), ["n1", "n2"]);
        assert!(found(NodeField::NodeLabel, zone, "c").is_empty());
    }
}
