//! The mirror pod: what the kubelet shows of a static pod in the API, as far as it tells something about the scheduler.

mod api;
mod elsewhere;
mod klog;
mod preflight;
mod summary;

use std::time::Duration;

use kube::{Api, Client};

use crate::cluster::{self, Followed, Known};
use crate::target::{Answer, Identity, Observation, Observer};
pub use api::Pod;
pub(crate) use elsewhere::{LABELS, NAMESPACE, schedulers};
pub(super) use preflight::PreflightPod;
pub use summary::{summarize, why_waiting};

/// The mirror pod of a scheduler on a node, which is followed until this is dropped.
#[derive(Debug)]
pub(super) struct MirrorPod {
    pod: Followed<Pod>,
    container: String,
    client: ClientHandle,
    node: String,
}

/// A client, with a `Debug`.
struct ClientHandle(Client);

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

impl MirrorPod {
    /// Begins to follow it. The kubelet adds the node's name to the pod's.
    pub fn follow(client: Client, identity: &Identity, node: &str) -> Self {
        let name = format!("{}-{}", identity.name, node.to_lowercase());
        Self {
            pod: Followed::begin(Api::namespaced(client.clone(), &identity.namespace), &name),
            container: identity.container.clone(),
            client: ClientHandle(client),
            node: node.to_owned(),
        }
    }

    fn observation(&self, answer: Known<Pod>) -> Observation {
        match answer {
            Known::NotYet => Observation::NotYet,
            Known::Away(why) | Known::Forbidden(why) => Observation::Away(why),
            Known::Absent => Observation::Absent,
            Known::Object(pod) => Observation::Running(summarize(&pod, &self.container)),
        }
    }
}

impl Observer for MirrorPod {
    fn latest(&mut self) -> (Observation, Duration) {
        let (known, age) = self.pod.latest();
        (self.observation(known), age)
    }

    fn is_away(&self) -> bool {
        self.pod.is_away()
    }

    fn changed(&mut self) -> Answer<'_, ()> {
        Box::pin(self.pod.changed())
    }

    fn ask(&mut self) -> Answer<'_, Observation> {
        Box::pin(async {
            let known = self.pod.ask().await;
            self.observation(known)
        })
    }

    fn why_stale(&mut self) -> Answer<'_, Option<String>> {
        Box::pin(async {
            match cluster::has_kubelet(&self.client.0, &self.node).await {
                Ok(true) => None,
                Ok(false) => Some("the kubelet of this node does not report to the API".to_owned()),
                Err(why) => Some(format!("the API does not say whether the kubelet reports: {why}")),
            }
        })
    }
}
