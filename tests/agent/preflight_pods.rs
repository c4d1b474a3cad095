//! The kubelet's part in preflights: it runs every pod of that name, and shows it.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::Api;
use crate::kubelet::{Fate, fate_of};

/// A scheduler that checks its configuration takes so long.
const CHECK: Duration = Duration::from_secs(1);

/// How the kubelet deals with preflights.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preflighting {
    /// It runs them, and the scheduler judges
    #[default]
    Works,
    /// It does not notice them
    Silent,
    /// It has no room for them
    Full,
    /// They never end
    Blocks,
    /// Each fails, whatever it tries
    Fails,
    /// The system kills each
    Killed,
}

#[derive(Debug, Default)]
pub struct PreflightPods {
    /// Pods that are there, by their names, and since when
    shown: BTreeMap<String, Instant>,
    /// Every preflight that there was
    pub names: Vec<String>,
}

impl PreflightPods {
    /// One look at the directory.
    pub fn tick(&mut self, (root, dir, node): (&Path, &Path, &str), api: &Api, how: Preflighting, has_registry: bool) {
        let names = std::fs::read_dir(dir).expect("it is there").map(|entry| entry.expect("readable").file_name());
        let mut files = BTreeMap::new();
        for name in names.map(|name| name.into_string().expect("text")) {
            if let Some(pod) = name.strip_prefix("schedpatch-preflight-").and_then(|rest| rest.strip_suffix(".yaml")) {
                let text = std::fs::read_to_string(dir.join(&name)).expect("readable");
                let value: Value = serde_json::from_str(&text).expect("it is JSON, and whole");
                files.insert(format!("schedpatch-preflight-{pod}-{node}"), value);
            }
        }
        for name in self.shown.keys().filter(|name| !files.contains_key(*name)) {
            api.remove_pod(name);
        }
        self.shown.retain(|name, _| files.contains_key(name));
        if how == Preflighting::Silent {
            return;
        }
        for (name, manifest) in files {
            let since = *self.shown.entry(name.clone()).or_insert_with(|| {
                self.names.push(name.clone());
                Instant::now()
            });
            api.put_pod(&name, pod(&name, &manifest, status(root, &manifest, how, has_registry, since.elapsed())));
        }
    }
}

fn pod(name: &str, manifest: &Value, status: Value) -> Value {
    let mut pod = manifest.clone();
    pod["metadata"] = json!({ "name": name, "namespace": "kube-system",
        "annotations": { "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "hash" } });
    pod["status"] = status;
    pod
}

fn status(root: &Path, manifest: &Value, how: Preflighting, has_registry: bool, age: Duration) -> Value {
    let container = &manifest["spec"]["containers"][0];
    let words: Vec<&str> = container["command"].as_array().expect("words").iter().filter_map(Value::as_str).collect();
    assert!(words.contains(&"--write-config-to=/dev/null"), "{words:?}");
    let last = |name: &str| words.iter().rev().find_map(|word| word.strip_prefix(name));
    assert_eq!(last("--secure-port="), Some("0"));
    if how == Preflighting::Full {
        return json!({ "phase": "Failed", "reason": "OutOfpods", "message": "Node didn't have enough resource: pods" });
    }
    let image = container["image"].as_str().expect("an image");
    let has_typo = words.iter().any(|word| word.starts_with("--typo"));
    let config = last("--config=").map(|path| root.join(path.trim_start_matches('/')));
    let hangs =
        config.and_then(|path| std::fs::read_to_string(path).ok()).is_some_and(|config| config.contains("hang."));
    let ended = |code: i32, words: &str| json!({ "terminated": { "exitCode": code, "reason": "Error", "message": words, "containerID": "containerd://p" } });
    let state = match fate_of(root, image, has_typo, last("--config="), has_registry) {
        Fate::NoImage => json!({ "waiting": { "reason": "ErrImagePull", "message": "no such host" } }),
        Fate::NoMount => json!({ "waiting": { "reason": "ContainerCreating" } }),
        _ if age < CHECK || how == Preflighting::Blocks || hangs => json!({ "running": {} }),
        _ if how == Preflighting::Fails => ended(1, "Error: this host is strange"),
        _ if how == Preflighting::Killed => ended(137, ""),
        Fate::Ends(words) => ended(1, words),
        Fate::Runs | Fate::NeverReady => ended(0, ""),
    };
    json!({ "phase": "Running", "containerStatuses": [{ "name": container["name"], "ready": false, "image": image,
        "imageID": format!("{image}@sha256:1"), "restartCount": 0, "state": state, "lastState": {} }] })
}
