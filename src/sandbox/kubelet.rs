//! The simulated kubelet: it starts the scheduler of the manifest, restarts it when the manifest changes or the scheduler
//! ends, and shows it as a mirror pod. The scheduler itself is only a decision: it runs, or it ends with last words.

use std::convert::Infallible;
use std::fs;
use std::future::pending;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::time::sleep;

use super::api::{Api, NODE};

/// The scheduler ends when its configuration names this host.
pub(super) const CRASH: &str = "crash.example";

/// How often the kubelet reads the manifest.
const SCAN: Duration = Duration::from_millis(200);
/// How long the kubelet takes to replace a pod.
const REPLACE: Duration = Duration::from_secs(1);
/// How long a scheduler takes to become ready, or to end.
const START: Duration = Duration::from_secs(1);
/// Pause before the kubelet starts a scheduler again that ended.
const BACK_OFF: Duration = Duration::from_secs(1);

/// The kubelet.
#[derive(Debug)]
pub(super) struct Kubelet {
    pub root: PathBuf,
    pub manifest: PathBuf,
    pub api: Api,
}

impl Kubelet {
    /// Runs until it is dropped.
    pub async fn run(self, first: &'static str) -> Infallible {
        let mut running = first.to_owned();
        let mut containers = 0;
        loop {
            let next = tokio::select! {
                next = self.next_text(&running) => next,
                never = self.keep_running(&running, &mut containers) => match never {},
            };
            tracing::info!("simulated kubelet: the manifest changed; stopping the scheduler and starting a new one");
            sleep(REPLACE).await;
            running = next;
        }
    }

    /// Waits for another manifest. A kubelet removes a pod whose manifest is gone; this one keeps it, so that nobody has to
    /// start anew after a slip.
    async fn next_text(&self, running: &str) -> String {
        loop {
            sleep(SCAN).await;
            match fs::read_to_string(&self.manifest) {
                Ok(text) if text != running && mirror_pod(&text).is_some() => return text,
                _ => {}
            }
        }
    }

    /// Starts the scheduler, and starts it again each time that it ends.
    async fn keep_running(&self, text: &str, containers: &mut u32) -> Infallible {
        let Some(pod) = mirror_pod(text) else { return pending().await };
        let mut last_state = json!({});
        loop {
            *containers += 1;
            let id = format!("simulated://{containers}");
            let started = json!({ "running": {} });
            self.show(&pod, &id, false, &started, &last_state);
            // the scheduler of the untouched host runs already
            if *containers > 1 {
                sleep(START).await;
            }
            let Some(words) = self.last_words(&pod) else {
                tracing::info!("simulated kubelet: the scheduler is ready (container {containers})");
                self.show(&pod, &id, true, &started, &last_state);
                return pending().await;
            };
            tracing::info!("simulated kubelet: the scheduler ended with exit code 1 (container {containers})");
            last_state =
                json!({ "terminated": { "containerID": id, "exitCode": 1, "reason": "Error", "message": words } });
            let waiting = json!({ "waiting": { "reason": "CrashLoopBackOff", "message": "back-off restarting failed container" } });
            self.show(&pod, &id, false, &waiting, &last_state);
            sleep(BACK_OFF).await;
        }
    }

    fn show(&self, pod: &Value, id: &str, is_ready: bool, state: &Value, last_state: &Value) {
        let mut pod = pod.clone();
        pod["status"] = json!({ "containerStatuses": [{ "name": pod["spec"]["containers"][0]["name"],
            "containerID": id, "ready": is_ready, "state": state, "lastState": last_state }] });
        self.api.put_pod(pod);
    }

    /// What the scheduler logs before it ends; none if it runs. It reads its configuration once, at its start.
    fn last_words(&self, pod: &Value) -> Option<String> {
        let command = pod["spec"]["containers"][0]["command"].as_array()?;
        let path = command.iter().find_map(|word| word.as_str()?.strip_prefix("--config="))?;
        let why = match fs::read_to_string(self.root.join(path.trim_start_matches('/'))) {
            Ok(config) if config.contains(CRASH) => {
                format!("couldn't build extenders: the simulated scheduler does not run with {CRASH}")
            }
            Ok(_) => return None,
            Err(_) => format!("open {path}: no such file or directory"),
        };
        Some(format!("E1117 12:00:00.000000       1 run.go:72] \"command failed\" err=\"{why}\"\n"))
    }
}

/// The manifest as the kubelet shows it in the API; none if it is no pod.
fn mirror_pod(manifest: &str) -> Option<Value> {
    let mut pod: Value = serde_yaml::from_str(manifest).ok()?;
    let name = format!("{}-{NODE}", pod["metadata"]["name"].as_str()?);
    pod["spec"]["containers"][0]["name"].as_str()?;
    pod["metadata"]["name"] = json!(name);
    Some(pod)
}
