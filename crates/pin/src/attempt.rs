//! One attempt to give a pod its node: fresh facts, the checks, then one request that the API server does or refuses.

use std::time::Duration;

use tokio::time::Instant;

use crate::api::{Api, ApiError};
use crate::decide::{Checks, Mode, problem};
use crate::facts::{Facts, MAX_NODE_AGE};
use crate::gate;
use crate::labels::{Labels, PodKey};
use crate::model::{Node, Pod};
use crate::reason::{Reason, Wait};
use crate::volumes::{Volume, volumes};

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is bound, or sent, to this node
    Placed(String),
    /// It has to wait
    Wait(Wait),
    /// It is gone, bound by somebody else, gated, or changed; the watch shows what it is now
    Moved(String, ApiError),
    /// The API server did not do it; with the node if the pod was asked to go there
    Failed(Option<String>, ApiError),
    /// We do not lead any more
    NotLeading,
}

/// What an attempt needs.
#[derive(Clone, Debug)]
pub struct Attempt {
    /// The API server
    pub api: Api,
    /// Fresh facts
    pub facts: Facts,
    /// Labels of this scheduler
    pub labels: Labels,
    /// What is checked
    pub checks: Checks,
    /// Until when we lead, if several replicas run
    pub leads_until: Option<tokio::sync::watch::Receiver<Option<Instant>>>,
}

impl Attempt {
    /// Tries the nodes in order.
    pub async fn run(&self, pod: &Pod, mode: Mode, nodes: &[String]) -> Outcome {
        let volumes = match self.volumes(pod, mode).await {
            Ok(Ok(volumes)) => volumes,
            Ok(Err(reason)) => return Outcome::Wait(Wait::alone(reason)),
            Err(error) => return Outcome::Failed(None, error),
        };
        let mut reasons = Vec::new();
        for name in nodes {
            match self.try_node(pod, mode, name, &volumes).await {
                Ok(Ok(outcome)) => return outcome,
                Ok(Err(reason)) => reasons.push((Some(name.clone()), reason)),
                Err(error) => return Outcome::Failed(None, error),
            }
        }
        Outcome::Wait(Wait(reasons))
    }

    /// The bound volumes of a pod that we bind ourselves; kube-scheduler looks after the others.
    pub async fn volumes(&self, pod: &Pod, mode: Mode) -> Result<Result<Vec<Volume>, Reason>, ApiError> {
        match (self.checks, mode) {
            (Checks::Safe, Mode::Bind) => volumes(&self.api, pod).await,
            _ => Ok(Ok(Vec::new())),
        }
    }

    async fn try_node(
        &self,
        pod: &Pod,
        mode: Mode,
        name: &str,
        volumes: &[Volume],
    ) -> Result<Result<Outcome, Reason>, ApiError> {
        let mut counted = false;
        let outcome = loop {
            let (asked, node) = self.facts.node(name).await?;
            let Some(node) = node else { break Err(Reason::NodeMissing) };
            if let Some(reason) = self.objection(pod, &node, volumes) {
                break Err(reason);
            }
            if !counted && mode == Mode::Bind && self.checks == Checks::Safe {
                if let Some(why) = self.facts.reserve(&node, pod).await? {
                    return Ok(Err(Reason::DoesNotFit(why)));
                }
                counted = true;
                // counting may have taken its time: the label is looked at again if it has
                if asked.elapsed() >= MAX_NODE_AGE {
                    continue;
                }
            }
            if !self.is_leading() {
                break Ok(Outcome::NotLeading);
            }
            let done = match mode {
                Mode::Bind => self.api.bind(pod, name).await,
                Mode::Gate => match gate::patch(pod, name) {
                    Some(patch) => self.api.patch_pod(pod, &patch).await,
                    None => break Ok(Outcome::Placed(name.to_owned())),
                },
            };
            break match done {
                Ok(()) => Ok(Outcome::Placed(name.to_owned())),
                // 409: bound, deleted, gated or another pod of that name; 404: gone; 422: the patch met another version
                Err(error) if matches!(error.code(), 404 | 409 | 422) => Ok(Outcome::Moved(name.to_owned(), error)),
                Err(error) => Ok(Outcome::Failed(Some(name.to_owned()), error)),
            };
        };
        // without an answer the pod may be bound, and so it stays counted
        let is_unknown = matches!(&outcome, Ok(Outcome::Failed(_, error)) if error.code() == 0);
        if counted && !is_unknown && !matches!(outcome, Ok(Outcome::Placed(_))) {
            self.facts.release(name, &pod.metadata.uid).await;
        }
        Ok(outcome)
    }

    /// What speaks against this node, as far as the node itself and the pod's bound volumes show.
    pub fn objection(&self, pod: &Pod, node: &Node, volumes: &[Volume]) -> Option<Reason> {
        let key = PodKey::of(&pod.metadata.namespace, &pod.metadata.name);
        let is_pinned = self.labels.forms(&key).iter().any(|label| node.metadata.labels.contains_key(label));
        if !is_pinned {
            return Some(Reason::LabelGone);
        }
        let out_of_reach = || volumes.iter().find(|volume| !volume.is_reachable_from(node));
        problem(pod, node, self.checks)
            .or_else(|| out_of_reach().map(|volume| Reason::VolumeUnreachable(volume.name.clone())))
    }

    fn is_leading(&self) -> bool {
        let until = self.leads_until.as_ref().map(|until| *until.borrow());
        until.is_none_or(|until| until.is_some_and(|until| Instant::now() + Duration::from_secs(1) < until))
    }
}
