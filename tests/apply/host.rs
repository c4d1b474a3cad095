//! A host of its own, on which the tests run the real program.

use crate::support::scenario::copy_tree;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const STATE: &str = "var/lib/schedpatch";

/// A host of its own, and two sources.
pub struct Host {
    pub root: PathBuf,
    pub original: Vec<u8>,
}

impl Host {
    pub fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("apply").join(name);
        let _ = fs::remove_dir_all(&root);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kubeadm-1.36");
        copy_tree(&golden.join("host"), &root.join("host"));
        copy_tree(&golden.join("source"), &root.join("a"));
        copy_tree(&golden.join("source"), &root.join("b"));
        let config = root.join("b/config.yaml");
        let text = fs::read_to_string(&config).expect("text") + "podInitialBackoffSeconds: 8\n";
        fs::write(config, text).expect("written");
        let host = Self { original: Vec::new(), root };
        fs::set_permissions(host.target(), fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::set_permissions(host.target().parent().expect("a directory"), fs::Permissions::from_mode(0o755))
            .expect("a mode");
        Self { original: fs::read(host.target()).expect("there"), ..host }
    }

    pub fn target(&self) -> PathBuf {
        self.root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    pub fn state(&self, name: &str) -> PathBuf {
        self.root.join("host").join(STATE).join(name)
    }

    pub fn text(&self) -> String {
        fs::read_to_string(self.target()).expect("the manifest is there")
    }

    pub fn journal(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.state("state.json")).expect("there")).expect("JSON")
    }

    pub fn edit_journal(&self, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut journal = self.journal();
        edit(&mut journal);
        fs::write(self.state("state.json"), serde_json::to_vec(&journal).expect("JSON")).expect("written");
    }

    /// As the agent leaves it once it has seen the scheduler run with what stands.
    pub fn proven(&self) {
        let text = self.journal()["current"]["text"].as_str().expect("a digest").to_owned();
        fs::copy(self.target(), self.state("texts").join(text)).expect("copied");
        self.edit_journal(|journal| journal["lastGood"] = journal["current"].clone());
    }

    pub fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_clear().current_dir(&self.root).args(args).arg("--host-root").arg(self.root.join("host"));
        command.output().expect("the program runs")
    }

    /// Runs what must succeed, and gives what it said.
    pub fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        said(&output)
    }

    /// Runs what must fail with a rule, changing neither the manifest nor its directory.
    pub fn refuses(&self, args: &[&str], rule: &str) -> String {
        let dir = self.target().parent().expect("a directory").to_owned();
        let before = listing(&dir);
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(&format!("error[{rule}]")), "{args:?}: not {rule}: {}", said(&output));
        assert!(said(&output).contains("way out: "), "{}", said(&output));
        assert_eq!(before, listing(&dir), "{args:?} changed the manifest directory");
        said(&output)
    }

    pub fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.run(&["status", "-o", "json"]).stdout).expect("JSON")
    }
}

pub fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Names, inodes and times of what is in a directory.
pub fn listing(dir: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    let mut found: Vec<_> = entries
        .map(|path| {
            let metadata = fs::symlink_metadata(&path).expect("there");
            (path, metadata.ino(), metadata.mtime(), metadata.mtime_nsec())
        })
        .collect();
    found.sort();
    found
}

/// Everything below a directory.
pub fn everything(dir: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = listing(dir);
    let dirs: Vec<PathBuf> = found.iter().map(|entry| entry.0.clone()).filter(|path| path.is_dir()).collect();
    found.extend(dirs.iter().flat_map(|dir| everything(dir)));
    found
}

pub const APPLY: [&str; 3] = ["apply", "--source", "a"];

/// A second scheduler beside the first, with its own configuration.
pub fn second_scheduler(host: &Host) -> &'static str {
    let text =
        String::from_utf8(host.original.clone()).expect("text").replace("name: kube-scheduler\n", "name: second\n");
    let other = host.target().with_file_name("second.yaml");
    fs::write(&other, text).expect("written");
    "/etc/kubernetes/manifests/second.yaml"
}
