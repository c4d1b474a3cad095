//! Three control planes: the agents from their chart and image change one scheduler at a time. cp1 stays in every test: the others
//! are watched through it.

mod api;
mod change;
mod flags;
mod law;
mod lost;
mod members;
mod preflight;
mod sampler;
mod uninstall;

use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

use serde_json::Value;

use crate::agent::{ADMIN, PROGRAM};
use crate::cluster::Ran;
use crate::control_plane::{ControlPlane, MANIFEST};
use crate::release::Release;
use crate::runner::Test;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub use sampler::Sampler;

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
/// Three schedulers, one after the other.
const ROLLOUT: Duration = seconds(300);
/// Shorter than the chart's, which nothing here is about.
const SETTLE: Duration = seconds(3);
const VALUES: [&str; 2] = ["--set", "settle=3s"];
/// Where the manifests of before are kept, for a later run on a bed that was kept.
const KEPT: &str = "/etc/kubernetes/e2e/of-fleet";

/// The nodes' annotations of ours.
type Annotations = BTreeMap<String, BTreeMap<String, String>>;

/// What a test of this suite begins with, and what it can see.
struct Fleet<'a> {
    control_plane: &'a ControlPlane,
    release: Release<'a>,
}

/// The tests in their order: the law is asked last, about all that was done before.
pub fn tests() -> Vec<Test> {
    [
        change::TESTS,
        preflight::TESTS,
        lost::TESTS,
        api::TESTS,
        flags::TESTS,
        members::TESTS,
        uninstall::TESTS,
        law::TESTS,
    ]
    .concat()
}

impl<'a> Fleet<'a> {
    /// A release that has proven its configuration on every node.
    #[track_caller]
    fn ready(control_plane: &'a ControlPlane) -> Self {
        control_plane.sampler();
        originals(control_plane);
        let fleet = Self { control_plane, release: Release::here(control_plane) };
        if !fleet.release.is_installed() {
            fleet.install();
        }
        let record = fleet.rollout(&["status"]).stdout;
        if record.contains("\nuninstall ") {
            control_plane.node().run(&[PROGRAM, "uninstall", "--cancel", "--kubeconfig", ADMIN]).succeeded();
        }
        if record.contains("\npaused ") {
            fleet.rollout(&["resume"]).succeeded();
        }
        fleet.wait_for_all("Ready", &[]);
        fleet.wait_until_sealed();
        fleet.wait_until_quiet();
        fleet
    }

    /// Waits until no scheduler is in change: a node that was cut off repairs drift without a turn, and says so late.
    #[track_caller]
    fn wait_until_quiet(&self) {
        wait_until("every scheduler to run what its manifest says", ROLLOUT, || {
            let counted = self.control_plane.sampler().counted();
            if counted.now == 0 { Ok(()) } else { Err(format!("{} are in change", counted.now)) }
        });
    }

    #[track_caller]
    fn install(&self) {
        Release::install_with(self.control_plane, Wanted::another(), &VALUES);
    }

    /// `schedpatch rollout`, as a person with an administrator's kubeconfig.
    fn rollout(&self, words: &[&str]) -> Ran {
        self.control_plane.node().run(&[&[PROGRAM, "rollout"], words, &["--kubeconfig", ADMIN]].concat())
    }

    /// `schedpatch uninstall`, likewise.
    fn uninstall(&self, words: &[&str]) -> Ran {
        self.control_plane.node().run(&[&[PROGRAM, "uninstall"], words, &["--kubeconfig", ADMIN]].concat())
    }

    fn annotations(&self) -> Annotations {
        annotations(self.control_plane)
    }

    /// What the nodes want now.
    fn digests(&self) -> Vec<String> {
        self.annotations().into_values().filter_map(|own| own.get("digest").cloned()).collect()
    }

    /// Waits until all nodes say this phase, about another configuration than these.
    #[track_caller]
    fn wait_for_all(&self, phase: &str, before: &[String]) -> Annotations {
        self.wait_for(&self.names(), phase, before)
    }

    /// The same for some nodes.
    #[track_caller]
    fn wait_for(&self, nodes: &[String], phase: &str, before: &[String]) -> Annotations {
        wait_until(&format!("{} to say {phase}", nodes.join(", ")), ROLLOUT, || {
            let all = self.annotations();
            let is = |own: &BTreeMap<String, String>| {
                own.get("phase").is_some_and(|own| own == phase)
                    && own.get("digest").is_some_and(|digest| !before.contains(digest))
            };
            if nodes.iter().all(|node| all.get(node).is_some_and(is)) { Ok(all) } else { Err(format!("{all:#?}")) }
        })
    }

    /// Waits until every node's proof is in the Lease.
    #[track_caller]
    fn wait_until_sealed(&self) {
        wait_until("the rollout to be sealed", ROLLOUT, || {
            let digests = self.digests();
            let record = self.record();
            let is_sealed = digests.iter().all(|own| record["sealed"] == own.as_str()) && record["entry"].is_null();
            if is_sealed { Ok(()) } else { Err(format!("{digests:?} {record:#}")) }
        });
    }

    /// What the ConfigMap asks for.
    #[track_caller]
    fn wanted(&self) -> Wanted {
        let path = r"jsonpath={.data.config\.yaml}";
        let text = self.release.kubectl(&["get", "configmap", "schedpatch", "-o", path]).succeeded().stdout;
        let mark = text.lines().find_map(|line| line.strip_prefix("parallelism: ")?.parse().ok());
        Wanted::made_before(mark.unwrap_or_else(|| panic!("no configuration of ours: {text}")))
    }

    fn names(&self) -> Vec<String> {
        self.annotations().into_keys().collect()
    }

    /// What the Lease says.
    fn record(&self) -> Value {
        let path = r"jsonpath={.metadata.annotations.schedpatch\.io/rollout}";
        let lease = ["-n", "kube-system", "get", "lease", "schedpatch-rollout", "-o", path];
        serde_json::from_str(&self.control_plane.node().kubectl(&lease).stdout).unwrap_or_default()
    }

    /// Waits until it is the turn of a node that the test may lose or cut off, and that node is in the middle.
    #[track_caller]
    fn wait_for_turn(&self) -> &'static str {
        wait_until("another node than cp1 to be in the middle", ROLLOUT, || {
            let (record, all) = (self.record(), self.annotations());
            let holder = record["entry"]["node"].as_str().unwrap_or_default();
            let is_verifying = |own: &BTreeMap<String, String>| own.get("phase").is_some_and(|own| own == "Verifying");
            let found = NODES.into_iter().skip(1).find(|name| *name == holder);
            found.filter(|name| all.get(*name).is_some_and(is_verifying)).ok_or_else(|| format!("{record} {all:?}"))
        })
    }

    /// The container of every scheduler.
    fn starts(&self) -> BTreeMap<String, String> {
        let of_pod = |pod: Value| {
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            (text(&pod["spec"]["nodeName"]), text(&pod["status"]["containerStatuses"][0]["containerID"]))
        };
        schedulers(self.control_plane).into_iter().map(of_pod).collect()
    }
}

/// The manifests that kubeadm wrote.
fn originals(control_plane: &ControlPlane) -> Vec<Vec<u8>> {
    let original = |name| {
        let node = control_plane.cluster.node(name);
        let kept = node.path(KEPT);
        if !kept.exists() {
            fs::create_dir_all(kept.parent().expect("it has one")).expect("the node's files can be written");
            fs::copy(node.path(MANIFEST), &kept).expect("kubeadm wrote a manifest");
        }
        fs::read(kept).expect("kept")
    };
    NODES.map(original).to_vec()
}

fn manifests(control_plane: &ControlPlane) -> Vec<Vec<u8>> {
    NODES.map(|name| fs::read(control_plane.cluster.node(name).path(MANIFEST)).unwrap_or_default()).to_vec()
}

fn annotations(control_plane: &ControlPlane) -> Annotations {
    let shown = control_plane.node().kubectl(&["get", "nodes", "-o", "json"]);
    let list: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    let of_node = |node: &Value| {
        let all = node["metadata"]["annotations"].as_object().into_iter().flatten();
        let ours = all.filter_map(|(key, text)| {
            Some((key.strip_prefix("schedpatch.io/")?.to_owned(), text.as_str().unwrap_or_default().to_owned()))
        });
        (node["metadata"]["name"].as_str().unwrap_or_default().to_owned(), ours.collect())
    };
    list["items"].as_array().into_iter().flatten().map(of_node).collect()
}

fn schedulers(control_plane: &ControlPlane) -> Vec<Value> {
    let pods = ["-n", "kube-system", "get", "pods", "-l", "component=kube-scheduler", "-o", "json"];
    let list: Value = serde_json::from_str(&control_plane.node().kubectl(&pods).stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}
