//! A sandbox to try the agent in: a throw-away host tree, a simulated kubelet and API in this process, and a story.
//!
//! The agent, its files and its checks are the real ones. Nothing here touches a cluster or the host.

mod api;
mod kubelet;
mod story;

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
/// How many names are tried for the tree.
const MAX_NAMES: u32 = 100;

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
        let temp = std::env::temp_dir();
        let failed = |error: io::Error| {
            let message = format!("cannot make the sandbox: {error}");
            let finding = Finding::error("sandbox", message, "set TMPDIR to a directory that you may write");
            finding.in_file(temp.display().to_string())
        };
        let sandbox = Self { dir: make_own_dir(&temp).map_err(failed)?, api: Api::new() };
        sandbox.fill().map_err(failed)?;
        Ok(sandbox)
    }

    #[expect(clippy::disallowed_methods, reason = "the sandbox writes to its own temporary tree, not to a host")]
    fn fill(&self) -> io::Result<()> {
        use std::os::unix::fs::PermissionsExt as _;
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
            allows_quorum_loss: false,
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

/// A directory that was not there before: two sandboxes in containers that share a temporary directory may have the same
/// process id, and each removes its own tree at its end.
fn make_own_dir(temp: &Path) -> io::Result<PathBuf> {
    use std::os::unix::fs::DirBuilderExt as _;
    let mut number = 0;
    loop {
        let name = match number {
            0 => format!("schedpatch-sandbox-{}", std::process::id()),
            _ => format!("schedpatch-sandbox-{}-{number}", std::process::id()),
        };
        match fs::DirBuilder::new().mode(0o755).create(temp.join(&name)) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists && number < MAX_NAMES => number += 1,
            made => return made.map(|()| temp.join(name)),
        }
    }
}

impl Drop for Sandbox {
    #[expect(clippy::disallowed_methods, reason = "the sandbox writes to its own temporary tree, not to a host")]
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_of_somebody_else_is_neither_used_nor_removed() {
        let first = Sandbox::make().expect("made");
        let second = Sandbox::make().expect("made beside the first");
        assert_ne!(first.dir, second.dir);
        let (kept, removed) = (first.manifest(), second.manifest());
        drop(second);
        assert!(kept.exists() && !removed.exists());
        assert!(make_own_dir(Path::new("/proc/self/no-such-directory")).is_err());
    }
}
