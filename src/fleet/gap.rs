//! What lacks for a proof, on one node. Pure.

use super::{Missing, NodeAnnotations, NodeRow, SchedulerPod};

/// Phases out of which only a person leads.
const FINAL_PHASES: [&str; 4] = ["Blocked", "RolledBack", "Degraded", "Restored"];

/// The first thing that lacks for a proof.
pub(super) fn gap(row: &NodeRow, wanted: Option<&str>) -> Option<Missing> {
    let lacks = |reason: &str, message: String| Some(Missing { reason: reason.to_owned(), message, r#final: false });
    let NodeRow { control_plane, said, agent, scheduler, .. } = row;
    if !control_plane {
        return lacks(
            "NotControlPlane",
            "an agent or a scheduler runs here, but no label makes it a control-plane node".to_owned(),
        );
    }
    let Some(agent) = agent else {
        return lacks("NoAgent", "no agent runs here, so nothing is verified or kept".to_owned());
    };
    if !agent.current {
        return lacks(
            "AgentOutdated",
            "the agent here does not run with the flags that the DaemonSet has now".to_owned(),
        );
    }
    if let Some(why) = &agent.stopped {
        return lacks("AgentNotRunning", format!("the agent {} does not run: {why}", agent.pod));
    }
    let Some(phase) = &said.phase else {
        return lacks("NotReported", "the agent has not written to its node yet".to_owned());
    };
    let Some(wanted) = wanted else {
        return lacks("WantedUnknown", "what is wanted is not known, see below".to_owned());
    };
    if said.digest.as_deref() != Some(wanted) {
        let message = "the agent has not taken up the ConfigMap as it is now; that takes a moment. If it lasts, the agent's log says why: it may not read the \
                       ConfigMap through the API, or the ConfigMap is gone";
        return lacks("SourceNotSeen", message.to_owned());
    }
    if phase != "Ready" {
        let reason = said.reason.clone().unwrap_or_else(|| phase.clone());
        let message = format!("{phase}: {}", said.message.as_deref().unwrap_or("no message"));
        let r#final =
            FINAL_PHASES.contains(&phase.as_str()) || matches!(reason.as_str(), "NoSource" | "SourceForbidden");
        return Some(Missing { reason, message, r#final });
    }
    if said.verified_digest.as_deref() != Some(wanted) {
        return lacks("NotVerified", "what was proven last is not what is wanted now".to_owned());
    }
    running_gap(said, scheduler.as_ref())
        .map(|(reason, message)| Missing { reason: reason.to_owned(), message, r#final: false })
        .or_else(|| {
            if agent.ready {
                None
            } else {
                lacks("AgentNotReady", "the agent's /readyz does not say so yet".to_owned())
            }
        })
}

/// Somebody took this node out.
pub(super) fn uninstalled() -> Missing {
    let message = "somebody asked to remove schedpatch from this node; schedpatch uninstall --cancel applies the \
                   configuration again";
    Missing { reason: "Uninstalled".to_owned(), message: message.to_owned(), r#final: true }
}

/// What the running scheduler lacks, whatever its agent says.
fn running_gap(said: &NodeAnnotations, scheduler: Option<&SchedulerPod>) -> Option<(&'static str, String)> {
    let Some(running) = scheduler else {
        return Some(("NoScheduler", "no pod shows a scheduler here".to_owned()));
    };
    let pod = &running.pod;
    if running.revision.is_none() || (&running.revision, &running.generation) != (&said.revision, &said.generation) {
        let shown = |revision: &Option<String>, generation: &Option<String>| match (revision, generation) {
            (Some(revision), Some(generation)) => format!("revision {revision}, generation {generation}"),
            _ => "nothing of schedpatch".to_owned(),
        };
        let (runs, is) = (shown(&running.revision, &running.generation), shown(&said.revision, &said.generation));
        return Some(("OtherRevision", format!("{pod} carries {runs}; the manifest {is}")));
    }
    let names_it = |config: &String| running.revision.as_ref().is_some_and(|own| config.contains(&format!("/{own}/")));
    if !running.config.as_ref().is_some_and(names_it) {
        return Some(("OtherConfig", format!("{pod} was not started with the configuration of its revision")));
    }
    if !running.ready {
        return Some(("SchedulerNotReady", format!("{pod} is not ready")));
    }
    None
}
