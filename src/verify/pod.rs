//! The mirror pod, as far as it tells something about the scheduler. Pure: from the API's object to our own few fields.

use kube::ResourceExt as _;

use super::Expectation;
use super::api::{ContainerStatus, Pod};
use super::klog;
use crate::compose::hide_credentials;
use crate::edit;

/// So much of a scheduler's last words is kept: the usage text comes first, the reason last.
const LAST_WORDS: usize = 300;

/// What could be learned of the mirror pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nobody is asked
    Unasked,
    /// No answer has come yet
    NotYet,
    /// The API did not answer, for this reason
    Away(String),
    /// There is no such pod
    Absent,
    /// There is
    Pod(MirrorPod),
}

/// The mirror pod.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MirrorPod {
    /// Our revision, as the kubelet copied it from the manifest
    pub revision: Option<String>,
    /// Our generation, likewise
    pub generation: Option<u64>,
    /// The last `--config` of its scheduler
    pub config: Option<String>,
    /// The scheduler's container, once the kubelet tells of it
    pub container: Option<Container>,
}

/// The scheduler's container.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Container {
    /// Its id; empty before it is made
    pub id: String,
    /// Whether it runs and, where it is asked, says that it is ready
    pub ready: bool,
    /// Why it is not made: reason and message
    pub waiting: Option<(String, String)>,
    /// The last one that ended: its id and last words
    pub ended: Option<(String, String)>,
}

/// Reads a pod of the API.
pub fn summarize(pod: &Pod, expected: &Expectation) -> MirrorPod {
    let annotations = pod.annotations();
    let spec = pod.spec.as_ref().and_then(|spec| spec.containers.iter().find(|own| own.name == expected.container));
    let words = spec.map(|spec| [spec.command.as_deref(), spec.args.as_deref()].into_iter().flatten().flatten());
    let words: Vec<&str> = words.into_iter().flatten().map(String::as_str).collect();
    let statuses = pod.status.as_ref().and_then(|status| status.container_statuses.as_ref()).into_iter().flatten();
    let status = statuses.into_iter().find(|status| status.name == expected.container);
    MirrorPod {
        revision: annotations.get(edit::REVISION).cloned(),
        generation: annotations.get(edit::GENERATION).and_then(|generation| generation.parse().ok()),
        config: edit::scheduler_words(&words).and_then(|words| edit::flag_of(words, "config")),
        container: status.map(container),
    }
}

fn container(status: &ContainerStatus) -> Container {
    let waiting = status.state.as_ref().and_then(|state| state.waiting.as_ref()).map(|waiting| {
        (waiting.reason.clone().unwrap_or_default(), shortened(waiting.message.as_deref().unwrap_or_default()))
    });
    let mut lives = [&status.state, &status.last_state].into_iter().flatten();
    let ended = lives.find_map(|state| state.terminated.as_ref()).map(|ended| {
        let words = ended.message.as_deref().filter(|words| !words.trim().is_empty());
        let code = || format!("exit code {}, {}", ended.exit_code, ended.reason.as_deref().unwrap_or("no reason"));
        (ended.container_id.clone().unwrap_or_default(), words.map_or_else(code, shortened))
    });
    Container { id: status.container_id.clone().unwrap_or_default(), ready: status.ready, waiting, ended }
}

/// The end of a text, in one line: what a program says last is why it ended.
fn shortened(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(str::trim).filter(|line| !line.is_empty()).map(klog::words).collect();
    // before it is cut, which may take the scheme from a URL
    let text = hide_credentials(&lines.join(" | ")).into_owned();
    let cut = text.chars().count().saturating_sub(LAST_WORDS);
    let kept: String = text.chars().skip(cut).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if cut > 0 { format!("…{kept}") } else { kept }
}
