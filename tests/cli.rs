//! The program from outside: flags, exit codes, text and JSON.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test makes and breaks its own files"
)]

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASE: &str = "tests/golden/kubeadm-1.36";

fn schedpatch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(args)
        .output()
        .expect("the program runs")
}

fn plan(more: &[&str]) -> Output {
    let (host, source) = (format!("{CASE}/host"), format!("{CASE}/source"));
    let args = [&["plan", "--host-root", &host, "--source", &source], more].concat();
    schedpatch(&args)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// A host of its own with one manifest, and a source.
fn host(name: &str, manifest: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    let _ = fs::remove_dir_all(&root);
    let manifests = root.join("host/etc/kubernetes/manifests");
    fs::create_dir_all(&manifests).expect("a directory");
    fs::write(manifests.join("kube-scheduler.yaml"), manifest).expect("a file");
    root
}

fn good_manifest() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
    fs::read_to_string(path).expect("the golden manifest")
}

fn plan_on(root: &Path, more: &[&str]) -> Output {
    let host = root.join("host").display().to_string();
    let source = format!("{CASE}/source");
    schedpatch(&[&["plan", "-o", "json", "--host-root", &host, "--source", &source], more].concat())
}

fn first_rule(output: &Output) -> String {
    json(output)["findings"][0]["rule"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_plan_is_told_in_words_and_diffs_and_exits_with_0() {
    let output = plan(&[]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    for part in [
        "platform    kubeadm",
        "scheduler   v1.36",
        "origins",
        "+++ /etc/kubernetes/manifests/kube-scheduler.yaml",
        "+    - --config=/var/lib/schedpatch/revisions/",
        "2 files to change. Nothing was written.",
    ] {
        assert!(out.contains(part), "{part:?} is missing in\n{out}");
    }
    assert!(!out.contains('\x1b'), "no colour where there is no terminal");
    assert!(text(&plan(&["--color", "always"]).stdout).contains("\x1b[32m+"));
}

#[test]
fn check_exits_with_3_when_something_must_change() {
    assert_eq!(plan(&["--check"]).status.code(), Some(3));
    let restore = schedpatch(&["plan", "--restore", "--check", "--host-root", &format!("{CASE}/host")]);
    assert_eq!(restore.status.code(), Some(0), "nothing of ours is there to restore");
}

#[test]
fn wrong_usage_exits_with_2() {
    for args in [
        &["plan"][..],
        &["plan", "--source", "x", "--no-such-flag"],
        &["plan", "--source", "x", "--platform", "none"],
        &["plan", "--source", "x", "--target", "relative"],
        &["plan", "--source", "x", "--state-dir", "/a b"],
        &[],
    ] {
        assert_eq!(schedpatch(args).status.code(), Some(2), "{args:?}");
    }
}

#[test]
fn a_time_that_would_make_the_agent_spin_or_give_up_at_once_is_refused() {
    for flag in ["--resync", "--verify-timeout"] {
        for time in ["0s", "0h", "999ms"] {
            let output = schedpatch(&["run", "--sandbox", flag, time]);
            let said = text(&output.stderr);
            assert_eq!(output.status.code(), Some(2), "{flag} {time}: {said}");
            assert!(said.contains(flag) && said.contains("give at least 1s"), "{said}");
        }
    }
}

#[test]
fn json_is_printed_on_errors_too_and_exits_with_1() {
    let output = schedpatch(&["plan", "--host-root", "/nonexistent", "--source", "x", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = json(&output);
    assert_eq!(document["version"], 1);
    assert_eq!(document["findings"][0]["rule"], "host-root");
    assert_eq!(document["steps"].as_array().map(Vec::len), Some(0));
    let keys: Vec<_> = document.as_object().expect("an object").keys().cloned().collect();
    let expected = [
        "digest",
        "evidence",
        "findings",
        "generation",
        "origins",
        "platform",
        "revision",
        "scheduler",
        "steps",
        "version",
    ];
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let output =
        schedpatch(&["plan", "--host-root", &format!("{CASE}/host"), "--source", "/no/such/dir", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["findings"][0]["file"], "/no/such/dir");
}

#[test]
fn a_version_can_be_said_where_the_tag_is_silent() {
    let root = host("no-tag", &good_manifest().replace(":v1.36", ":custom-1.36"));
    assert_eq!(first_rule(&plan_on(&root, &[])), "scheduler-version");
    let output = plan_on(&root, &["--scheduler-version", "v1.36.0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(json(&output)["scheduler"]["from"], "--scheduler-version");
}

#[test]
fn a_target_that_is_a_link_or_no_file_is_refused() {
    let root = host("link", "");
    let manifests = root.join("host/etc/kubernetes/manifests");
    fs::remove_file(manifests.join("kube-scheduler.yaml")).expect("removed");
    fs::write(root.join("host/etc/real.yaml"), good_manifest()).expect("written");
    symlink("/etc/real.yaml", manifests.join("kube-scheduler.yaml")).expect("linked");
    assert_eq!(first_rule(&plan_on(&root, &[])), "symlink", "the link is absolute, and still read beneath the root");
}

#[test]
fn links_do_not_lead_out_of_the_host_root() {
    let root = host("beneath", &good_manifest());
    fs::rename(root.join("host/etc/kubernetes"), root.join("host/data")).expect("moved");
    symlink("../../../../../../../../data", root.join("host/etc/kubernetes")).expect("linked");
    let output = plan_on(&root, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn a_file_beyond_the_kubelets_limit_is_refused() {
    let root = host("large", &format!("{}# {}\n", good_manifest(), "x".repeat(10 * 1024 * 1024)));
    let output = plan_on(&root, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(first_rule(&output), "unreadable");
}

#[test]
fn a_large_manifest_within_the_limit_is_planned() {
    let root = host("just-small-enough", &format!("{}# {}\n", good_manifest(), "x".repeat(9 * 1024 * 1024)));
    assert_eq!(plan_on(&root, &[]).status.code(), Some(0));
}

#[test]
fn a_custom_manifest_dir_and_a_target_by_name_are_found() {
    let root = host("custom", "");
    fs::create_dir_all(root.join("host/srv/pods")).expect("a directory");
    fs::write(
        root.join("host/srv/pods/s.yaml"),
        good_manifest().replace("  name: kube-scheduler\n  namespace", "  name: second\n  namespace"),
    )
    .expect("a file");
    let by_dir = plan_on(&root, &["--manifest-dir", "/srv/pods"]);
    assert_eq!(first_rule(&by_dir), "which-scheduler", "{}", text(&by_dir.stdout));
    let by_name = plan_on(&root, &["--target", "/srv/pods/s.yaml"]);
    assert_eq!(by_name.status.code(), Some(0), "{}", text(&by_name.stdout));
    assert_eq!(
        first_rule(&plan_on(&root, &["--target", "/srv/pods/none.yaml", "--platform", "kubeadm"])),
        "no-manifest"
    );
}

#[test]
fn two_platforms_on_one_host_must_be_told_apart_by_a_person() {
    let root = host("two-platforms", &good_manifest());
    fs::create_dir_all(root.join("host/var/lib/rancher/k3s/server")).expect("a directory");
    assert_eq!(first_rule(&plan_on(&root, &[])), "ambiguous-platform");
    assert_eq!(plan_on(&root, &["--platform", "kubeadm"]).status.code(), Some(0));
}

#[test]
fn a_mounted_configmap_is_read_through_its_data_link() {
    let root = host("configmap", &good_manifest());
    let mount = root.join("mount");
    fs::create_dir_all(mount.join("..2026_01")).expect("a directory");
    let config =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("source/config.yaml")).expect("readable");
    fs::write(mount.join("..2026_01/config.yaml"), &config).expect("a file");
    symlink("..2026_01", mount.join("..data")).expect("linked");
    symlink("..data/config.yaml", mount.join("config.yaml")).expect("linked");
    let host = root.join("host").display().to_string();
    let output = schedpatch(&["plan", "-o", "json", "--host-root", &host, "--source", &mount.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(json(&output)["digest"], json(&plan_on(&root, &[]))["digest"]);
}

#[test]
fn what_others_added_around_our_lines_is_no_reason_to_write_again() {
    let root = host("foreign", &good_manifest());
    let manifest = root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("expected/kube-scheduler.yaml");
    let patched = fs::read_to_string(expected).expect("the golden result");
    let line = patched.lines().find(|line| line.contains("- --config=")).expect("our flag").to_owned();
    let edited = patched.replace(&line, &format!("{line}\n    - --v=4 # theirs"));
    fs::write(&manifest, &edited).expect("written");
    let steps = json(&plan_on(&root, &[]))["steps"].clone();
    let kinds: Vec<_> =
        steps.as_array().into_iter().flatten().map(|step| step["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["writeFile"], "only the revision's file is missing on this host");
    let restored = json(&schedpatch(&[
        "plan",
        "--restore",
        "-o",
        "json",
        "--host-root",
        &root.join("host").display().to_string(),
    ]));
    let diff = restored["steps"][0]["diff"].as_str().unwrap_or_default().to_owned();
    assert!(diff.contains("-    - --config=") && !diff.contains("---v=4") && !diff.contains("-    - --v=4"), "{diff}");
}

/// A kubeconfig whose API server is at a port that nobody listens on.
fn kubeconfig(name: &str) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    fs::create_dir_all(&dir).expect("a directory");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}, {{name: there, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{token: x}}}}]\n"
    );
    let file = dir.join("config");
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}

#[test]
fn a_cluster_that_cannot_be_asked_is_told_in_words_and_exits_with_1() {
    let file = kubeconfig("away");
    let cases: [(&[&str], &str, &str); 5] = [
        (&["--cluster"], "api-config", "kubeconfig"),
        (&["--kubeconfig", "/nonexistent"], "api-config", "/nonexistent"),
        (&["--kubeconfig", &file, "--context", "nowhere"], "no-such-context", "it has: here, there"),
        (&["--kubeconfig", &file, "--context", "there"], "api-away", "does not answer"),
        (&["--kubeconfig", &file, "--wait", "1s"], "api-away", "does not answer"),
    ];
    for (flags, rule, words) in cases {
        let output = schedpatch(&[&["status", "-o", "json"], flags].concat());
        assert_eq!((output.status.code(), first_rule(&output).as_str()), (Some(1), rule), "{flags:?}");
        assert_eq!((&json(&output)["scope"], &json(&output)["proven"]), (&"cluster".into(), &false.into()));
        let output = schedpatch(&[&["status"], flags].concat());
        assert!(text(&output.stderr).contains(words), "{flags:?}: {}", text(&output.stderr));
    }
}

#[test]
fn called_by_kubectl_it_is_about_the_cluster() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/plugin");
    fs::create_dir_all(&dir).expect("a directory");
    let plugin = dir.join("kubectl-schedpatch");
    let _ = fs::remove_file(&plugin);
    symlink(env!("CARGO_BIN_EXE_schedpatch"), &plugin).expect("a link");
    let run = |args: &[&str]| Command::new(&plugin).env_clear().args(args).output().expect("the program runs");
    let file = kubeconfig("plugin-config");
    let output =
        Command::new(&plugin).env_clear().env("KUBECONFIG", &file).args(["status"]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error[api-away]"), "{}", text(&output.stderr));
    assert!(text(&run(&["status", "--help"]).stdout).contains("Usage: kubectl schedpatch status"));
    for wrong in [&["status", "--extenders"][..], &["status", "--wait", "soon"], &["status", "--nonsense"]] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(schedpatch(&["status", "--extenders", "--cluster"]).status.code(), Some(2));
}

#[test]
fn extenders_are_asked_on_demand_and_do_not_change_the_exit_code() {
    let root = host("extenders", &good_manifest());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (here, gone) = (listener.local_addr().expect("an address").port(), {
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
        gone.local_addr().expect("an address").port()
    });
    let source = root.join("source");
    fs::create_dir_all(&source).expect("a directory");
    let extender =
        |port: u16| format!("  - {{urlPrefix: 'http://127.0.0.1:{port}/x', filterVerb: filter, ignorable: true}}\n");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n";
    fs::write(source.join("config.yaml"), format!("{head}{}{}", extender(here), extender(gone))).expect("a file");
    let (host, source) = (root.join("host").display().to_string(), source.display().to_string());
    let applied = schedpatch(&["apply", "--host-root", &host, "--source", &source]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
    let output = schedpatch(&["status", "--host-root", &host, "--extenders", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let mut asked = [(here, true), (gone, false)];
    asked.sort_by_key(|(port, _)| format!("http://127.0.0.1:{port}"));
    let expected = asked.iter().map(
        |(port, reachable)| serde_json::json!({"url": format!("http://127.0.0.1:{port}"), "reachable": reachable}),
    );
    assert_eq!(json(&output)["extenders"], expected.collect::<serde_json::Value>());
    let shown = text(&schedpatch(&["status", "--host-root", &host, "--extenders"]).stdout);
    assert!(shown.contains(&format!("http://127.0.0.1:{here} takes connections")), "{shown}");
    assert!(json(&schedpatch(&["status", "--host-root", &host, "-o", "json"])).get("extenders").is_none());
}
