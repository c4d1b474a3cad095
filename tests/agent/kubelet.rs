//! A kubelet with one static pod: starts what the manifest says, restarts what ends, and shows it in the API.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use schedpatch::target::{Ours, SchedulerSpec, static_pod};
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::api::{Api, Fault};
use crate::preflight_pods::{PreflightPods, Preflighting};

/// What kube-scheduler v1.36 logs last when it loses its lease.
pub const LOST_LEASE: &str = "E1117 19:22:03.123456       1 server.go:306] \"Leaderelection lost\"";
/// An image with this tag cannot be pulled while the registry is away.
pub const NEW_IMAGE: &str = "v1.36.9";

/// The scheduler of an image with this tag refuses the extender `fussy.`.
pub const FUSSY_IMAGE: &str = "v1.36.2";

/// The kubelet stops the old pod and starts the new one in this time.
const START: Duration = Duration::from_secs(12);
/// A scheduler that comes up is ready after this.
const READY: Duration = Duration::from_secs(3);
/// A scheduler without an API ends after this.
const LEASE: Duration = Duration::from_secs(15);
/// The kubelet reads its directory so often.
const SCAN: Duration = Duration::from_secs(20);

/// What becomes of a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    Runs,
    Ends(&'static str),
    NeverReady,
    NoImage,
    NoMount,
}

#[derive(Debug)]
struct Run {
    text: String,
    pod: SchedulerSpec,
    container: String,
    started: Instant,
    is_ready: bool,
    is_up: bool,
    ended: Option<(String, String)>,
    ends: u32,
    restart_at: Instant,
}

type Showing = (Option<(String, bool, bool, u32)>, Option<Option<Ours>>, bool, bool);

pub struct Kubelet {
    root: PathBuf,
    manifest: PathBuf,
    name: String,
    api: Api,
    /// Whether it works at all
    pub is_running: bool,
    /// Whether images can be pulled
    pub has_registry: bool,
    /// How it deals with preflights
    pub preflighting: Preflighting,
    pub preflights: PreflightPods,
    run: Option<Run>,
    starting: Option<(String, Instant)>,
    /// The pod of before, as it ended
    stopped: Option<Value>,
    shown: Option<Showing>,
    /// The manifest that was read last
    mark: Option<(u64, i64, i64)>,
    missing_since: Option<Instant>,
    away_since: Option<Instant>,
    number: u32,
    /// Whether the scheduler serves, for its own endpoint
    pub serves: Arc<AtomicBool>,
}

impl Kubelet {
    pub fn new(root: &Path, manifest: &Path, node: &str, api: Api) -> Self {
        Self {
            root: root.to_owned(),
            manifest: manifest.to_owned(),
            name: format!("kube-scheduler-{node}"),
            api,
            is_running: true,
            has_registry: true,
            preflighting: Preflighting::default(),
            preflights: PreflightPods::default(),
            run: None,
            starting: None,
            stopped: None,
            shown: None,
            mark: None,
            missing_since: None,
            away_since: None,
            number: 0,
            serves: Arc::default(),
        }
    }

    /// How many containers were started.
    pub fn started(&self) -> u32 {
        self.number
    }

    /// The scheduler's container ends now, with these words.
    pub fn end(&mut self, words: &str) {
        let now = Instant::now();
        if let Some(run) = self.run.as_mut().filter(|run| run.is_up) {
            run.end(words, now);
        }
    }

    /// One look at the manifest and at the container.
    pub fn tick(&mut self) {
        let now = Instant::now();
        if self.is_running {
            self.read(now);
            self.start(now);
        }
        self.live(now);
        self.serves.store(self.run.as_ref().is_some_and(|run| run.is_up && run.is_ready), Ordering::Relaxed);
        if self.is_running && self.can_reach_api() {
            let (dir, node) =
                (self.manifest.parent().expect("a directory"), self.name.trim_start_matches("kube-scheduler-"));
            self.preflights.tick((&self.root, dir, node), &self.api, self.preflighting, self.has_registry);
            let now = self.showing();
            if self.shown.as_ref() != Some(&now) {
                self.show();
                self.shown = Some(now);
            }
        }
    }

    /// All that the pod in the API depends on.
    fn showing(&self) -> Showing {
        let run = self.run.as_ref();
        let life = run.map(|run| (run.container.clone(), run.is_up, run.is_ready, run.ends));
        (life, run.map(|run| run.pod.ours.clone()), self.starting.is_some(), self.has_registry)
    }

    fn can_reach_api(&self) -> bool {
        !matches!(self.api.fault(), Fault::Refuse | Fault::Hang | Fault::Code(_))
    }

    fn read(&mut self, now: Instant) {
        use std::os::unix::fs::MetadataExt as _;
        let mark = std::fs::metadata(&self.manifest).ok().map(|file| (file.ino(), file.ctime(), file.ctime_nsec()));
        if mark.is_some() && mark == self.mark {
            return;
        }
        let is_file = std::fs::metadata(&self.manifest).is_ok_and(|file| file.is_file());
        let text = is_file.then(|| std::fs::read_to_string(&self.manifest).ok()).flatten();
        let Some(text) = text.filter(|text| static_pod::read(text).is_ok()) else {
            let since = *self.missing_since.get_or_insert(now);
            if now - since >= SCAN {
                (self.run, self.starting, self.mark) = (None, None, None);
            }
            return;
        };
        (self.missing_since, self.mark) = (None, mark);
        let current = self.starting.as_ref().map(|(text, _)| text).or_else(|| self.run.as_ref().map(|run| &run.text));
        if current != Some(&text) {
            // the first pod of a node starts at once
            let start = if self.run.is_some() || self.starting.is_some() { now + START } else { now };
            if let Some(run) = self.run.take() {
                // it was told to end, and did so
                let mut pod = self.pod(&run);
                let ended =
                    json!({ "terminated": { "containerID": run.container, "exitCode": 0, "reason": "Completed" } });
                pod["status"]["containerStatuses"][0]["ready"] = json!(false);
                pod["status"]["containerStatuses"][0]["state"] = ended;
                self.stopped = Some(pod);
            }
            self.starting = Some((text, start));
        }
    }

    fn start(&mut self, now: Instant) {
        let Some((text, _)) = self.starting.take_if(|(_, at)| *at <= now) else { return };
        let pod = static_pod::read(&text).expect("it was read before");
        self.run = Some(Run {
            text,
            pod,
            container: String::new(),
            started: now,
            is_ready: false,
            is_up: false,
            ended: None,
            ends: 0,
            restart_at: now,
        });
    }

    fn live(&mut self, now: Instant) {
        let away = matches!(self.api.fault(), Fault::Refuse | Fault::Hang);
        self.away_since = away.then(|| self.away_since.unwrap_or(now));
        let loses_lease = self.away_since.is_some_and(|since| now - since >= LEASE);
        let Some(run) = &mut self.run else { return };
        if run.is_up && run.is_ready && !loses_lease {
            // whoever read its configuration at its start does not read it again
            return;
        }
        let fate = fate(&self.root, &run.pod, self.has_registry);
        if !run.is_up && now >= run.restart_at && self.is_running && !matches!(fate, Fate::NoImage | Fate::NoMount) {
            self.number += 1;
            run.container = format!("containerd://{}", self.number);
            (run.is_up, run.is_ready, run.started) = (true, false, now);
        }
        if !run.is_up {
            return;
        }
        let age = now - run.started;
        match fate {
            Fate::Ends(words) if age >= Duration::from_secs(1) => run.end(words, now),
            _ if loses_lease && age >= Duration::from_secs(2) => run.end(LOST_LEASE, now),
            Fate::Runs => run.is_ready = age >= READY,
            _ => {}
        }
    }

    /// Shows the pod in the API.
    fn show(&self) {
        match &self.run {
            // the mirror pod of before stays until the new one starts
            None if self.starting.is_some() => {
                if let Some(stopped) = &self.stopped {
                    self.api.put_pod(&self.name, stopped.clone());
                }
            }
            None => self.api.remove_pod(&self.name),
            Some(run) => self.api.put_pod(&self.name, self.pod(run)),
        }
    }

    fn pod(&self, run: &Run) -> Value {
        let mut command = vec!["kube-scheduler".to_owned()];
        command.extend(run.pod.config().map(|(_, path)| format!("--config={path}")));
        let mut annotations = json!({ "kubernetes.io/config.source": "file", "kubernetes.io/config.mirror": "hash" });
        if let Some(ours) = &run.pod.ours {
            annotations["schedpatch.io/revision"] = json!(ours.revision);
            annotations["schedpatch.io/generation"] = json!(ours.generation.to_string());
        }
        let waiting = match fate(&self.root, &run.pod, self.has_registry) {
            _ if run.is_up => None,
            Fate::NoImage => Some(("ImagePullBackOff", "Back-off pulling image")),
            Fate::NoMount => Some(("CreateContainerError", "no such file or directory")),
            _ => Some(("CrashLoopBackOff", "back-off restarting failed container")),
        };
        let state = match waiting {
            Some((reason, message)) => json!({ "waiting": { "reason": reason, "message": message } }),
            None => json!({ "running": { "startedAt": "2026-11-17T00:00:00Z" } }),
        };
        let last = run.ended.as_ref().map(|(id, words)| {
            json!({ "terminated": { "containerID": id, "exitCode": 1, "reason": "Error", "message": words } })
        });
        json!({ "apiVersion": "v1", "kind": "Pod",
            "metadata": { "name": self.name, "namespace": "kube-system", "annotations": annotations,
                "labels": { "component": "kube-scheduler" } },
            "spec": { "nodeName": self.name.strip_prefix("kube-scheduler-"), "containers": [{ "name": "kube-scheduler", "command": command }] },
            "status": { "containerStatuses": [{ "name": "kube-scheduler", "ready": run.is_up && run.is_ready,
                "containerID": run.container, "state": state, "lastState": last.unwrap_or_else(|| json!({})) }] } })
    }
}

impl Run {
    fn end(&mut self, words: &str, now: Instant) {
        self.ended = Some((self.container.clone(), words.to_owned()));
        (self.is_up, self.is_ready) = (false, false);
        let pause = Duration::from_secs(10 << self.ends.min(5));
        self.ends += 1;
        self.restart_at = now + pause.min(Duration::from_mins(5));
    }
}

/// What becomes of the scheduler of a pod, by the words in its flags, its image and its configuration.
pub fn fate(root: &Path, pod: &SchedulerSpec, has_registry: bool) -> Fate {
    let has_typo = pod.flags.iter().any(|flag| flag.name == "typo");
    let config = pod.config().and_then(|(_, path)| pod.host_path(path));
    fate_of(root, &pod.image, has_typo, config.as_deref(), has_registry)
}

/// The same by image and configuration.
pub fn fate_of(root: &Path, image: &str, has_typo: bool, config: Option<&str>, has_registry: bool) -> Fate {
    if has_typo {
        return Fate::Ends("Error: unknown flag: --typo");
    }
    if image.ends_with(NEW_IMAGE) && !has_registry {
        return Fate::NoImage;
    }
    let Some(path) = config else { return Fate::Runs };
    match std::fs::read_to_string(root.join(path.trim_start_matches('/'))) {
        Err(_) => Fate::NoMount,
        Ok(config) if config.contains("crash.") => Fate::Ends("Error: the extender crash. is refused"),
        Ok(config) if config.contains("slow.") => Fate::NeverReady,
        Ok(config) if config.contains("fussy.") && image.ends_with(FUSSY_IMAGE) => Fate::Ends("Error: fussy. is gone"),
        Ok(_) => Fate::Runs,
    }
}
