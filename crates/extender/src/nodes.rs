//! Node objects, where series are mapped by addresses or labels.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use schedpatch_service::feed::{Change, Query, Watched};
use tokio::sync::watch;

use crate::config::Config;
use crate::mapping::{Node, NodeBook};

impl Watched for Node {
    fn resource_version(&self) -> &str {
        &self.metadata.resource_version
    }
}

/// All nodes.
pub fn query() -> Query {
    Query { path: "/api/v1/nodes", fields: String::new(), labels: String::new() }
}

/// Nodes as the watch shows them.
#[derive(Debug)]
pub struct Nodes {
    all: Mutex<BTreeMap<String, Node>>,
    is_known: watch::Sender<bool>,
}

impl Default for Nodes {
    fn default() -> Self {
        Self { all: Mutex::default(), is_known: watch::channel(false).0 }
    }
}

impl Nodes {
    fn all(&self) -> MutexGuard<'_, BTreeMap<String, Node>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes up what the watch shows.
    pub fn take(&self, change: Change<Node>) {
        let mut all = self.all();
        match change {
            Change::Reset(nodes) => {
                *all = nodes.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
                self.is_known.send_replace(true);
            }
            Change::Set(node) => drop(all.insert(node.metadata.name.clone(), node)),
            Change::Gone(node) => drop(all.remove(&node.metadata.name)),
            Change::Lost(why) => tracing::debug!(why, "nodes are not followed for now"),
            Change::Found => {}
        }
    }

    /// What the policies need of them.
    pub fn book(&self, config: &Config) -> NodeBook {
        NodeBook::new(config, self.all().values())
    }

    /// Names of all nodes.
    pub fn names(&self) -> Vec<String> {
        self.all().keys().cloned().collect()
    }

    /// Waits until the first list is there.
    pub async fn known(&self) {
        // the sender lives as long as this does, so an error is impossible
        let _ = self.is_known.subscribe().wait_for(|is_known| *is_known).await;
    }
}
