//! From a label of a series to the nodes that it is about.

mod labels;

use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

use serde::Deserialize;

use crate::config::{Config, Mapping, NodeField};

pub use labels::Labels;

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
    pub labels: Labels,
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

/// What is kept of a Node: what the policies need, and no more.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KnownNode {
    addresses: Box<[(NodeField, Box<str>)]>,
    labels: Box<[(Arc<str>, Box<str>)]>,
}

impl KnownNode {
    /// Takes addresses and these labels.
    pub fn new(node: &Node, keys: &BTreeSet<Arc<str>>) -> Self {
        let addresses = node.status.addresses.iter().filter_map(|address| {
            let field = match address.kind.as_str() {
                "InternalIP" => NodeField::InternalIp,
                "Hostname" => NodeField::Hostname,
                _ => return None,
            };
            Some((field, address.address.as_str().into()))
        });
        let labels = keys.iter().filter_map(|key| Some((Arc::clone(key), node.metadata.labels.get(key)?.into())));
        Self { addresses: addresses.collect(), labels: labels.collect() }
    }
}

/// By value: names of nodes.
type ByValue = HashMap<Box<str>, Vec<Arc<str>>>;

/// What series can be mapped by: addresses and labels of nodes, and their names where they are known.
#[derive(Clone, Debug, Default)]
pub struct NodeBook {
    /// By field (and key of the node label) and value: names of nodes
    names: HashMap<(NodeField, Option<Arc<str>>), ByValue>,
    /// All nodes; none where they are not known
    all: Option<HashSet<Arc<str>>>,
}

impl NodeBook {
    /// Collects what the policies of a configuration need of these nodes.
    pub fn new<'n>(config: &Config, nodes: impl Iterator<Item = (&'n Arc<str>, &'n KnownNode)>) -> Self {
        let is_needed = |field| config.policies.iter().any(|policy| policy.node.is == field);
        let mut book = Self::default();
        let all = book.all.insert(HashSet::new());
        for (name, node) in nodes {
            all.insert(Arc::clone(name));
            let addresses = node.addresses.iter().filter(|(field, _)| is_needed(*field));
            let addresses = addresses.map(|(field, value)| ((*field, None), value));
            let labels = node.labels.iter().map(|(key, value)| ((NodeField::NodeLabel, Some(Arc::clone(key))), value));
            for (key, value) in addresses.chain(labels) {
                let values = book.names.entry(key).or_default();
                values.entry(value.clone()).or_default().push(Arc::clone(name));
            }
        }
        book
    }

    /// Calls `take` with the name of each node that a series with this value is about.
    pub fn find(&self, mapping: &Mapping, value: &str, mut take: impl FnMut(&str)) {
        if mapping.is == NodeField::Name {
            // names of nodes have no colon
            let name = without_port(value).unwrap_or(value);
            if self.all.as_ref().is_none_or(|all| all.contains(name)) {
                take(name);
            }
            return;
        }
        let key = (mapping.is, mapping.node_label.as_deref().map(Arc::from));
        let Some(values) = self.names.get(&key) else { return };
        let is_address = mapping.is != NodeField::NodeLabel;
        let found = values.get(value).or_else(|| values.get(without_port(value).filter(|_| is_address)?));
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
    use std::collections::BTreeMap;

    use super::*;

    fn book() -> NodeBook {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, node: {label: zone, is: nodeLabel, nodeLabel: topology.kubernetes.io/zone}}\n- {name: b, query: b, prefer: lower, node: {is: internalIP}}\n- {name: c, query: c, prefer: lower, node: {is: hostname}}\n";
        let config = crate::config::parse("test.yaml".as_ref(), text).expect("it is valid");
        let node = |name: &str, ip: &str, zone: &str| -> Node {
            let json = serde_json::json!({
                "metadata": {"name": name, "labels": {"topology.kubernetes.io/zone": zone, "other": "x"}},
                "status": {"addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": format!("{name}.example")}, {"type": "ExternalIP", "address": "1.2.3.4"}]},
            });
            serde_json::from_value(json).expect("a node")
        };
        let nodes = [node("n1", "10.0.0.1", "a"), node("n2", "fd00::2", "a"), node("n3", "10.0.0.3", "b")];
        let kept: BTreeMap<Arc<str>, KnownNode> = nodes
            .iter()
            .map(|node| (node.metadata.name.as_str().into(), KnownNode::new(node, &config.node_labels())))
            .collect();
        NodeBook::new(&config, kept.iter())
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

    #[test]
    fn names_that_are_no_nodes_map_to_nothing_where_the_nodes_are_known() {
        assert!(found(NodeField::Name, None, "10.0.0.1:9100").is_empty());
        let mut names = Vec::new();
        let mapping = Mapping::default();
        NodeBook::default().find(&mapping, "10.0.0.1:9100", |name| names.push(name.to_owned()));
        assert_eq!(names, ["10.0.0.1"], "without the nodes nobody can tell");
    }

    /// A number that looks random.
    fn next(random: &mut u64, below: u64) -> u64 {
        *random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*random >> 33) % below
    }

    #[test]
    fn in_any_cluster_a_node_is_found_by_each_of_its_own_and_nobody_else_is() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: a, prefer: lower, node: {label: x, is: nodeLabel, nodeLabel: zone}}\n- {name: b, query: b, prefer: lower, node: {is: internalIP}}\n- {name: c, query: c, prefer: lower, node: {is: hostname}}\n";
        let config = crate::config::parse("test.yaml".as_ref(), text).expect("it is valid");
        let mapping = |is, key: Option<&str>| Mapping { label: "x".to_owned(), is, node_label: key.map(str::to_owned) };
        let mut random = 7;
        for _ in 0..50 {
            let count = 1 + next(&mut random, 40);
            let nodes: BTreeMap<Arc<str>, (String, String, String)> = (0..count)
                .map(|number| {
                    let ip = if next(&mut random, 2) == 0 {
                        format!("10.1.0.{number}")
                    } else {
                        format!("fd00::{number:x}")
                    };
                    let zone = format!("z{}", next(&mut random, 4));
                    (format!("n{number}").into(), (ip, format!("host-{number}.example"), zone))
                })
                .collect();
            let known: BTreeMap<Arc<str>, KnownNode> = nodes
                .iter()
                .map(|(name, (ip, host, zone))| {
                    let node = serde_json::json!({
                        "metadata": {"name": &**name, "labels": {"zone": zone}},
                        "status": {"addresses": [{"type": "InternalIP", "address": ip}, {"type": "Hostname", "address": host}]},
                    });
                    let node: Node = serde_json::from_value(node).expect("a node");
                    (Arc::clone(name), KnownNode::new(&node, &config.node_labels()))
                })
                .collect();
            let book = NodeBook::new(&config, known.iter());
            let found = |is, key, value: &str| {
                let mut names = Vec::new();
                book.find(&mapping(is, key), value, |name| names.push(name.to_owned()));
                names
            };
            for (name, (ip, host, zone)) in &nodes {
                let port = 1 + next(&mut random, 65_535);
                let with_port = if ip.contains(':') { format!("[{ip}]:{port}") } else { format!("{ip}:{port}") };
                for (is, value) in [
                    (NodeField::Name, name.to_string()),
                    (NodeField::Name, format!("{name}:{port}")),
                    (NodeField::InternalIp, ip.clone()),
                    (NodeField::InternalIp, with_port),
                    (NodeField::Hostname, host.clone()),
                    (NodeField::Hostname, format!("{host}:{port}")),
                ] {
                    assert_eq!(found(is, None, &value), [name.to_string()], "{value}");
                    let other = format!("x{value}");
                    assert!(found(is, None, &other).is_empty(), "{other}");
                }
                let all = nodes.iter().filter(|(_, (_, _, own))| own == zone).map(|(name, _)| name.to_string());
                assert_eq!(found(NodeField::NodeLabel, Some("zone"), zone), all.collect::<Vec<_>>(), "{zone}");
                assert!(found(NodeField::NodeLabel, Some("zone"), &format!("{zone}:{port}")).is_empty());
            }
        }
    }
}
