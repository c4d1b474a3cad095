//! Node objects, where series are mapped by addresses or labels.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use schedpatch_service::feed::{Change, Query, Watched};
use tokio::sync::watch;

use crate::config::Config;
use crate::mapping::{KnownNode, Node, NodeBook};

impl Watched for Node {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// All nodes.
pub fn query() -> Query {
    Query { path: "/api/v1/nodes", fields: String::new(), labels: String::new() }
}

#[derive(Debug, Default)]
struct All {
    nodes: BTreeMap<Arc<str>, KnownNode>,
    /// Keys of labels that are kept
    labels: BTreeSet<Arc<str>>,
    /// The last book, and the configuration that it is for
    book: Option<(Arc<Config>, Arc<NodeBook>)>,
}

/// Nodes as the watch shows them: of each only what the policies need.
#[derive(Debug)]
pub struct Nodes {
    all: Mutex<All>,
    /// Once they were listed: the labels that are kept of them
    known: watch::Sender<Option<BTreeSet<Arc<str>>>>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { all: Mutex::default(), known: watch::channel(None).0 }
    }
}

impl Nodes {
    fn all(&self) -> MutexGuard<'_, All> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Keeps these labels of the nodes that come from now on.
    pub fn keep_labels(&self, labels: BTreeSet<Arc<str>>) {
        self.all().labels = labels;
    }

    /// Takes up what the watch shows.
    pub fn take(&self, change: Change<Node>) {
        let mut all = self.all();
        let All { nodes, labels, book } = &mut *all;
        let name = |node: &Node| -> Arc<str> { node.metadata.name.as_str().into() };
        match change {
            Change::Reset(listed) => {
                *nodes = listed.into_iter().map(|node| (name(&node), KnownNode::new(&node, labels))).collect();
                *book = None;
                self.known.send_replace(Some(labels.clone()));
            }
            Change::Set(node) => {
                // nodes report something all the time, and rarely what is needed here
                let known = KnownNode::new(&node, labels);
                if nodes.get(node.metadata.name.as_str()) != Some(&known) {
                    nodes.insert(name(&node), known);
                    *book = None;
                }
            }
            Change::Gone(node) => {
                nodes.remove(node.metadata.name.as_str());
                *book = None;
            }
            Change::Lost(why) => tracing::debug!(why, "nodes are not followed for now"),
            Change::Found => {}
        }
    }

    /// Forgets all nodes, which nobody follows any more.
    pub fn forget(&self) {
        let mut all = self.all();
        (all.nodes, all.book) = Default::default();
        self.known.send_replace(None);
    }

    /// What the policies need of them. Names are not checked until the nodes are known, nor where no policy needs more than
    /// names: the nodes that were followed before may be others by now.
    pub fn book(&self, config: &Arc<Config>) -> Arc<NodeBook> {
        if !config.needs_nodes() || !is_enough(self.known.borrow().as_ref(), config) {
            return Arc::default();
        }
        let mut all = self.all();
        let kept = all.book.as_ref().filter(|(own, _)| Arc::ptr_eq(own, config));
        if let Some((_, book)) = kept {
            return Arc::clone(book);
        }
        let book = Arc::new(NodeBook::new(config, all.nodes.iter()));
        all.book = Some((Arc::clone(config), Arc::clone(&book)));
        book
    }

    /// Names of all nodes.
    pub fn names(&self) -> Vec<String> {
        self.all().nodes.keys().map(ToString::to_string).collect()
    }

    /// Waits until a list is there that has what the policies need.
    pub async fn known(&self, config: &Config) {
        // the sender lives as long as this does, so an error is impossible
        let _ = self.known.subscribe().wait_for(|labels| is_enough(labels.as_ref(), config)).await;
    }
}

fn is_enough(labels: Option<&BTreeSet<Arc<str>>>, config: &Config) -> bool {
    labels.is_some_and(|labels| config.node_labels().is_subset(labels))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    #[tokio::test(start_paused = true)]
    async fn a_configuration_that_maps_by_names_again_knows_nodes_that_join_later() {
        let config = |is: &str| {
            let text = format!(
                "prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: a, query: q, prefer: lower, node: {{label: x, is: {is}}}}}\n"
            );
            Arc::new(parse("test.yaml".as_ref(), &text).expect("valid"))
        };
        let (by_address, by_name, nodes) = (config("internalIP"), config("name"), Nodes::default());
        let node = serde_json::json!({"metadata": {"name": "a"}, "status": {"addresses": [{"type": "InternalIP", "address": "10.0.0.1"}]}});
        nodes.take(Change::Reset(vec![serde_json::from_value(node).expect("a node")]));
        let found = |config: &Arc<Config>, value: &str| {
            let mut names = Vec::new();
            nodes.book(config).find(&config.policies[0].node, value, |name| names.push(name.to_owned()));
            names
        };
        assert_eq!(found(&by_address, "10.0.0.1:9100"), ["a"]);
        assert_eq!(found(&by_name, "joins-later"), ["joins-later"]);
        let by_zone = config("nodeLabel, nodeLabel: zone");
        let is_known = async |config: &Arc<Config>| {
            tokio::time::timeout(std::time::Duration::from_secs(1), nodes.known(config)).await.is_ok()
        };
        assert!(is_known(&by_address).await && !is_known(&by_zone).await, "listed without that label");
        nodes.keep_labels(by_zone.node_labels());
        let node = serde_json::json!({"metadata": {"name": "a", "labels": {"zone": "z"}}});
        nodes.take(Change::Reset(vec![serde_json::from_value(node).expect("a node")]));
        assert!(is_known(&by_zone).await);
        assert_eq!(found(&by_zone, "z"), ["a"]);
        nodes.forget();
        assert!(found(&by_address, "10.0.0.1:9100").is_empty() && nodes.names().is_empty());
    }
}
