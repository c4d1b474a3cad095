//! The agent as people install it: image, chart, ConfigMap.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::Value;

use crate::agent::{LONG, Told};
use crate::cluster::Ran;
use crate::control_plane::ControlPlane;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

const CHART: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/charts/schedpatch");
const NAMESPACE: &str = "schedpatch";
/// The source, where Helm reads it in the node.
const VALUES_FILE: &str = "/etc/kubernetes/e2e/wanted.yaml";

/// A release that is installed.
pub struct Release<'a> {
    control_plane: &'a ControlPlane,
}

impl<'a> Release<'a> {
    /// Installs it as docs/use/install.md says.
    #[track_caller]
    pub fn install(control_plane: &'a ControlPlane, wanted: Wanted) -> Self {
        Self::install_with(control_plane, wanted, &[])
    }

    /// The same with further values.
    #[track_caller]
    pub fn install_with(control_plane: &'a ControlPlane, wanted: Wanted, more: &[&str]) -> Self {
        control_plane.readyz();
        control_plane.cluster.load(&image());
        let node = control_plane.node();
        // one that an agent on the host used is not the chart's
        node.kubectl(&["-n", "kube-system", "delete", "lease", "schedpatch-rollout", "--ignore-not-found"]).succeeded();
        // it may be there
        node.kubectl(&["create", "namespace", NAMESPACE]);
        let label = "pod-security.kubernetes.io/enforce=privileged";
        node.kubectl(&["label", "namespace", NAMESPACE, label]).succeeded();
        let release = Self { control_plane };
        release.helm("install", wanted, more).succeeded();
        release
    }

    /// One that is there and has proven its configuration.
    #[track_caller]
    pub fn ready(control_plane: &'a ControlPlane) -> (Self, Wanted) {
        control_plane.cluster.note("to begin: a release that has proven its configuration");
        let release = Self { control_plane };
        let is_installed = release.is_installed();
        if !is_installed {
            control_plane.end_hold();
        }
        let wanted = control_plane.readyz().present_config();
        if is_installed {
            release.change(wanted);
        } else {
            Self::install(control_plane, wanted);
        }
        control_plane.readyz().wait_until_ready_at(wanted, LONG);
        (release, wanted)
    }

    /// The one that is there.
    pub fn here(control_plane: &'a ControlPlane) -> Self {
        Self { control_plane }
    }

    /// Changes the ConfigMap; the agents see it through the API.
    #[track_caller]
    pub fn patch_source(&self, text: &str) {
        let patch = serde_json::json!({ "data": { "config.yaml": text } }).to_string();
        self.kubectl(&["patch", "configmap", "schedpatch", "--type=merge", "--patch", &patch]).succeeded();
    }

    /// Takes it away as a person does: the hook first removes our edit from every node.
    #[track_caller]
    pub fn helm_uninstall(&self) {
        let words = ["helm", "uninstall", "schedpatch", "--namespace", NAMESPACE, "--wait", "--timeout=15m"];
        self.control_plane.node().run(&words).succeeded();
    }

    pub fn is_installed(&self) -> bool {
        self.control_plane.node().run(&["helm", "-n", NAMESPACE, "status", "schedpatch"]).status == 0
    }

    /// Through the ConfigMap; the kubelet is asked to look at once, which it would do within a minute or so.
    #[track_caller]
    pub fn change(&self, wanted: Wanted) {
        self.helm("upgrade", wanted, &[]).succeeded();
        self.refresh();
    }

    /// The same behind Helm's back, which would put everything else in order too.
    #[track_caller]
    pub fn edit(&self, wanted: Wanted) {
        let patch = serde_json::json!({ "data": { "config.yaml": wanted.text() } }).to_string();
        self.kubectl(&["patch", "configmap", "schedpatch", "--type=merge", "--patch", &patch]).succeeded();
        self.refresh();
    }

    /// `helm install` or `helm upgrade`.
    pub fn helm(&self, verb: &str, wanted: Wanted, more: &[&str]) -> Ran {
        let node = self.control_plane.node();
        fs::write(node.path(VALUES_FILE), wanted.text()).expect("the node's files can be written");
        let file = format!("config.config\\.yaml={VALUES_FILE}");
        let begin = ["helm", verb, "schedpatch", CHART, "--namespace", NAMESPACE, "--set-file", &file];
        // what the scheduler refuses shall reach it here, to be rolled back; hack/image-e2e has the preflight
        node.run(&[&begin, &["--set", "log.format=json,preflight=none"][..], more].concat())
    }

    /// A change of the pod makes the kubelet look at what is mounted there.
    #[track_caller]
    pub fn refresh(&self) {
        let stamp = format!("e2e/refresh={}", self.control_plane.readyz().samples().len());
        self.kubectl(&["annotate", "--overwrite", "pod", &self.pod(), &stamp]).succeeded();
    }

    /// Takes it away, and nothing else: what it applied stays.
    #[track_caller]
    pub fn uninstall(&self) {
        self.control_plane
            .node()
            .run(&["helm", "uninstall", "schedpatch", "--namespace", NAMESPACE, "--wait", "--no-hooks"])
            .succeeded();
        self.control_plane.node().kubectl(&["delete", "namespace", NAMESPACE, "--wait=false"]).succeeded();
        wait_until("the namespace to be gone", seconds(120), || {
            let shown = self.control_plane.node().kubectl(&["get", "namespace", NAMESPACE]);
            if shown.stderr.contains("NotFound") { Ok(()) } else { Err(shown.stdout) }
        });
    }

    /// In the release's namespace.
    pub fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.control_plane.node().kubectl(&[&["-n", NAMESPACE], arguments].concat())
    }

    /// The agent's pod.
    #[track_caller]
    pub fn pod(&self) -> String {
        wait_until("an agent's pod", LONG, || {
            let all = self.kubectl(&["get", "pods", "-o", "json"]);
            let list: Value = serde_json::from_str(&all.stdout).map_err(|error| format!("{error}: {}", all.stderr))?;
            let pods = list["items"].as_array().into_iter().flatten();
            let mut live = pods.filter(|pod| pod["metadata"]["deletionTimestamp"].is_null());
            let name = live.next().and_then(|pod| pod["metadata"]["name"].as_str());
            name.map(str::to_owned).ok_or_else(|| "none".to_owned())
        })
    }

    /// The image that the agents run.
    #[track_caller]
    pub fn image(&self) -> String {
        let path = "jsonpath={.spec.template.spec.containers[0].image}";
        self.kubectl(&["get", "daemonset", "schedpatch", "-o", path]).succeeded().stdout
    }

    pub fn log(&self, pod: &str) -> Vec<String> {
        self.kubectl(&["logs", pod]).stdout.lines().map(str::to_owned).collect()
    }

    pub fn told(&self, pod: &str) -> Vec<Told> {
        self.log(pod).iter().filter_map(|line| Told::read(line)).collect()
    }

    /// How long the pod took from its container's first line to Ready.
    #[track_caller]
    pub fn seconds_to_ready(&self, pod: &str) -> f64 {
        wait_until("the new agent to say Ready", LONG, || {
            let lines = self.log(pod);
            let began = lines.iter().find(|line| line.contains("schedpatch begins"));
            let began = began.and_then(|line| crate::agent::time_of(&serde_json::from_str(line).ok()?));
            let ready = self.told(pod).into_iter().find(|told| told.phase == "Ready");
            ready.zip(began).map(|(ready, began)| ready.at - began).ok_or_else(|| lines.join("\n"))
        })
    }
}

impl ControlPlane {
    /// What the node's annotations of ours say.
    pub fn annotations(&self) -> BTreeMap<String, String> {
        let shown = self.node().kubectl(&["get", "node", "cp1", "-o", "json"]);
        let node: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let all = node["metadata"]["annotations"].as_object().into_iter().flatten();
        let ours = all.filter_map(|(name, text)| {
            Some((name.strip_prefix("schedpatch.io/")?.to_owned(), text.as_str().unwrap_or_default().to_owned()))
        });
        ours.collect()
    }

    /// Waits until they tell this phase; they come after the fact.
    #[track_caller]
    pub fn wait_for_annotated(&self, phase: &str) -> BTreeMap<String, String> {
        wait_until(&format!("the node to be annotated {phase}"), seconds(90), || {
            let all = self.annotations();
            if all.get("phase").is_some_and(|now| now == phase) { Ok(all) } else { Err(format!("{all:?}")) }
        })
    }

    /// No release, and no hold of an earlier one.
    #[track_caller]
    pub fn begin_without_release(&self) {
        let release = Release { control_plane: self };
        if release.is_installed() {
            release.uninstall();
        }
        self.node().run(&[crate::agent::PROGRAM, "rollout", "init", "--kubeconfig", crate::agent::ADMIN]).succeeded();
        self.end_hold();
    }

    #[track_caller]
    fn end_hold(&self) {
        if self.status()["hold"].is_object() {
            self.start_from_original();
        }
    }
}

/// The image that `hack/image` makes.
pub fn image() -> PathBuf {
    let usual = format!("target/image/schedpatch-{}.tar", env!("CARGO_PKG_VERSION"));
    let archive = std::env::var("SCHEDPATCH_E2E_IMAGE").unwrap_or(usual);
    let archive = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(archive);
    assert!(archive.exists(), "{} is not there: run hack/image", archive.display());
    archive
}
