//! What the kubelet shows of a preflight's pod.

use std::time::Duration;

use kube::{Api, Client};

use super::api::{ContainerStatus, Pod};
use super::summary::{shortened, why_waiting};
use crate::cluster::{Followed, Known};
use crate::target::{Answer, Identity, PreflightEnd, PreflightObserver, PreflightState};

/// Reasons of a container whose program could not be started.
const START_ERRORS: [&str; 2] = ["StartError", "ContainerCannotRun"];
/// Reasons of a container that the runtime or the kubelet lost: nobody knows how its program ended, whatever its exit code is.
const LOST: [&str; 2] = ["Unknown", "ContainerStatusUnknown"];

/// The pod of a preflight, which is followed until this is dropped.
#[derive(Debug)]
pub(in crate::target::static_pod) struct PreflightPod {
    pod: Followed<Pod>,
    container: String,
}

impl PreflightPod {
    /// Begins to follow it. The kubelet adds the node's name to the pod's.
    pub fn follow(client: Client, identity: &Identity, node: &str) -> Self {
        let name = format!("{}-{}", identity.name, node.to_lowercase());
        let pod = Followed::begin(Api::namespaced(client, &identity.namespace), &name);
        Self { pod, container: identity.container.clone() }
    }

    fn state(&self, known: Known<Pod>) -> PreflightState {
        match known {
            Known::NotYet => PreflightState::Unanswered,
            Known::Away(why) => PreflightState::Away(why),
            Known::Forbidden(why) => PreflightState::Away(format!("the agent may not read its pod: {why}")),
            Known::Absent => PreflightState::Absent,
            Known::Object(pod) => summarize(&pod, &self.container),
        }
    }
}

impl PreflightObserver for PreflightPod {
    fn latest(&mut self) -> (PreflightState, Duration) {
        let (known, age) = self.pod.latest();
        (self.state(known), age)
    }

    fn changed(&mut self) -> Answer<'_, ()> {
        Box::pin(self.pod.changed())
    }

    fn ask(&mut self) -> Answer<'_, PreflightState> {
        Box::pin(async {
            let known = self.pod.ask().await;
            self.state(known)
        })
    }
}

/// Reads a pod of the API, of which one container tries the scheduler.
pub fn summarize(pod: &Pod, container: &str) -> PreflightState {
    let Some(status) = &pod.status else { return PreflightState::Starting("the kubelet has noticed it".to_owned()) };
    let mut containers = status.container_statuses.iter().flatten();
    let own = containers.find(|own| own.name == container);
    // evicted, preempted or too late: how the container ended then is nobody's word
    let is_taken =
        status.phase.as_deref() == Some("Failed") && status.reason.as_ref().is_some_and(|why| !why.is_empty());
    if is_taken {
        return PreflightState::Rejected(why_failed(status));
    }
    if let Some(ended) = own.and_then(|own| Some((own, own.state.as_ref()?.terminated.as_ref()?))) {
        if let Some(reason) = ended.1.reason.as_deref().filter(|reason| LOST.contains(reason)) {
            return PreflightState::Rejected(format!("the container runtime lost its container: {reason}"));
        }
        return PreflightState::Ended(end(ended));
    }
    if status.phase.as_deref() == Some("Failed") {
        return PreflightState::Rejected(why_failed(status));
    }
    let Some(state) = own.and_then(|own| own.state.as_ref()) else {
        return PreflightState::Starting("the kubelet has noticed it".to_owned());
    };
    match &state.waiting {
        Some(waiting) => {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let waiting = why_waiting(&text(&waiting.reason), &shortened(&text(&waiting.message)));
            let parts = [waiting.reason, waiting.message].into_iter().filter(|part| !part.is_empty());
            let words = parts.collect::<Vec<_>>().join(": ");
            if waiting.obstacle.is_some() { PreflightState::Obstructed(words) } else { PreflightState::Starting(words) }
        }
        None => PreflightState::Running,
    }
}

fn why_failed(status: &super::api::PodStatus) -> String {
    let words = [&status.reason, &status.message].into_iter().flatten().map(|text| shortened(text));
    words.collect::<Vec<_>>().join(": ")
}

fn end((own, ended): (&ContainerStatus, &super::api::Terminated)) -> PreflightEnd {
    let words = ended.message.as_deref().filter(|words| !words.trim().is_empty());
    let code = || format!("exit code {}, {}", ended.exit_code, ended.reason.as_deref().unwrap_or("no reason"));
    PreflightEnd {
        code: ended.exit_code,
        is_start_error: ended.reason.as_deref().is_some_and(|reason| START_ERRORS.contains(&reason)),
        words: words.map_or_else(code, shortened),
        image: own.image_id.clone().filter(|image| !image.is_empty()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(status: &str) -> PreflightState {
        let pod = format!(r#"{{"metadata":{{"name":"p"}},"spec":{{"containers":[]}},"status":{status}}}"#);
        summarize(&serde_json::from_str(&pod).expect("a pod"), "s")
    }

    fn container(rest: &str) -> PreflightState {
        state(&format!(r#"{{"phase":"Pending","containerStatuses":[{{"name":"s","ready":false,{rest}}}]}}"#))
    }

    #[test]
    fn each_state_of_the_pod_is_told_apart() {
        assert_eq!(state("{}"), PreflightState::Starting("the kubelet has noticed it".to_owned()));
        let creating = container(r#""state":{"waiting":{"reason":"ContainerCreating"}}"#);
        assert_eq!(creating, PreflightState::Starting("ContainerCreating".to_owned()));
        let pull = container(r#""state":{"waiting":{"reason":"ErrImagePull","message":"no such host"}}"#);
        assert_eq!(pull, PreflightState::Obstructed("ErrImagePull: no such host".to_owned()));
        assert_eq!(container(r#""state":{"running":{}}"#), PreflightState::Running);
        let full =
            state(r#"{"phase":"Failed","reason":"OutOfpods","message":"Node didn't have enough resource: pods"}"#);
        assert!(matches!(full, PreflightState::Rejected(words) if words.starts_with("OutOfpods: Node")));
        let late = state(
            r#"{"phase":"Failed","reason":"DeadlineExceeded","containerStatuses":[{"name":"s","ready":false,
                "state":{"terminated":{"exitCode":0,"reason":"Completed"}}}]}"#,
        );
        assert!(matches!(late, PreflightState::Rejected(_)), "how it ended after its deadline says nothing: {late:?}");
    }

    #[test]
    fn an_end_has_its_code_its_words_and_the_image() {
        let refused = container(
            r#""imageID":"x@sha256:1","state":{"terminated":{"exitCode":1,"reason":"Error","message":"usage\nE1117 12:00:00.000000       1 run.go:74] \"command failed\" err=\"no plugin\"\n"}}"#,
        );
        let PreflightState::Ended(end) = refused else { panic!("{refused:?}") };
        assert_eq!((end.code, end.is_start_error, end.image.as_deref()), (1, false, Some("x@sha256:1")));
        assert!(end.words.ends_with("command failed: no plugin"), "{}", end.words);
        let wrong_path =
            container(r#""state":{"terminated":{"exitCode":128,"reason":"StartError","message":"no such file"}}"#);
        assert!(matches!(wrong_path, PreflightState::Ended(end) if end.is_start_error));
        let lost = container(r#""state":{"terminated":{"exitCode":255,"reason":"Unknown"}}"#);
        assert!(matches!(&lost, PreflightState::Rejected(words) if words.ends_with("Unknown")), "{lost:?}");
        let killed = container(r#""state":{"terminated":{"exitCode":137,"reason":"OOMKilled"}}"#);
        assert!(matches!(killed, PreflightState::Ended(end) if end.words == "exit code 137, OOMKilled"));
    }
}
