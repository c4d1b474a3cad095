//! What the tests work on: a bed with one control-plane node, the states that tests begin from, and what can be done and seen there.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::{Cluster, Node, Ran};
use crate::containers::{Containers, Lives, Mark};
use crate::fleet::Sampler;
use crate::mirror::Mirror;
use crate::readyz::Readyz;
use crate::wait::{seconds, wait_until};

pub const MANIFESTS: &str = "/etc/kubernetes/manifests";
pub const MANIFEST: &str = "/etc/kubernetes/manifests/kube-scheduler.yaml";
pub const STATE: &str = "/var/lib/schedpatch";
/// What the tests apply: one extender, see `extender.rs`.
pub const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/source");
const PROGRAM: &str = env!("CARGO_BIN_EXE_schedpatch");
/// Where the original is kept in the node, for a later run on a bed that was kept.
const KEPT: &str = "/etc/kubernetes/e2e";

/// The kubelet reads its manifests anew every 20 seconds.
pub const SCAN: Duration = seconds(20);
/// A scan and the time to act on it: who has not restarted anything by then will not.
pub const QUIET: Duration = seconds(23);
/// The kubelet takes 10 to 15 seconds from one static pod to the next, after a scan if need be; a busy machine takes longer.
pub const RESTART: Duration = seconds(120);

pub struct ControlPlane {
    pub cluster: Cluster,
    containers: Containers,
    /// The manifest that kubeadm wrote, and the kubelet's hash of it
    pub original: Vec<u8>,
    original_hash: String,
    readyz: OnceLock<Readyz>,
    sampler: OnceLock<Sampler>,
}

/// What a commit of ours is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Applied {
    pub revision: String,
    pub generation: u64,
}

impl ControlPlane {
    pub fn set(cluster: Cluster) -> Self {
        let node = cluster.node("cp1");
        let containers = Containers::follow(node);
        let kept = node.path(KEPT);
        if !kept.exists() {
            let mirror = Mirror::of(node).expect("testbed up waits for the scheduler");
            fs::create_dir(&kept).expect("the node's files can be written");
            fs::copy(node.path(MANIFEST), kept.join("manifest")).expect("kubeadm wrote a manifest");
            fs::write(kept.join("hash"), mirror.hash()).expect("the node's files can be written");
        }
        let original = fs::read(kept.join("manifest")).expect("kept");
        let original_hash = fs::read_to_string(kept.join("hash")).expect("kept");
        Self { cluster, containers, original, original_hash, readyz: OnceLock::new(), sampler: OnceLock::new() }
    }

    pub fn node(&self) -> Node<'_> {
        self.cluster.node("cp1")
    }

    /// The checker of /readyz, from its first use to the end of the suite.
    pub fn readyz(&self) -> &Readyz {
        self.readyz.get_or_init(|| Readyz::begin(self.node()))
    }

    /// The counter of schedulers in change, likewise.
    pub fn sampler(&self) -> &Sampler {
        self.sampler.get_or_init(|| Sampler::begin(&self.cluster))
    }

    /// The state that kubeadm left: its manifest, a scheduler that runs it, and nothing of ours.
    #[track_caller]
    pub fn start_from_original(&self) -> Mirror {
        self.cluster.note("to begin: the original manifest, nothing of schedpatch");
        self.remove_strays();
        if self.manifest() != self.original {
            self.replace_manifest(&self.original);
        }
        let mirror = self.wait_for_scheduler("the original", |mirror| mirror.hash() == self.original_hash);
        let _ = fs::remove_dir_all(self.node().path(STATE));
        mirror
    }

    /// The state after `schedpatch apply` of the extender: committed, and a scheduler that runs it.
    #[track_caller]
    pub fn start_from_applied(&self) -> (Applied, Mirror) {
        self.cluster.note("to begin: the extender is applied, the scheduler runs with it");
        self.remove_strays();
        if self.schedpatch(&["plan", "--check", "--source", SOURCE]).status != 0 {
            self.start_from_original();
        }
        let applied = self.apply();
        let mirror = self.wait_for_applied(&applied);
        (applied, mirror)
    }

    fn remove_strays(&self) {
        let known = ["etcd.yaml", "kube-apiserver.yaml", "kube-controller-manager.yaml", "kube-scheduler.yaml"];
        let there = fs::read_dir(self.node().path(MANIFESTS)).expect("the kubelet has its directory");
        let stray = |path: &PathBuf| !known.iter().any(|name| path.ends_with(name));
        for path in there.filter_map(|entry| Some(entry.ok()?.path())).filter(stray) {
            fs::remove_file(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        }
    }

    /// Runs the real program in the node.
    pub fn schedpatch(&self, arguments: &[&str]) -> Ran {
        self.node().run(&[&[PROGRAM], arguments].concat())
    }

    /// Applies the extender; what is there already stays.
    #[track_caller]
    pub fn apply(&self) -> Applied {
        self.schedpatch(&["apply", "--source", SOURCE]).succeeded();
        self.applied().expect("applied")
    }

    /// What `schedpatch status` says is applied.
    pub fn applied(&self) -> Option<Applied> {
        let applied = &self.status()["applied"];
        let revision = applied["revision"].as_str()?.to_owned();
        Some(Applied { revision, generation: applied["generation"].as_u64()? })
    }

    pub fn status(&self) -> Value {
        let said = self.schedpatch(&["status", "-o", "json"]);
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("status: {error}\n{}", said.stderr))
    }

    pub fn manifest(&self) -> Vec<u8> {
        fs::read(self.node().path(MANIFEST)).unwrap_or_default()
    }

    /// As everybody should: a file that the kubelet does not read, and a rename.
    pub fn replace_manifest(&self, text: &[u8]) {
        let temporary = self.write_beside(".e2e-kube-scheduler.yaml", text);
        fs::rename(&temporary, self.node().path(MANIFEST)).expect("renamed");
        self.cluster.note("the manifest was replaced by a rename");
    }

    /// Another file in the directory of the manifests.
    pub fn write_beside(&self, name: &str, text: &[u8]) -> PathBuf {
        let path = self.node().path(MANIFESTS).join(name);
        fs::write(&path, text).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).expect("our own file");
        path
    }

    /// The mirror pod, once it is as wanted and its container runs according to both the API and containerd.
    #[track_caller]
    pub fn wait_for_scheduler(&self, what: &str, wanted: impl Fn(&Mirror) -> bool) -> Mirror {
        let what = format!("a scheduler that runs {what}");
        let mirror = wait_until(&what, RESTART, || {
            let mirror = Mirror::of(self.node())?;
            let runs = wanted(&mirror) && mirror.running && !self.containers.has_ended(&mirror.container);
            if runs { Ok(mirror) } else { Err(mirror.described()) }
        });
        self.cluster.note(&format!("{what}: {}", mirror.described()));
        mirror
    }

    #[track_caller]
    pub fn wait_for_applied(&self, applied: &Applied) -> Mirror {
        let what = format!("generation {}", applied.generation);
        self.wait_for_scheduler(&what, |mirror| {
            mirror.generation() == applied.generation && mirror.annotation("schedpatch.io/revision") == applied.revision
        })
    }

    pub fn mark(&self) -> Mark {
        self.containers.mark()
    }

    /// Scheduler containers that started and ended since.
    pub fn lives(&self, mark: Mark) -> Lives {
        self.containers.since(mark, "kube-scheduler")
    }

    /// Nothing started or ended since.
    pub fn no_restart(&self, mark: Mark) -> Result<(), String> {
        let lives = self.lives(mark);
        if lives == Lives::default() { Ok(()) } else { Err(format!("schedulers started and ended: {lives:?}")) }
    }

    /// Exactly one restart since: from the one container to the other.
    #[track_caller]
    pub fn assert_one_restart(&self, mark: Mark, from: &Mirror, to: &Mirror) {
        let expected = Lives { started: vec![to.container.clone()], ended: vec![from.container.clone()] };
        assert_eq!(self.lives(mark), expected, "the scheduler restarts exactly once");
    }
}
