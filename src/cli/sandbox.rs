//! A throw-away host to try the agent on: a kubeadm manifest, a source, and words about what to try.
#![expect(clippy::disallowed_methods, reason = "this tree is made here, and is nobody's host")]

use std::fs;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use crate::finding::Finding;
use crate::settings::{SchedulerOverrides, Settings};

const MANIFEST: &str = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
const CONFIG: &str = include_str!("../../examples/source/config.yaml");

/// The tree; gone when this is dropped.
#[derive(Debug)]
pub(super) struct Sandbox {
    dir: PathBuf,
}

impl Sandbox {
    /// Makes the tree.
    pub fn make() -> Result<Self, Finding> {
        let dir = std::env::temp_dir().join(format!("schedpatch-sandbox-{}", std::process::id()));
        let sandbox = Self { dir };
        sandbox.fill().map_err(|error| {
            let message = format!("cannot make the sandbox: {error}");
            let finding = Finding::error("sandbox", message, "set TMPDIR to a directory that you may write");
            finding.in_file(sandbox.dir.display().to_string())
        })?;
        Ok(sandbox)
    }

    fn fill(&self) -> io::Result<()> {
        use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
        fs::DirBuilder::new().mode(0o755).create(&self.dir)?;
        for dir in ["host/etc/kubernetes/manifests", "host/var/lib", "source"] {
            fs::create_dir_all(self.dir.join(dir))?;
        }
        let manifest = self.manifest();
        fs::write(&manifest, MANIFEST)?;
        fs::set_permissions(&manifest, fs::Permissions::from_mode(0o600))?;
        fs::write(self.dir.join("source/config.yaml"), CONFIG)
    }

    fn manifest(&self) -> PathBuf {
        self.dir.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    /// The agent's settings for it; says what to try.
    pub fn settings(&self, endpoint: &SocketAddr) -> Settings {
        let (host, source) = (self.dir.join("host"), self.dir.join("source"));
        eprintln!(
            "A host of its own is in {dir}, gone when this ends (Ctrl-C). No cluster, no kubelet: nothing is proven.\n\
             Try in another terminal:\n\
             \x20 cat {manifest}\n\
             \x20 sed -i s/8889/9999/ {source}/config.yaml      # another configuration: see the manifest change\n\
             \x20 schedpatch status --host-root {host}\n\
             \x20 schedpatch restore --host-root {host}         # the very bytes of before; the agent then keeps off\n\
             \x20 curl http://{endpoint}/readyz?verbose\n",
            dir = self.dir.display(),
            manifest = self.manifest().display(),
            source = source.display(),
            host = host.display(),
        );
        Settings {
            host_root: host,
            sources: vec![source],
            platform: None,
            target: None,
            manifest_dir: None,
            state_dir: "/var/lib/schedpatch".into(),
            overrides: SchedulerOverrides::default(),
            accept: Vec::new(),
            retry: false,
        }
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.dir);
    }
}
