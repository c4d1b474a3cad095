//! Flags and environment variables.

use super::program::{CASE, good_manifest, host, json, plan_on, schedpatch, text};
use std::fs;
use std::path::Path;
use std::process::Command;

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
    flags.push(format!("--scheduler-command={}", scheduler["command"].as_str().expect("a program")));
    flags.push(format!("--scheduler-run-as-user={}", scheduler["runAsUser"]));
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
