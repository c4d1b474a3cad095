//! The scheduler's mirror pod: what the API tells of the static pod.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::Node;

/// The mirror pod of a node's scheduler at one moment.
#[derive(Clone, Debug)]
pub struct Mirror {
    pub annotations: BTreeMap<String, String>,
    pub command: Vec<String>,
    /// Without the runtime's name before it; empty where there is none
    pub container: String,
    pub running: bool,
    pub ready: bool,
    /// Why the container ended last, where it did
    pub terminated: Option<String>,
}

impl Mirror {
    /// None where there is none, or nobody to ask.
    pub fn of(node: Node<'_>) -> Result<Self, String> {
        let name = format!("kube-scheduler-{}", node.name);
        let shown = node.kubectl(&["-n", "kube-system", "get", "pod", &name, "-o", "json"]);
        if shown.status != 0 {
            return Err(format!("no mirror pod: {}", shown.last_words()));
        }
        let pod: Value = serde_json::from_str(&shown.stdout).map_err(|error| error.to_string())?;
        Ok(Self::read(&pod))
    }

    fn read(pod: &Value) -> Self {
        let words = |value: &Value| -> Vec<String> {
            value.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
        };
        let annotations = pod["metadata"]["annotations"].as_object().into_iter().flatten();
        let container = &pod["spec"]["containers"][0];
        let status = &pod["status"]["containerStatuses"][0];
        let id = status["containerID"].as_str().unwrap_or_default();
        let ended = [&status["state"], &status["lastState"]].map(|state| state["terminated"]["message"].as_str());
        Self {
            annotations: annotations.map(|(k, v)| (k.clone(), v.as_str().unwrap_or_default().to_owned())).collect(),
            command: [words(&container["command"]), words(&container["args"])].concat(),
            container: id.rsplit('/').next().unwrap_or_default().to_owned(),
            running: status["state"]["running"].is_object(),
            ready: status["ready"] == true,
            terminated: ended.into_iter().flatten().next().map(str::to_owned),
        }
    }

    /// The kubelet's identity of what it read.
    pub fn hash(&self) -> &str {
        self.annotation("kubernetes.io/config.hash")
    }

    /// 0 where there is none.
    pub fn generation(&self) -> u64 {
        self.annotation("schedpatch.io/generation").parse().unwrap_or_default()
    }

    pub fn annotation(&self, name: &str) -> &str {
        self.annotations.get(name).map_or("", String::as_str)
    }

    /// In one line, for messages.
    pub fn described(&self) -> String {
        let Self { container, running, ready, .. } = self;
        let marks: Vec<_> = self.annotations.iter().filter(|(name, _)| !name.ends_with("/undo")).collect();
        format!("container {container:.12}, running {running}, ready {ready}, {marks:?}, {:?}", self.command)
    }
}
