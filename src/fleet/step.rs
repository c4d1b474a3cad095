//! Where a change is on one node, by the scheduler's mirror pod: what `status --wait` shows as it happens. Pure.

use k8s_openapi::api::core::v1::ContainerStatus;

use super::{NodeRow, SchedulerPod};

/// The agent's phase between a commit and its proof.
const VERIFYING: &str = "Verifying";
/// What the kubelet says of a container that it is about to make.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

/// What the kubelet says of the scheduler's container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ContainerState {
    /// Nothing yet
    #[default]
    Unknown,
    /// It is not made: reason and message
    Waiting(String, String),
    /// It runs
    Running,
    /// It ended with this code
    Ended(i32),
}

impl ContainerState {
    /// Of a container's status.
    pub fn of(status: Option<&ContainerStatus>) -> Self {
        let Some(state) = status.and_then(|status| status.state.as_ref()) else { return Self::Unknown };
        match (&state.waiting, &state.running, &state.terminated) {
            (Some(waiting), ..) => {
                Self::Waiting(waiting.reason.clone().unwrap_or_default(), waiting.message.clone().unwrap_or_default())
            }
            (_, Some(_), _) => Self::Running,
            (.., Some(ended)) => Self::Ended(ended.exit_code),
            _ => Self::Unknown,
        }
    }
}

/// The step in words; none where no change is under way.
pub(super) fn step(row: &NodeRow) -> Option<String> {
    if row.said.phase.as_deref() != Some(VERIFYING) {
        return None;
    }
    let Some(pod) = &row.scheduler else { return Some("the old pod is gone; the new one is not there yet".to_owned()) };
    let SchedulerPod { revision, generation, ending, state, ready, .. } = pod;
    if *ending || (revision, generation) != (&row.said.revision, &row.said.generation) {
        return Some("the kubelet stops the old pod".to_owned());
    }
    Some(match state {
        ContainerState::Unknown => "the new pod is there; its container is not created yet".to_owned(),
        ContainerState::Waiting(reason, _) if ON_ITS_WAY.contains(&reason.as_str()) => {
            "the kubelet creates the container, and pulls its image where that is missing".to_owned()
        }
        ContainerState::Waiting(reason, message) => format!("the container does not start: {reason}: {message}"),
        ContainerState::Ended(code) => format!("the container ended with exit code {code}"),
        ContainerState::Running if *ready => "the scheduler is ready; settling: it must stay ready".to_owned(),
        ContainerState::Running => {
            "the image is pulled, the container is created and runs; it is not ready yet".to_owned()
        }
    })
}
