//! `apply`, `restore` and `status` from outside: what they do, what they refuse, and what they say.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test makes and breaks its own files"
)]

mod support;

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use schedpatch::apply::{Claim, Lock, RealFs, Root, Walk};
use schedpatch::timestamp::Timestamp;
use support::scenario::copy_tree;

const STATE: &str = "var/lib/schedpatch";

/// A host of its own, and two sources.
struct Host {
    root: PathBuf,
    original: Vec<u8>,
}

impl Host {
    fn new(name: &str) -> Self {
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

    fn target(&self) -> PathBuf {
        self.root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")
    }

    fn state(&self, name: &str) -> PathBuf {
        self.root.join("host").join(STATE).join(name)
    }

    fn text(&self) -> String {
        fs::read_to_string(self.target()).expect("the manifest is there")
    }

    fn journal(&self) -> serde_json::Value {
        serde_json::from_slice(&fs::read(self.state("state.json")).expect("there")).expect("JSON")
    }

    fn edit_journal(&self, edit: impl FnOnce(&mut serde_json::Value)) {
        let mut journal = self.journal();
        edit(&mut journal);
        fs::write(self.state("state.json"), serde_json::to_vec(&journal).expect("JSON")).expect("written");
    }

    /// As the agent leaves it once it has seen the scheduler run with what stands.
    fn proven(&self) {
        let text = self.journal()["current"]["text"].as_str().expect("a digest").to_owned();
        fs::copy(self.target(), self.state("texts").join(text)).expect("copied");
        self.edit_journal(|journal| journal["lastGood"] = journal["current"].clone());
    }

    fn run(&self, args: &[&str]) -> Output {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_clear().current_dir(&self.root).args(args).arg("--host-root").arg(self.root.join("host"));
        command.output().expect("the program runs")
    }

    /// Runs what must succeed, and gives what it said.
    fn ok(&self, args: &[&str]) -> String {
        let output = self.run(args);
        assert!(output.status.success(), "{args:?}: {}", said(&output));
        said(&output)
    }

    /// Runs what must fail with a rule, changing neither the manifest nor its directory.
    fn refuses(&self, args: &[&str], rule: &str) -> String {
        let dir = self.target().parent().expect("a directory").to_owned();
        let before = listing(&dir);
        let output = self.run(args);
        assert_eq!(output.status.code(), Some(1), "{args:?}: {}", said(&output));
        assert!(said(&output).contains(&format!("error[{rule}]")), "{args:?}: not {rule}: {}", said(&output));
        assert!(said(&output).contains("way out: "), "{}", said(&output));
        assert_eq!(before, listing(&dir), "{args:?} changed the manifest directory");
        said(&output)
    }

    fn status(&self) -> serde_json::Value {
        serde_json::from_slice(&self.run(&["status", "-o", "json"]).stdout).expect("JSON")
    }
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// Names, inodes and times of what is in a directory.
fn listing(dir: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
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
fn everything(dir: &Path) -> Vec<(PathBuf, u64, i64, i64)> {
    let mut found = listing(dir);
    let dirs: Vec<PathBuf> = found.iter().map(|entry| entry.0.clone()).filter(|path| path.is_dir()).collect();
    found.extend(dirs.iter().flat_map(|dir| everything(dir)));
    found
}

const APPLY: [&str; 3] = ["apply", "--source", "a"];

#[test]
fn apply_prints_each_step_and_a_second_apply_writes_nothing() {
    let host = Host::new("twice");
    let said = host.ok(&APPLY);
    let order = ["wrote ", "replaced ", "Applied revision "].map(|word| said.find(word).expect(word));
    assert!(order.is_sorted(), "{said}");
    let before = everything(&host.root.join("host"));
    assert!(host.ok(&APPLY).contains("Nothing to change"));
    assert_eq!(before, everything(&host.root.join("host")));
}

#[test]
fn restore_gives_back_every_byte_and_holds_until_the_next_apply() {
    let host = Host::new("restore");
    host.ok(&APPLY);
    assert!(host.ok(&["restore"]).contains("Held"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    assert_eq!(host.status()["hold"]["by"], "schedpatch restore");
    let before = everything(&host.root.join("host"));
    host.ok(&["restore"]);
    assert_eq!(before, everything(&host.root.join("host")), "restoring twice writes nothing");
    assert!(host.ok(&["plan", "--source", "a"]).contains("note[hold]"));
    host.ok(&APPLY);
    assert!(host.status()["hold"].is_null());
    assert_eq!(host.status()["applied"]["generation"], 2);
}

#[test]
fn restore_needs_no_state_and_bears_a_damaged_one() {
    let host = Host::new("stateless");
    host.ok(&APPLY);
    fs::remove_dir_all(host.state("")).expect("removed");
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    host.ok(&APPLY);
    for damage in ["", "{", "{\"version\":2}", "{\"version\":1,\"surprise\":true}", "[]"] {
        fs::write(host.state("state.json"), damage).expect("written");
        host.refuses(&["apply", "--source", "b"], "state");
        assert!(host.ok(&["restore"]).contains("warning[state]"), "{damage}");
        assert_eq!(fs::read(host.target()).expect("there"), host.original, "{damage}");
        host.ok(&APPLY);
    }
}

#[test]
fn an_upgrade_in_between_is_never_undone() {
    let host = Host::new("upgrade");
    host.ok(&APPLY);
    let upgraded = host.text().replace("v1.36.1", "v1.36.2");
    assert_ne!(upgraded, host.text());
    fs::write(host.target(), &upgraded).expect("written");
    assert_eq!(host.status()["drift"], "edited");
    host.ok(&["restore"]);
    let original = String::from_utf8(host.original.clone()).expect("text");
    assert_eq!(host.text(), original.replace("v1.36.1", "v1.36.2"));
}

#[test]
fn back_to_last_good_changes_only_what_tells_commits_apart() {
    let host = Host::new("back");
    host.ok(&APPLY);
    let good = host.text();
    host.proven();
    assert_eq!(host.status()["applied"]["verified"], true);
    host.ok(&["apply", "--source", "b"]);
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&["restore", "--to", "last-good"]);
    assert_eq!(host.text(), good.replace("generation: \"1\"", "generation: \"3\""));
    assert_eq!(host.status()["hold"]["by"], "schedpatch restore --to last-good");
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn the_last_good_text_does_not_undo_an_upgrade() {
    let host = Host::new("back-upgrade");
    host.ok(&APPLY);
    host.proven();
    let upgraded = String::from_utf8(host.original.clone()).expect("text").replace("v1.36.1", "v1.36.2");
    fs::write(host.target(), &upgraded).expect("written");
    host.ok(&["apply", "--source", "b"]);
    assert!(host.ok(&["restore", "--to", "last-good"]).contains("the manifest itself has changed since"));
    assert_eq!(host.text(), upgraded);
}

#[test]
fn purge_leaves_no_trace_but_what_is_not_ours() {
    let host = Host::new("purge");
    let before: Vec<_> = everything(&host.root.join("host")).into_iter().map(|entry| entry.0).collect();
    host.ok(&APPLY);
    assert!(host.ok(&["restore", "--purge"]).contains("No trace"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    let mut after: Vec<_> = everything(&host.root.join("host")).into_iter().map(|entry| entry.0).collect();
    // the directories above ours stay, since others may have begun to use them
    after.retain(|path| !path.ends_with("var") && !path.ends_with("var/lib"));
    assert_eq!(before, after);
    host.ok(&APPLY);
    fs::write(host.state("notes.txt"), "somebody's").expect("written");
    assert!(host.ok(&["restore", "--purge"]).contains("not ours"));
    let left: Vec<_> = listing(&host.state("")).into_iter().map(|entry| entry.0).collect();
    assert_eq!(left, [host.state("notes.txt")]);
}

#[test]
fn a_dry_run_says_all_and_writes_nothing() {
    let host = Host::new("dry");
    let before = everything(&host.root.join("host"));
    let said = host.ok(&["apply", "--source", "a", "--dry-run"]);
    assert!(said.contains("+    - --config=") && said.contains("Nothing was written"), "{said}");
    assert_eq!(before, everything(&host.root.join("host")));
}

#[test]
fn a_revision_that_failed_is_not_tried_again_unless_somebody_says_so() {
    let host = Host::new("bad");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    host.ok(&["restore"]);
    host.edit_journal(|journal| {
        journal["bad"][&revision] =
            serde_json::json!({"reason": "unknown flag: --nonsense", "since": "2026-11-16T18:31:08Z"});
    });
    assert!(host.refuses(&APPLY, "bad-revision").contains("unknown flag: --nonsense"));
    assert_eq!(host.status()["bad"][0]["reason"], "unknown flag: --nonsense");
    host.ok(&["apply", "--source", "b"]);
    host.ok(&["apply", "--source", "a", "--retry"]);
    assert_eq!(host.status()["bad"], serde_json::json!([]));
}

#[test]
fn what_must_not_be_replaced_is_refused() {
    let host = Host::new("refused");
    let dir = host.target().parent().expect("a directory").to_owned();
    let elsewhere = host.root.join("host/etc/elsewhere.yaml");

    fs::hard_link(host.target(), &elsewhere).expect("linked");
    host.refuses(&APPLY, "hard-link");
    host.refuses(&["apply", "--source", "a", "--dry-run"], "hard-link");
    fs::remove_file(&elsewhere).expect("removed");

    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("a mode");
        assert!(host.refuses(&APPLY, "writable-by-others").contains("chmod go-w"));
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a mode");

    fs::rename(host.target(), &elsewhere).expect("moved");
    symlink("../../elsewhere.yaml", host.target()).expect("linked");
    host.refuses(&APPLY, "symlink");
    fs::remove_file(host.target()).expect("removed");
    fs::rename(&elsewhere, host.target()).expect("moved");

    let large = host.text() + &"# x\n".repeat(3 << 20);
    fs::write(host.target(), large).expect("written");
    host.refuses(&APPLY, "unreadable");
    fs::write(host.target(), &host.original).expect("written");

    host.ok(&APPLY);
    fs::set_permissions(host.state(""), fs::Permissions::from_mode(0o777)).expect("a mode");
    host.refuses(&["apply", "--source", "b"], "writable-by-others");
}

#[test]
fn planted_names_are_not_followed() {
    let host = Host::new("planted");
    let victim = host.root.join("victim");
    fs::write(&victim, "precious").expect("written");
    let dir = host.target().parent().expect("a directory").to_owned();
    symlink(&victim, dir.join(".kube-scheduler.yaml.schedpatch")).expect("linked");
    fs::create_dir_all(host.state("texts")).expect("a directory");
    symlink(&victim, host.state(".state.json.schedpatch")).expect("linked");
    host.ok(&APPLY);
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    assert!(listing(&dir).iter().all(|entry| !entry.0.to_string_lossy().contains(".schedpatch")));

    fs::remove_dir_all(host.state("")).expect("removed");
    fs::create_dir_all(host.state("")).expect("a directory");
    symlink(&victim, host.state("lock")).expect("linked");
    host.refuses(&["apply", "--source", "b"], "write");
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
}

#[test]
fn links_are_followed_as_the_host_would_and_never_out_of_it() {
    for walk in [Walk::Kernel, Walk::ByName] {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("apply/links-{walk:?}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("host/data/deep")).expect("a directory");
        fs::create_dir_all(root.join("outside")).expect("a directory");
        fs::write(root.join("outside/secret"), "").expect("written");
        let link = |to: &str, name: &str| symlink(to, root.join("host").join(name)).expect("linked");
        link("/data/deep", "absolute");
        link("data/deep", "relative");
        link("../outside", "up");
        link(&root.join("outside").display().to_string(), "out");
        link("loop", "loop");
        fs::write(root.join("host/file"), "").expect("written");
        let host = Root::open(&root.join("host")).expect("opened").walking(walk);
        let inode = |path: &str| fs::metadata(root.join("host").join(path)).expect("there").ino();
        for path in ["/absolute", "/relative", "/data/deep/../deep", "/absolute/../deep/."] {
            let names = host.dir(path).and_then(|dir| dir.names());
            assert_eq!(names.expect(path), Vec::<String>::new(), "{path}");
        }
        fs::write(root.join("host/data/deep/here"), "").expect("written");
        assert_eq!(host.dir("/absolute").and_then(|dir| dir.names()).expect("names"), ["here"], "{walk:?}");
        assert!(host.dir("/../..").and_then(|dir| dir.names()).expect("the root").contains(&"data".to_owned()));
        for path in ["/up", "/out", "/loop", "/file", "/missing", "/file/x"] {
            assert!(host.dir(path).is_err(), "{walk:?}: {path} was opened");
        }
        assert!(inode("data/deep") != 0);
    }
}

#[test]
fn who_waits_is_told_for_whom_and_only_as_long_as_asked() {
    let host = Host::new("lock");
    let root = Root::open(&host.root.join("host")).expect("opened");
    let claim = Claim {
        state_dir: "/var/lib/schedpatch",
        command: "run",
        now: Timestamp::from_unix(1_794_853_868),
        timeout: Duration::ZERO,
    };
    let lock = Lock::take(&RealFs, &root, &claim, &mut |_| {}).expect("nobody else has it");
    let begun = Instant::now();
    let said = host.refuses(&["apply", "--source", "a", "--lock-timeout", "300ms"], "locked");
    assert!(begun.elapsed() >= Duration::from_millis(300));
    let holder = format!("schedpatch run, process {}", std::process::id());
    assert!(said.contains(&holder) && said.contains("since 2026-11-16T18:31:08Z"), "{said}");
    drop(lock);
    host.ok(&APPLY);
}

#[test]
fn appliers_at_once_take_turns() {
    let host = Host::new("turns");
    let run = |source: &'static str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_clear().current_dir(&host.root).args(["apply", "--source", source, "--host-root", "host"]);
        command.stdout(std::process::Stdio::null()).spawn().expect("started")
    };
    let mut running: Vec<_> = (0..8).map(|number| run(if number % 2 == 0 { "a" } else { "b" })).collect();
    for child in &mut running {
        assert!(child.wait().expect("ended").success());
    }
    assert_eq!(host.status()["drift"], "none");
    assert!(host.status()["inFlight"].is_null());
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn a_damaged_file_of_the_revision_is_mended_without_a_restart() {
    let host = Host::new("mended");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    let config = host.state("revisions").join(&revision).join("config.yaml");
    let before = (fs::read(&config).expect("there"), fs::metadata(host.target()).expect("there").ino());
    fs::write(&config, "tampered").expect("written");
    assert!(host.ok(&APPLY).contains("our own files are in order again"));
    let after = (fs::read(&config).expect("there"), fs::metadata(host.target()).expect("there").ino());
    assert_eq!(before, after);
}

#[test]
fn old_revisions_go_and_the_last_three_stay() {
    let host = Host::new("garbage");
    let mut seen = Vec::new();
    for parallelism in 1..=6 {
        let config = host.root.join("b/config.yaml");
        let text = fs::read_to_string(host.root.join("a/config.yaml")).expect("text");
        fs::write(config, format!("{text}podInitialBackoffSeconds: {parallelism}\n")).expect("written");
        host.ok(&["apply", "--source", "b"]);
        seen.push(host.status()["applied"]["revision"].as_str().expect("text").to_owned());
    }
    let mut left: Vec<_> = listing(&host.state("revisions"))
        .iter()
        .map(|entry| entry.0.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    left.sort();
    let mut last = seen[3..].to_vec();
    last.sort();
    assert_eq!(left, last);
}

#[test]
fn another_target_is_refused_while_ours_is_in_the_first() {
    let host = Host::new("other");
    host.ok(&APPLY);
    let other = host.root.join("host/opt/manifests");
    fs::create_dir_all(&other).expect("a directory");
    fs::write(other.join("kube-scheduler.yaml"), &host.original).expect("written");
    let args = ["apply", "--source", "a", "--platform", "kubeadm", "--manifest-dir", "/opt/manifests"];
    assert!(
        host.refuses(&args, "other-target").contains("restore --target /etc/kubernetes/manifests/kube-scheduler.yaml")
    );
    host.ok(&["restore"]);
    host.ok(&args);
}

#[test]
fn status_tells_what_others_did() {
    let host = Host::new("status");
    let code = |host: &Host| host.run(&["status"]).status.code();
    assert_eq!((host.status()["applied"].clone(), code(&host)), (serde_json::Value::Null, Some(0)));
    host.ok(&APPLY);
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("none".into(), Some(0)));
    let ours = host.text();
    fs::write(host.target(), ours.clone() + "# mine\n").expect("written");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("edited".into(), Some(3)));
    fs::write(host.target(), &host.original).expect("written");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("gone".into(), Some(3)));
    fs::write(host.target(), &ours).expect("written");
    fs::remove_file(host.state("state.json")).expect("removed");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("unknown".into(), Some(3)));
    fs::remove_file(host.target()).expect("removed");
    assert_eq!((host.status()["drift"].clone(), code(&host)), ("unreadable".into(), Some(1)));
}

/// The formats that others may read: `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn the_formats_of_state_and_status_are_pinned() {
    let host = Host::new("formats");
    host.ok(&APPLY);
    host.proven();
    host.ok(&["apply", "--source", "b"]);
    host.edit_journal(|journal| {
        journal["bad"]["0123456789ab"] =
            serde_json::json!({"reason": "unknown flag: --nonsense", "since": "2026-11-16T18:31:08Z"});
        let flight = serde_json::json!({
            "from": journal["current"]["text"], "to": "0".repeat(64), "commit": null, "original": null,
            "since": "2026-11-16T18:31:08Z"
        });
        journal["inFlight"] = flight;
        journal["hold"] = serde_json::json!({"by": "schedpatch restore", "since": "2026-11-16T18:31:08Z"});
        for commit in ["current", "lastGood"] {
            journal[commit]["since"] = "2026-11-16T18:31:08Z".into();
        }
    });
    let pinned = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/formats");
    let status = String::from_utf8(host.run(&["status", "-o", "json"]).stdout).expect("text");
    let text = said(&host.run(&["status"]));
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(&pinned).expect("a directory");
        let journal = serde_json::to_string_pretty(&host.journal()).expect("JSON") + "\n";
        fs::write(pinned.join("state-1.json"), journal).expect("written");
        fs::write(pinned.join("status-1.json"), &status).expect("written");
        fs::write(pinned.join("status.txt"), &text).expect("written");
    }
    let read = |name: &str| fs::read_to_string(pinned.join(name)).expect("run UPDATE_GOLDEN=1 cargo test --test apply");
    assert_eq!(status, read("status-1.json"));
    assert_eq!(text, read("status.txt"));
    // a state file of this format is read for ever, and written back with the same fields
    fs::write(host.state("state.json"), read("state-1.json")).expect("written");
    host.ok(&["restore"]);
    let (mut old, mut new) = (serde_json::from_str(&read("state-1.json")).expect("JSON"), host.journal());
    let fields =
        |value: &mut serde_json::Value| value.as_object().expect("an object").keys().cloned().collect::<Vec<_>>();
    assert_eq!(fields(&mut old), fields(&mut new));
}

/// A second scheduler beside the first, with its own configuration.
fn second_scheduler(host: &Host) -> &'static str {
    let text =
        String::from_utf8(host.original.clone()).expect("text").replace("name: kube-scheduler\n", "name: second\n");
    let other = host.target().with_file_name("second.yaml");
    fs::write(&other, text).expect("written");
    "/etc/kubernetes/manifests/second.yaml"
}

#[test]
fn a_revision_that_any_manifest_uses_stays() {
    let host = Host::new("used");
    let second = second_scheduler(&host);
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    fs::remove_file(host.state("state.json")).expect("removed");
    for number in 1..=5 {
        let text = fs::read_to_string(host.root.join("a/config.yaml")).expect("text");
        fs::write(host.root.join("b/config.yaml"), format!("{text}podInitialBackoffSeconds: {number}\n"))
            .expect("written");
        host.ok(&["apply", "--source", "b", "--target", second]);
    }
    assert!(host.state("revisions").join(&revision).join("config.yaml").is_file(), "the first scheduler uses it");
    fs::write(host.state("state.json"), "garbage").expect("written");
    host.refuses(&["restore", "--purge", "--target", second], "still-used");
}

#[test]
fn work_in_flight_on_one_target_blocks_another() {
    let host = Host::new("flight");
    let second = second_scheduler(&host);
    host.ok(&APPLY);
    host.edit_journal(|journal| {
        journal["inFlight"] = serde_json::json!({
            "from": "0".repeat(64), "to": journal["current"]["text"], "commit": journal["current"],
            "original": journal["original"], "since": "2026-11-16T18:31:08Z"
        });
        journal["current"] = serde_json::Value::Null;
    });
    host.refuses(&["apply", "--source", "b", "--target", second], "other-target");
    host.ok(&APPLY);
    assert!(host.journal()["inFlight"].is_null());
    assert_eq!(host.status()["applied"]["generation"], 1, "the commit had happened, so nothing was restarted");
}

#[test]
fn the_last_good_revision_comes_back_only_whole() {
    let host = Host::new("whole");
    fs::write(host.root.join("a/ca.txt"), "a file beside").expect("written");
    host.ok(&APPLY);
    host.proven();
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    host.ok(&["apply", "--source", "b"]);
    fs::remove_file(host.state("revisions").join(revision).join("ca.txt")).expect("removed");
    assert!(host.ok(&["restore", "--to", "last-good", "--dry-run"]).contains("warning[no-last-good]"));
    assert!(host.ok(&["restore", "--to", "last-good"]).contains("its files are not what they were"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn a_generation_is_never_given_twice() {
    let host = Host::new("generation");
    for source in ["a", "b", "a"] {
        host.ok(&["apply", "--source", source]);
    }
    fs::remove_file(host.state("state.json")).expect("removed");
    host.ok(&["restore"]);
    host.ok(&APPLY);
    assert_eq!(host.status()["applied"]["generation"], 4);
}

#[test]
fn only_the_very_text_that_was_proven_counts_as_verified() {
    let host = Host::new("verified");
    host.ok(&APPLY);
    host.proven();
    assert_eq!(host.status()["applied"]["verified"], true);
    fs::write(host.target(), host.text().replace("v1.36.1", "v1.36.2")).expect("written");
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&APPLY);
    assert_eq!(host.status()["drift"], "none", "what others added is taken in");
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&["restore"]);
    let original = String::from_utf8(host.original.clone()).expect("text");
    assert_eq!(host.text(), original.replace("v1.36.1", "v1.36.2"));
}

#[test]
fn our_directory_is_never_the_kubelets() {
    let host = Host::new("mine");
    for dir in ["/etc/kubernetes/manifests", "/etc/kubernetes/manifests/schedpatch"] {
        host.refuses(&["apply", "--source", "a", "--state-dir", dir], "state-dir");
    }
    fs::create_dir_all(host.root.join("host/var/lib")).expect("a directory");
    symlink("/etc/kubernetes/manifests", host.state("").with_file_name("schedpatch")).expect("linked");
    host.refuses(&APPLY, "state-dir");
}

#[test]
fn odd_things_in_our_directory_do_not_stop_a_restore() {
    let host = Host::new("odd");
    let oddities: [fn(&Host); 7] = [
        |host| fs::create_dir(host.state("texts/foo")).expect("made"),
        |host| symlink("/nonexistent", host.state("texts/foo")).expect("linked"),
        |host| fs::create_dir_all(host.state("revisions/cafe/sub")).expect("made"),
        |host| fs::create_dir(host.state(".x.schedpatch")).expect("made"),
        |host| fs::write(host.state("texts/big"), vec![b'x'; 11 << 20]).expect("written"),
        |host| {
            fs::remove_file(host.state("state.json")).expect("removed");
            fs::create_dir(host.state("state.json")).expect("made");
        },
        |host| fs::remove_dir_all(host.state("revisions")).expect("removed"),
    ];
    for (number, oddity) in oddities.iter().enumerate() {
        let _ = fs::remove_dir_all(host.state(""));
        fs::write(host.target(), &host.original).expect("written");
        host.ok(&APPLY);
        oddity(&host);
        host.ok(&["restore"]);
        assert_eq!(fs::read(host.target()).expect("there"), host.original, "oddity {number}");
    }
}

#[test]
fn what_is_not_ours_survives_a_purge() {
    let host = Host::new("not-ours");
    host.ok(&["restore", "--purge"]);
    assert!(!host.root.join("host").join(STATE).exists(), "nothing is made in order to be removed");
    host.ok(&APPLY);
    fs::write(host.state("texts/notes.txt"), "somebody's").expect("written");
    fs::create_dir(host.state("revisions/backup")).expect("made");
    fs::write(host.state("revisions/backup/mine"), "somebody's").expect("written");
    assert!(host.ok(&["restore", "--purge"]).contains("not ours"));
    assert!(host.state("texts/notes.txt").is_file() && host.state("revisions/backup/mine").is_file());
    assert!(!host.state("state.json").exists());
}

#[test]
fn somebody_who_took_ours_out_before_us_is_believed() {
    let host = Host::new("gone");
    host.ok(&APPLY);
    let upgraded = String::from_utf8(host.original.clone()).expect("text").replace("v1.36.1", "v1.36.2");
    fs::write(host.target(), &upgraded).expect("written");
    assert_eq!(host.status()["drift"], "gone");
    host.ok(&["restore"]);
    assert_eq!(host.status()["drift"], "none");
    assert_eq!(host.text(), upgraded);
}

#[test]
fn status_sees_a_damaged_revision_and_apply_mends_it() {
    let host = Host::new("damaged");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    let dir = host.state("revisions").join(revision);
    let (config, inode) = (dir.join("config.yaml"), fs::metadata(host.target()).expect("there").ino());
    let good = fs::read(&config).expect("there");
    let mode = |path: &Path, mode| fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("a mode");
    let damages: [&dyn Fn(); 5] = [
        &|| fs::remove_dir_all(&dir).expect("removed"),
        &|| fs::write(&config, "tampered").expect("written"),
        &|| mode(&config, 0o600),
        &|| mode(&dir, 0o700),
        &|| {
            fs::rename(&config, host.root.join("elsewhere")).expect("moved");
            symlink(host.root.join("elsewhere"), &config).expect("linked");
        },
    ];
    for (number, damage) in damages.iter().enumerate() {
        damage();
        assert_eq!(host.run(&["status"]).status.code(), Some(3), "damage {number} is seen");
        host.ok(&APPLY);
        assert_eq!(fs::read(&config).expect("there"), good, "damage {number}");
        assert_eq!(fs::symlink_metadata(&config).expect("there").mode() & 0o777, 0o644, "damage {number}");
        assert_eq!(fs::metadata(&dir).expect("there").mode() & 0o777, 0o755, "damage {number}");
        assert_eq!(fs::metadata(host.target()).expect("there").ino(), inode, "damage {number}: no restart");
        assert_eq!(host.run(&["status"]).status.code(), Some(0), "damage {number}");
    }
}

#[test]
fn long_names_of_source_files_work() {
    let host = Host::new("long");
    fs::write(host.root.join("a").join("x".repeat(253)), "beside").expect("written");
    host.ok(&APPLY);
    assert_eq!(host.run(&["status"]).status.code(), Some(0));
}

#[test]
fn a_lock_that_cannot_be_looked_at_is_an_error_and_no_endless_loop() {
    let host = Host::new("files");
    let script =
        format!("ulimit -n 6; exec \"{}\" apply --source a --host-root host", env!("CARGO_BIN_EXE_schedpatch"));
    let output =
        Command::new("timeout").args(["20", "sh", "-c", &script]).current_dir(&host.root).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn answers_go_to_standard_output_and_complaints_to_standard_error() {
    let host = Host::new("streams");
    let output = host.run(&["apply", "--source", "missing"]);
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    let json = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .args(["status", "-o", "json", "--host-root", "/nonexistent"])
        .output()
        .expect("it runs");
    let status: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON on errors too");
    assert_eq!(status["findings"][0]["rule"], "host-root");
}

#[test]
fn the_hold_of_the_page_for_three_in_the_morning_is_understood() {
    let host = Host::new("by-hand");
    host.ok(&APPLY);
    fs::write(host.target(), &host.original).expect("written");
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/undo-by-hand.md")).expect("the page");
    let line = page.lines().find(|line| line.starts_with("printf ")).expect("the line that writes a hold");
    let json = line.split('\'').nth(1).expect("in quotes").replace("%s", "2026-11-16T18:31:08Z").replace("\\n", "\n");
    fs::write(host.state("state.json"), json).expect("written");
    assert_eq!(host.status()["hold"]["by"], "me");
    assert_eq!(host.status()["drift"], "none");
    host.ok(&APPLY);
    assert_eq!(host.status()["applied"]["generation"], 1001);
}

#[test]
fn a_half_undone_manifest_is_not_called_clean() {
    let host = Host::new("half");
    host.ok(&APPLY);
    let half: String = host
        .text()
        .lines()
        .filter(|line| !line.contains("schedpatch.io/"))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(host.target(), half.replace("schedpatch-config", "my-config")).expect("written");
    for args in [&["restore"][..], &["restore", "--purge"], &["restore", "--to", "last-good"]] {
        assert!(host.refuses(args, "undo-record").contains("texts/"), "{args:?}");
    }
    assert!(host.state("revisions").read_dir().expect("there").next().is_some());
}

#[test]
fn purge_looks_at_every_manifest() {
    let host = Host::new("every");
    host.ok(&APPLY);
    let copy = host.text().replace("name: kube-scheduler\n", "name: second\n");
    for (dir, name) in
        [("etc/kubernetes/manifests", "second.yaml"), ("var/lib/rancher/rke2/agent/pod-manifests", "x.yaml")]
    {
        let dir = host.root.join("host").join(dir);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(name), &copy).expect("written");
        let args = ["restore", "--purge", "--target", "/etc/kubernetes/manifests/kube-scheduler.yaml"];
        host.refuses(&args, "still-used");
        host.refuses(&[&args[..], &["--dry-run"]].concat(), "still-used");
        fs::remove_file(dir.join(name)).expect("removed");
    }
    host.ok(&["restore", "--purge"]);
}

#[test]
fn what_must_not_be_forgotten_is_saved_from_a_journal_that_cannot_be_read() {
    let host = Host::new("rescued");
    for source in ["a", "b", "a"] {
        host.ok(&["apply", "--source", source]);
    }
    host.edit_journal(|journal| {
        journal["version"] = 2.into();
        journal["bad"]["0123456789ab"] = serde_json::json!({"reason": "no", "since": "2026-11-16T18:31:08Z"});
    });
    let texts = listing(&host.state("texts")).len();
    host.ok(&["restore"]);
    assert_eq!(host.journal()["generation"], 3);
    assert_eq!(host.journal()["bad"]["0123456789ab"]["reason"], "no");
    assert_eq!(listing(&host.state("texts")).len(), texts, "who cannot read what is needed removes nothing");
    assert!(host.state("state.json.damaged-1").is_file());
}

#[test]
fn a_failed_apply_does_not_end_a_hold() {
    let host = Host::new("kept-hold");
    host.ok(&APPLY);
    host.ok(&["restore"]);
    // something in the way of the unfinished manifest
    let temp = host.target().with_file_name(".kube-scheduler.yaml.schedpatch");
    fs::create_dir(&temp).expect("made");
    assert_eq!(host.run(&APPLY).status.code(), Some(1));
    assert!(!host.status()["hold"].is_null());
    fs::remove_dir(&temp).expect("removed");
    host.ok(&APPLY);
    assert!(host.status()["hold"].is_null());
}
