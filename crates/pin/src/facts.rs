//! Fresh facts about the nodes that pods are about to be bound to. A watch may lag behind without anybody noticing; a label
//! counts only if a read that began a moment ago shows it.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::sync::Mutex as AsyncMutex;
use tokio::time::Instant;

use crate::api::{Api, ApiError};
use crate::fit::{Needs, Usage};
use crate::model::{Node, Pod};

/// A node is read again when the last read began longer ago than this. With the time of one request this stays below 1 s.
pub const MAX_NODE_AGE: Duration = Duration::from_millis(400);
/// What others put on the node is counted again after this time; our own pods are counted at once.
const MAX_USAGE_AGE: Duration = Duration::from_secs(5);
/// A pod that we bound shows in every list after this time.
const RESERVED_FOR: Duration = Duration::from_secs(30);

/// What is known of one node.
#[derive(Debug, Default)]
struct Known {
    node: Option<(Instant, Option<Arc<Node>>)>,
    usage: Option<(Instant, Usage)>,
    reserved: HashMap<String, (Instant, Needs)>,
}

/// What is known of the nodes.
#[derive(Clone, Debug)]
pub struct Facts {
    api: Api,
    nodes: Arc<Mutex<HashMap<String, Arc<AsyncMutex<Known>>>>>,
}

impl Facts {
    /// Knows nothing yet.
    pub fn new(api: Api) -> Self {
        Self { api, nodes: Arc::default() }
    }

    fn known(&self, node: &str) -> Arc<AsyncMutex<Known>> {
        let mut nodes = self.nodes.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(nodes.entry(node.to_owned()).or_default())
    }

    /// The node as a read shows it that began at the returned time.
    pub async fn node(&self, name: &str) -> Result<(Instant, Option<Arc<Node>>), ApiError> {
        let known = self.known(name);
        // whoever comes while a read is under way waits for it instead of asking again
        let mut known = known.lock().await;
        if let Some((asked, node)) = &known.node
            && asked.elapsed() < MAX_NODE_AGE
        {
            return Ok((*asked, node.clone()));
        }
        let asked = Instant::now();
        let node = self.api.node(name).await?.map(Arc::new);
        known.node = Some((asked, node.clone()));
        Ok((asked, node))
    }

    /// Counts the pod on the node if it fits, or says what does not.
    pub async fn reserve(&self, node: &Node, pod: &Pod) -> Result<Option<String>, ApiError> {
        let known = self.known(&node.metadata.name);
        let mut known = known.lock().await;
        if known.usage.as_ref().is_none_or(|(asked, _)| asked.elapsed() >= MAX_USAGE_AGE) {
            let asked = Instant::now();
            let mut usage = Usage::of(&self.api.pods_on(&node.metadata.name).await?);
            known.reserved.retain(|_, (since, _)| since.elapsed() < RESERVED_FOR);
            usage.extend(known.reserved.iter().map(|(uid, (_, needs))| (uid.clone(), needs.clone())));
            known.usage = Some((asked, usage));
        }
        let (uid, needs) = (&pod.metadata.uid, Needs::of(pod));
        let Known { usage: Some((_, usage)), reserved, .. } = &mut *known else { return Ok(None) };
        let misfit = usage.misfit(uid, &needs, node);
        if misfit.is_none() {
            usage.reserve(uid, needs.clone());
            reserved.insert(uid.clone(), (Instant::now(), needs));
        } else {
            // the next try counts anew
            known.usage = None;
        }
        Ok(misfit)
    }

    /// Forgets a pod that was not bound after all.
    pub async fn release(&self, node: &str, uid: &str) {
        let known = self.known(node);
        let mut known = known.lock().await;
        known.reserved.remove(uid);
        if let Some((_, usage)) = &mut known.usage {
            usage.release(uid);
        }
    }

    /// Forgets nodes that are gone.
    pub fn forget(&self, node: &str) {
        self.nodes.lock().unwrap_or_else(PoisonError::into_inner).remove(node);
    }
}
