//! The mirror pods of all nodes.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::super::{GENERATION, REVISION, ROLLED_BACK_FROM, scheduler_words};
use crate::target::{SchedulerElsewhere, StartState, flag_of};

/// Where static pods of schedulers are.
pub const NAMESPACE: &str = "kube-system";
/// Their labels: kubeadm, RKE2 and their like; kops.
pub const LABELS: [&str; 2] = ["component=kube-scheduler", "k8s-app=kube-scheduler"];
/// The kubelet marks the API's copy of a static pod with this.
const MIRROR: &str = "kubernetes.io/config.mirror";

/// One scheduler for each node: of several ours, or else the one with the usual name.
pub fn schedulers(pods: &[Pod]) -> Vec<SchedulerElsewhere> {
    let mut found: BTreeMap<String, SchedulerElsewhere> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| annotation(pod, MIRROR).is_some()) {
        let Some(scheduler) = scheduler(pod) else { continue };
        let is_better = |known: &SchedulerElsewhere| known.revision.is_none() && is_usual(&scheduler);
        if found.get(&scheduler.node).is_none_or(is_better) {
            found.insert(scheduler.node.clone(), scheduler);
        }
    }
    found.into_values().collect()
}

fn scheduler(pod: &Pod) -> Option<SchedulerElsewhere> {
    let spec = pod.spec.as_ref()?;
    let found = spec.containers.iter().find_map(|own| {
        let words: Vec<&str> = [&own.command, &own.args].into_iter().flatten().flatten().map(String::as_str).collect();
        // a program that a person named may be called otherwise
        let is_ours = annotation(pod, REVISION).is_some() && flag_of(words.get(1..)?, "config").is_some();
        let flags = scheduler_words(&words).or_else(|| words.get(1..).filter(|_| is_ours))?;
        Some((own, flag_of(flags, "config")))
    });
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let status = found.as_ref().and_then(|(own, _)| statuses.into_iter().find(|status| status.name == own.name));
    Some(SchedulerElsewhere {
        node: spec.node_name.clone()?,
        pod: pod.metadata.name.clone().unwrap_or_default(),
        revision: annotation(pod, REVISION).cloned(),
        generation: annotation(pod, GENERATION).cloned(),
        rolled_back_from: annotation(pod, ROLLED_BACK_FROM).cloned(),
        instance: status
            .map(|status| format!("{:?} {}", status.container_id, status.restart_count))
            .unwrap_or_default(),
        config: found.and_then(|(_, config)| config),
        ready: status.is_some_and(|status| status.ready),
        ending: pod.metadata.deletion_timestamp.is_some(),
        state: start_state(status),
    })
}

fn start_state(status: Option<&ContainerStatus>) -> StartState {
    let Some(state) = status.and_then(|status| status.state.as_ref()) else { return StartState::Unknown };
    match (&state.waiting, &state.running, &state.terminated) {
        (Some(waiting), ..) => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            StartState::Waiting(text(&waiting.reason), text(&waiting.message))
        }
        (_, Some(_), _) => StartState::Running,
        (.., Some(ended)) => StartState::Ended(ended.exit_code),
        _ => StartState::Unknown,
    }
}

fn is_usual(scheduler: &SchedulerElsewhere) -> bool {
    scheduler.revision.is_some() || scheduler.pod == format!("kube-scheduler-{}", scheduler.node.to_lowercase())
}

fn annotation<'p>(pod: &'p Pod, key: &str) -> Option<&'p String> {
    pod.metadata.annotations.as_ref()?.get(key)
}
