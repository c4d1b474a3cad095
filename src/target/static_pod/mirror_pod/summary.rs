//! From the API's pod to what it tells about the scheduler. Pure.

use kube::ResourceExt as _;

use super::api::{ContainerStatus, Pod};
use super::klog;
use crate::target::static_pod::{GENERATION, REVISION, scheduler_words};
use crate::target::{Instance, Obstacle, Running, Waiting, flag_of};
use crate::url::hide_credentials;

/// So much of a scheduler's last words is kept: the usage text comes first, the reason last.
const LAST_WORDS: usize = 300;
/// How a scheduler ends that lost its lease, in lower case: kube-scheduler logs `"Leaderelection lost"`. It says nothing about
/// its configuration.
const LOST_LEASE: &str = "leaderelection lost";
/// Exit codes of a scheduler that was told to end, as the kubelet does when somebody changes the manifest: 0, and SIGTERM.
const TOLD_TO_END: [i32; 2] = [0, 143];
/// Waiting reasons of a container whose image is missing.
const PULL_REASONS: [&str; 5] =
    ["ErrImagePull", "ImagePullBackOff", "ErrImageNeverPull", "InvalidImageName", "ImageInspectError"];
/// Waiting reasons of a container that the kubelet cannot create or start.
const START_REASONS: [&str; 3] = ["CreateContainerConfigError", "CreateContainerError", "RunContainerError"];

/// Reads a pod of the API, of which one container runs the scheduler.
pub fn summarize(pod: &Pod, container: &str) -> Running {
    let annotations = pod.annotations();
    let spec = pod.spec.as_ref().and_then(|spec| spec.containers.iter().find(|own| own.name == container));
    let words = spec.map(|spec| [spec.command.as_deref(), spec.args.as_deref()].into_iter().flatten().flatten());
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let status = statuses.into_iter().find(|status| status.name == container);
    Running {
        revision: annotations.get(REVISION).cloned(),
        generation: annotations.get(GENERATION).and_then(|generation| generation.parse().ok()),
        // a program that a person named may be called otherwise
        config: scheduler_words(&words).or_else(|| words.get(1..)).and_then(|words| flag_of(words, "config")),
        instance: status.map(instance),
    }
}

fn instance(status: &ContainerStatus) -> Instance {
    let state = status.state.as_ref().and_then(|state| state.waiting.as_ref());
    let waiting = state.map(|waiting| {
        let message = shortened(waiting.message.as_deref().unwrap_or_default());
        why_waiting(waiting.reason.as_deref().unwrap_or_default(), &message)
    });
    let mut lives = [&status.state, &status.last_state].into_iter().flatten();
    let ended =
        lives.find_map(|state| state.terminated.as_ref()).filter(|ended| !TOLD_TO_END.contains(&ended.exit_code));
    let ended = ended.map(|ended| {
        let words = ended.message.as_deref().filter(|words| !words.trim().is_empty());
        let code = || format!("exit code {}, {}", ended.exit_code, ended.reason.as_deref().unwrap_or("no reason"));
        (ended.container_id.clone().unwrap_or_default(), words.map_or_else(code, shortened))
    });
    let ended = ended.filter(|(_, words)| !words.to_lowercase().contains(LOST_LEASE));
    let image = status.image_id.clone().filter(|image| !image.is_empty());
    Instance {
        id: status.container_id.clone().unwrap_or_default(),
        ready: status.ready,
        waiting,
        ended,
        restarts: None,
        image,
    }
}

/// What the kubelet's reason for a container that does not run means.
pub fn why_waiting(reason: &str, message: &str) -> Waiting {
    let obstacle = match reason {
        _ if PULL_REASONS.contains(&reason) => Some(Obstacle::Image),
        _ if START_REASONS.contains(&reason) => Some(Obstacle::Start),
        _ => None,
    };
    Waiting { obstacle, reason: reason.to_owned(), message: message.to_owned() }
}

/// The end of a text, in one line: what a program says last is why it ended.
pub(super) fn shortened(text: &str) -> String {
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    // of a panic the first line says why, and the rest where
    let panic = lines.clone().find(|line| line.starts_with("panic: ") || line.starts_with("fatal error: "));
    let lines: Vec<String> = panic.map_or_else(|| lines.map(klog::words).collect(), |line| vec![line.to_owned()]);
    // before it is cut, which may take the scheme from a URL
    let text = hide_credentials(&lines.join(" | ")).into_owned();
    let cut = text.chars().count().saturating_sub(LAST_WORDS);
    let kept: String = text.chars().skip(cut).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut > 0 { format!("…{kept}") } else { kept }
}
