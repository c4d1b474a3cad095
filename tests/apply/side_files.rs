//! Files beside the configuration, such as a key: who may read them on the host, and what `plan` shows of them.

use std::fs;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::scenario::copy_tree;

const KEY: &str = "-----BEGIN PRIVATE KEY-----\nTOP-SECRET\n-----END PRIVATE KEY-----\n";

/// A host of its own, and a source with a key beside the configuration.
struct Host {
    root: PathBuf,
}

impl Host {
    fn new(name: &str) -> Self {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("side-files").join(name);
        let _ = fs::remove_dir_all(&root);
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kubeadm-1.36");
        copy_tree(&golden.join("host"), &root.join("host"));
        copy_tree(&golden.join("source"), &root.join("source"));
        fs::write(root.join("source/tls.key"), KEY).expect("written");
        let host = Self { root };
        fs::set_permissions(host.target(), fs::Permissions::from_mode(0o600)).expect("a mode");
        fs::set_permissions(host.target().parent().expect("above"), fs::Permissions::from_mode(0o755)).expect("a mode");
        host
    }

    fn target(&self) -> PathBuf {
        self.root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    /// Replaces the scheduler's security context.
    fn runs_as(&self, context: &str) {
        let text = fs::read_to_string(self.target()).expect("text");
        let old = "  securityContext:\n    seccompProfile:\n      type: RuntimeDefault\n";
        assert!(text.contains(old), "{text}");
        let new = format!("  securityContext:\n{context}    seccompProfile:\n      type: RuntimeDefault\n");
        fs::write(self.target(), text.replace(old, &new)).expect("written");
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_clear().current_dir(&self.root).args(args).arg("--host-root").arg("host");
        command.output().expect("the program runs")
    }

    fn apply(&self) -> String {
        let output = self.run(&["apply", "--source", "source"]);
        let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{said}");
        said
    }

    /// All files with this name in all revisions.
    fn files(&self, name: &str) -> Vec<PathBuf> {
        let revisions = fs::read_dir(self.root.join("host/var/lib/schedpatch/revisions")).expect("there");
        let mut files: Vec<_> = revisions.map(|dir| dir.expect("readable").path().join(name)).collect();
        files.retain(|file| file.is_file());
        files.sort();
        files
    }

    fn plan(&self) -> serde_json::Value {
        let output = self.run(&["plan", "--source", "source", "-o", "json"]);
        serde_json::from_slice(&output.stdout).expect("JSON")
    }

    /// What the plan says about the key.
    fn planned_key(&self) -> serde_json::Value {
        let plan = self.plan();
        let steps = plan["steps"].as_array().expect("steps");
        let is_key = |step: &&serde_json::Value| step["path"].as_str().is_some_and(|path| path.ends_with("/tls.key"));
        steps.iter().find(is_key).unwrap_or_else(|| panic!("no step for the key: {plan}")).clone()
    }
}

fn mode(path: &Path) -> u32 {
    fs::metadata(path).expect("there").mode() & 0o7777
}

#[test]
fn a_key_is_written_for_root_alone_and_the_configuration_for_every_scheduler() {
    let host = Host::new("root");
    host.apply();
    let (keys, configs) = (host.files("tls.key"), host.files("config.yaml"));
    assert_eq!((mode(&keys[0]), mode(&configs[0])), (0o600, 0o644));
    assert_eq!(fs::read_to_string(&keys[0]).expect("there"), KEY);
    assert!(host.apply().contains("Nothing to change"));
}

#[test]
fn a_plan_shows_name_size_and_digest_of_a_key_and_nothing_of_its_content() {
    let host = Host::new("plan");
    for form in ["text", "json"] {
        let output = host.run(&["plan", "--source", "source", "-o", form]);
        let said = String::from_utf8_lossy(&output.stdout);
        assert!(!said.contains("TOP-SECRET") && !said.contains("PRIVATE KEY"), "{form}: {said}");
        assert!(said.contains("tls.key"), "{form}: {said}");
        assert!(said.contains(&format!("{} bytes, sha256 ", KEY.len())), "{form}: {said}");
    }
    let key = host.planned_key();
    assert_eq!(key["mode"], "0600");
    assert!(key.get("owner").is_none(), "{key}");
}

#[test]
fn where_the_scheduler_is_not_root_its_group_or_user_gets_the_key() {
    let host = Host::new("user");
    for (context, mode, owner) in [
        ("    runAsUser: 0\n", "0600", None),
        ("    runAsUser: 1000\n    runAsGroup: 1001\n", "0640", Some(":1001")),
        ("    runAsUser: 1000\n    fsGroup: 1002\n", "0640", Some(":1002")),
        ("    runAsUser: 1000\n    supplementalGroups:\n    - 1003\n", "0640", Some(":1003")),
        ("    runAsUser: 1000\n    runAsNonRoot: true\n", "0640", Some("1000:")),
    ] {
        let host = Host::new("user");
        host.runs_as(context);
        let key = host.planned_key();
        assert_eq!((key["mode"].as_str(), key["owner"].as_str()), (Some(mode), owner), "{context}");
    }
    // the container's own word counts more than the pod's
    let text = fs::read_to_string(host.target()).expect("text");
    let image = text.lines().find(|line| line.trim_start().starts_with("image:")).expect("an image").to_owned();
    let own = format!("{image}\n    securityContext:\n      runAsUser: 7\n      runAsGroup: 8\n");
    fs::write(host.target(), text.replace(&format!("{image}\n"), &own)).expect("written");
    assert_eq!(host.planned_key()["owner"], ":8");
}

#[test]
fn a_user_whom_only_the_image_knows_is_refused_where_there_is_a_key() {
    let host = Host::new("unknown");
    host.runs_as("    runAsNonRoot: true\n");
    let plan = host.plan();
    assert_eq!(plan["findings"][0]["rule"], "side-file-user", "{plan}");
    fs::remove_file(host.root.join("source/tls.key")).expect("removed");
    let plan = host.plan();
    assert_eq!(plan["steps"].as_array().map(Vec::len), Some(2), "the configuration alone needs nobody's id: {plan}");
}

#[test]
fn what_an_older_version_wrote_for_everybody_is_tightened_once_without_a_restart() {
    let host = Host::new("older");
    host.apply();
    fs::write(host.root.join("source/tls.key"), format!("{KEY}other")).expect("written");
    host.apply();
    let keys = host.files("tls.key");
    assert_eq!(keys.len(), 2, "the revision before this one stays");
    for key in &keys {
        fs::set_permissions(key, fs::Permissions::from_mode(0o644)).expect("a mode");
    }
    let (before, text) = (fs::metadata(host.target()).expect("there"), fs::read(host.target()).expect("there"));
    host.apply();
    assert_eq!([mode(&keys[0]), mode(&keys[1])], [0o600, 0o600]);
    let after = fs::metadata(host.target()).expect("there");
    assert_eq!((before.ino(), text), (after.ino(), fs::read(host.target()).expect("there")), "no restart");
    let written: Vec<_> = keys.iter().map(|key| fs::metadata(key).expect("there").ino()).collect();
    assert!(host.apply().contains("Nothing to change"));
    let again: Vec<_> = keys.iter().map(|key| fs::metadata(key).expect("there").ino()).collect();
    assert_eq!(written, again, "once");
}
