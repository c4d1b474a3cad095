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

#[test]
fn lists_in_the_environment_have_one_value_on_each_line_and_mean_the_same_as_flags() {
    let root = host("lists", &good_manifest());
    for dir in ["host/opt/a", "host/opt/b"] {
        fs::create_dir_all(root.join(dir)).expect("a directory");
    }
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    let extra = root.join("extra");
    fs::create_dir_all(&extra).expect("a directory");
    fs::write(extra.join("ca.crt"), "beside").expect("a file");
    let extra = extra.display().to_string();
    let run = |flags: &[&str], variables: &[(&str, &str)]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().envs(variables.iter().copied());
        let output = command.args(["plan", "-o", "json", "--host-root", &host]).args(flags).output().expect("it runs");
        assert_eq!(output.status.code(), Some(0), "{}{}", text(&output.stdout), text(&output.stderr));
        let plan = json(&output);
        (plan["digest"].clone(), plan["revision"].clone())
    };
    let sources = format!("{source}\n{extra}\n");
    let by_variables = run(
        &[],
        &[
            ("SCHEDPATCH_SOURCE", &sources),
            ("SCHEDPATCH_ACCEPT", "key-data\nblocking-extender\n"),
            ("SCHEDPATCH_SCHEDULER_ARG", "v=4\nfeature-gates=A=true,B=false\n"),
            ("SCHEDPATCH_SCHEDULER_MOUNT", "/opt/a\n/opt/b"),
            ("SCHEDPATCH_SCHEDULER_DNS_POLICY", "Default"),
        ],
    );
    let mut flags = vec!["--source", &source, "--source", &extra, "--accept", "key-data,blocking-extender"];
    flags.extend(["--scheduler-arg", "v=4", "--scheduler-arg=feature-gates=A=true,B=false"]);
    flags.extend(["--scheduler-mount", "/opt/a,/opt/b", "--scheduler-dns-policy=Default"]);
    assert_eq!(by_variables, run(&flags, &[]));
    assert_ne!(by_variables, run(&["--source", &source, "--source", &extra], &[]));
    let wrong = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .env_clear()
        .env("SCHEDPATCH_ACCEPT", "key-data\nno-such-rule")
        .args(["plan", "--source", "x"])
        .output()
        .expect("it runs");
    assert_eq!(wrong.status.code(), Some(2), "{}", text(&wrong.stderr));
    assert!(text(&wrong.stderr).contains("no-such-rule"), "{}", text(&wrong.stderr));
}

#[test]
fn errors_of_a_plan_go_to_standard_error_and_stay_in_the_json_document() {
    let root = host("errors", &good_manifest().replace("kind: Pod", "kind: [Pod"));
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    for command in [&["plan"][..], &["apply", "--dry-run"], &["plan", "--check"]] {
        let output = schedpatch(&[command, &["--host-root", &host, "--source", &source]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty(), "{command:?}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains("error["), "{command:?}: {}", text(&output.stderr));
    }
    let output = plan_on(&root, &[]);
    assert!(output.stderr.is_empty() && json(&output)["findings"][0]["level"] == "error");
}

#[test]
fn without_a_target_status_and_restore_mean_the_one_that_was_applied() {
    let root = host("known-target", &good_manifest());
    let second = root.join("host/etc/kubernetes/manifests/second.yaml");
    let original = good_manifest().replace("name: kube-scheduler\n", "name: second\n");
    fs::write(&second, &original).expect("a file");
    let elsewhere = root.join("host/opt/pods/third.yaml");
    fs::create_dir_all(elsewhere.parent().expect("above")).expect("a directory");
    fs::write(&elsewhere, &original).expect("a file");
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    for (target, file) in [("/etc/kubernetes/manifests/second.yaml", &second), ("/opt/pods/third.yaml", &elsewhere)] {
        let applied = schedpatch(&["apply", "--host-root", &host, "--source", &source, "--target", target]);
        assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
        let output = schedpatch(&["status", "--host-root", &host, "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert_eq!(json(&output)["target"], target);
        assert!(json(&output)["applied"]["revision"].is_string(), "{}", text(&output.stdout));
        let planned = schedpatch(&["plan", "--restore", "--check", "--host-root", &host]);
        assert_eq!(planned.status.code(), Some(3), "{}", text(&planned.stdout));
        let restored = schedpatch(&["restore", "--host-root", &host]);
        assert_eq!(restored.status.code(), Some(0), "{}", text(&restored.stderr));
        assert_eq!(fs::read_to_string(file).expect("there"), original);
        let shown = text(&schedpatch(&["status", "--host-root", &host]).stdout);
        assert!(shown.contains("last good   the manifest without our edit\n"), "{shown}");
    }
}

#[test]
fn what_waiting_does_not_change_is_refused_at_once() {
    let root = host("at-once", &good_manifest());
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    schedpatch(&["apply", "--host-root", &host, "--source", &source]);
    schedpatch(&["restore", "--host-root", &host]);
    // two schedulers, and neither has the usual name
    let manifests = root.join("host/etc/kubernetes/manifests");
    for name in ["kube-scheduler", "second"] {
        let text = good_manifest().replace("name: kube-scheduler\n", &format!("name: {name}-x\n"));
        fs::write(manifests.join(format!("{name}.yaml")), text).expect("a file");
    }
    let begin = std::time::Instant::now();
    let output = schedpatch(&["restore", "--host-root", &host]);
    assert!(text(&output.stderr).contains("error[which-scheduler]"), "{}", text(&output.stderr));
    assert!(begin.elapsed() < std::time::Duration::from_millis(600), "{:?}", begin.elapsed());
}

#[test]
fn status_on_a_workstation_names_the_flag_for_the_cluster() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/workstation");
    fs::create_dir_all(&root).expect("a directory");
    let output = schedpatch(&["status", "--host-root", &root.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("schedpatch status --cluster"), "{}", text(&output.stdout));
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named_wherever_its_name_came_from() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
    command.env_clear().env("KUBECONFIG", "/no/such/kubeconfig").args(["status", "--cluster", "--context", "x"]);
    let said = text(&command.output().expect("it runs").stderr);
    assert!(said.contains("error[api-config]") && said.contains("/no/such/kubeconfig"), "{said}");
}

/// `kubectl exec … -- /schedpatch plan` has the pod's environment and none of the agent's flags.
#[test]
fn in_the_charts_pod_every_command_computes_the_revision_of_the_agent() {
    let ci = Path::new(env!("CARGO_MANIFEST_DIR")).join("charts/schedpatch/ci");
    let read = |name: &str| fs::read_to_string(ci.join(name)).expect("there");
    let values: serde_json::Value = serde_yaml::from_str(&read("everything-values.yaml")).expect("values");
    let rendered = read("everything.golden.yaml");
    let documents =
        rendered.split("\n---\n").map(|text| serde_yaml::from_str::<serde_json::Value>(text).expect("YAML"));
    let set = documents.into_iter().find(|object| object["kind"] == "DaemonSet").expect("the agents");
    let container = &set["spec"]["template"]["spec"]["containers"][0];
    let words: Vec<_> = container["args"].as_array().expect("args").iter().filter_map(|word| word.as_str()).collect();
    let shared = ["--source", "--accept", "--scheduler-", "--host-root", "--platform", "--state-dir", "--lock-timeout"];
    assert!(!words.iter().any(|word| shared.iter().any(|flag| word.starts_with(flag))), "{words:?}");

    let root = host("pod", &good_manifest());
    let strings = |list: &serde_json::Value| -> Vec<String> {
        list.as_array().expect("a list").iter().filter_map(|item| item.as_str().map(str::to_owned)).collect()
    };
    let scheduler = &values["scheduler"];
    for mount in strings(&scheduler["mounts"]) {
        fs::create_dir_all(root.join("host").join(mount.trim_start_matches('/'))).expect("a directory");
    }
    let here = [
        ("SCHEDPATCH_HOST_ROOT", root.join("host").display().to_string()),
        ("SCHEDPATCH_SOURCE", format!("{CASE}/source")),
        ("SCHEDPATCH_MANIFEST_DIR", "/etc/kubernetes/manifests".to_owned()),
    ];
    let variables = container["env"].as_array().expect("variables").iter();
    let of_pod = variables.filter_map(|variable| Some((variable["name"].as_str()?, variable["value"].as_str()?)));
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear().envs(of_pod);
    command.envs(here.iter().map(|(name, value)| (name, value))).args(["plan", "-o", "json"]);
    let in_pod = json(&command.output().expect("it runs"));

    let mut flags = strings(&values["accept"]).iter().map(|rule| format!("--accept={rule}")).collect::<Vec<_>>();
    let (image, version) = (&scheduler["image"], &scheduler["version"]);
    flags.push(format!("--scheduler-image={}", image.as_str().expect("an image")));
    flags.push(format!("--scheduler-version={}", version.as_str().expect("a version")));
    for (name, value) in scheduler["args"].as_object().expect("flags") {
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        flags.push(format!("--scheduler-arg={name}={value}"));
    }
    flags.extend(strings(&scheduler["mounts"]).iter().map(|path| format!("--scheduler-mount={path}")));
    flags.push(format!("--scheduler-dns-policy={}", scheduler["dnsPolicy"].as_str().expect("a policy")));
    flags.push(format!("--state-dir={}", values["stateDir"].as_str().expect("a directory")));
    let flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    let by_flags = json(&plan_on(&root, &flags));
    assert!(by_flags["revision"].is_string(), "{by_flags}");
    assert_eq!(in_pod["revision"], by_flags["revision"], "{in_pod}");
}
