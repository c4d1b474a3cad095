//! A sandbox to try the agent in: a throw-away host tree, a simulated kubelet and API in this process, and a story.
//!
//! The agent, its files and its checks are the real ones. Nothing here touches a cluster or the host.

mod api;
mod kubelet;
mod story;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::task::JoinSet;

use crate::agent::{Options, Outside, Proof, Release, SchedulerAt};
use crate::finding::Finding;
use crate::report::Report;
use crate::rollout::OnFailure;
use crate::settings::Settings;
use crate::timestamp::Timestamp;
use crate::verify::{Health, Limits};
use api::Api;
use kubelet::Kubelet;
use story::Story;

const MANIFEST: &str = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
const CONFIG: &str = include_str!("../../examples/source/config.yaml");

/// Shorter than in a cluster: nobody wants to wait, and the simulated scheduler starts in a second.
const LIMITS: Limits = Limits { settle: Duration::from_secs(2), timeout: Duration::from_secs(30) };
/// How often the agent looks without being woken.
const RESYNC: Duration = Duration::from_mins(10);
/// How long the agent waits for a command in another terminal that writes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(30);

/// The sandbox. Dropping it removes its tree.
#[derive(Debug)]
pub struct Sandbox {
    dir: PathBuf,
    api: Api,
}

impl Sandbox {
    /// Name of the simulated node.
    pub const NODE: &str = api::NODE;

    /// Makes the host tree.
    pub fn make() -> Result<Self, Finding> {
        let dir = std::env::temp_dir().join(format!("schedpatch-sandbox-{}", std::process::id()));
        let sandbox = Self { dir, api: Api::new() };
        sandbox.fill().map_err(|error| {
            let message = format!("cannot make the sandbox: {error}");
            let finding = Finding::error("sandbox", message, "set TMPDIR to a directory that you may write");
            finding.in_file(sandbox.dir.display().to_string())
        })?;
        Ok(sandbox)
    }

    #[expect(clippy::disallowed_methods, reason = "the sandbox writes to its own temporary tree, not to a host")]
    fn fill(&self) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        fs::DirBuilder::new().mode(0o755).create(&self.dir)?;
        for dir in ["host/etc/kubernetes/manifests", "host/var/lib", "source"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        let manifest = self.manifest();
        fs::write(&manifest, MANIFEST)?;
        fs::set_permissions(&manifest, fs::Permissions::from_mode(0o600))?;
        fs::write(self.source(), CONFIG)
    }

    fn manifest(&self) -> PathBuf {
        self.dir.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    fn source(&self) -> PathBuf {
        self.dir.join("source/config.yaml")
    }

    /// A client of the simulated API.
    pub fn client(&self) -> Client {
        self.api.client()
    }

    /// The agent's settings for the tree.
    pub fn settings(&self) -> Settings {
        Settings { sources: vec![self.source()], ..Settings::new(self.dir.join("host")) }
    }

    /// The agent's options for the simulated node.
    pub fn options(clock: fn() -> Timestamp) -> Options {
        Options {
            node: Self::NODE.to_owned(),
            proof: Proof::Observation,
            limits: LIMITS,
            resync: RESYNC,
            on_failure: OnFailure::Back,
            release: Release::default(),
            lock_timeout: LOCK_TIMEOUT,
            clock,
        }
    }

    /// The agent's ways to the world outside: real files, simulated everything else.
    pub fn outside(&self) -> Outside {
        let client = self.client();
        let scheduler = client.clone();
        let scheduler = SchedulerAt(Arc::new(move |_: &str| Some(Health::by(scheduler.clone(), "/livez"))));
        Outside { scheduler, ..Outside::real(Some(client)) }
    }

    /// Starts the kubelet and the story. Both end when the result is dropped.
    pub fn start(
        &self,
        endpoint: SocketAddr,
        clock: fn() -> Timestamp,
        report: watch::Receiver<Report>,
    ) -> JoinSet<()> {
        let (settings, manifest, source) = (self.settings(), self.manifest(), self.source());
        let kubelet = Kubelet { root: settings.host_root.clone(), manifest: manifest.clone(), api: self.api.clone() };
        let story = Story { settings, manifest, source, endpoint, clock, report };
        let mut tasks = JoinSet::new();
        tasks.spawn(story.tell());
        tasks.spawn(async { match kubelet.run(MANIFEST).await {} });
        tasks
    }
}

impl Drop for Sandbox {
    #[expect(clippy::disallowed_methods, reason = "the sandbox writes to its own temporary tree, not to a host")]
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
