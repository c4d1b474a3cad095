//! Where a change is on one node, by the scheduler's pod: what `status --wait` shows as it happens. Pure.

use super::{NodeRow, SchedulerPod};
use crate::target::StartState;

/// The agent's phase between a commit and its proof.
const VERIFYING: &str = "Verifying";
/// What the kubelet says of a container that it is about to make.
const ON_ITS_WAY: [&str; 2] = ["ContainerCreating", "PodInitializing"];

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
        StartState::Unknown => "the new pod is there; its container is not created yet".to_owned(),
        StartState::Waiting(reason, _) if ON_ITS_WAY.contains(&reason.as_str()) => {
            "the kubelet creates the container, and pulls its image where that is missing".to_owned()
        }
        StartState::Waiting(reason, message) => format!("the container does not start: {reason}: {message}"),
        StartState::Ended(code) => format!("the container ended with exit code {code}"),
        StartState::Running if *ready => "the scheduler is ready; settling: it must stay ready".to_owned(),
        StartState::Running => "the image is pulled, the container is created and runs; it is not ready yet".to_owned(),
    })
}
