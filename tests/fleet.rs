//! From what the API says to the verdict: a cluster in which all is proven, and everything that can lack.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    clippy::indexing_slicing,
    reason = "a test makes and breaks its own cluster"
)]

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use schedpatch::finding::Finding;
use schedpatch::fleet::{ClusterObjects, judge, show};
use schedpatch::observe;
use schedpatch::plan::{self, Direction};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

/// Two control-plane nodes, both proven.
fn cluster() -> Value {
    let text = fs::read_to_string(root().join("tests/fleet/cluster.json")).expect("the fixture");
    serde_json::from_str(&text).expect("JSON")
}

fn answers(cluster: &Value) -> ClusterObjects {
    fn read<T: DeserializeOwned>(value: &Value) -> T {
        T::deserialize(value).expect("an object of the API")
    }
    ClusterObjects {
        nodes: read(&cluster["nodes"]),
        set: read(&cluster["set"]),
        agents: read(&cluster["agents"]),
        schedulers: read(&cluster["schedulers"]),
        config_maps: read::<BTreeMap<_, _>>(&cluster["configMaps"]),
        lease: Ok(read(&cluster["lease"])),
    }
}

fn judged(cluster: &Value) -> Value {
    serde_json::from_str(&judge(&answers(cluster)).to_json().expect("JSON")).expect("JSON")
}

/// What lacks on each node.
fn gaps(status: &Value) -> Vec<&str> {
    let nodes = status["nodes"].as_array().expect("a list");
    nodes.iter().map(|node| node["gap"]["reason"].as_str().unwrap_or("")).collect()
}

/// Sets an annotation of the second node.
fn says(cluster: &mut Value, key: &str, value: &str) {
    cluster["nodes"][1]["annotations"][format!("schedpatch.io/{key}")] = value.into();
}

#[test]
fn a_cluster_in_which_nothing_lacks_is_proven() {
    let status = judged(&cluster());
    assert_eq!(gaps(&status), ["", ""]);
    assert_eq!(status["proven"], true);
    assert_eq!(status["counts"], json!({"controlPlanes": 2, "agents": 2, "schedulers": 2, "proven": 2}));
    assert_eq!(status["findings"], json!([]));
}

type Case = (&'static str, fn(&mut Value), &'static str, bool);

/// What happens to the second node, what lacks then, and whether waiting does not help.
const CASES: &[Case] = &[
    ("no agent", |c| drop(c["agents"].as_array_mut().map(Vec::pop)), "NoAgent", false),
    (
        "its agent is on its way out",
        |c| c["agents"][1]["metadata"]["deletionTimestamp"] = "2026-11-16T18:40:00Z".into(),
        "NoAgent",
        false,
    ),
    ("its agent was thrown out", |c| c["agents"][1]["status"]["phase"] = "Failed".into(), "NoAgent", false),
    (
        "its agent has the flags of before",
        |c| c["agents"][1]["spec"]["containers"][0]["args"][2] = "--rollout=single-node".into(),
        "AgentOutdated",
        false,
    ),
    (
        "its agent has a variable of before",
        |c| c["agents"][1]["spec"]["containers"][0]["env"][1]["value"] = "/".into(),
        "AgentOutdated",
        false,
    ),
    (
        "its agent's image cannot be had",
        |c| {
            c["agents"][1]["status"]["containerStatuses"][0]["state"] =
                json!({"waiting": {"reason": "ImagePullBackOff"}});
        },
        "AgentNotRunning",
        false,
    ),
    ("its agent said nothing yet", |c| c["nodes"][1]["annotations"] = json!({}), "NotReported", false),
    ("its mount is not refreshed", |c| says(c, "digest", &"0".repeat(64)), "SourceNotSeen", false),
    (
        "it rolled back something older",
        |c| {
            says(c, "digest", &"0".repeat(64));
            says(c, "phase", "RolledBack");
        },
        "SourceNotSeen",
        false,
    ),
    (
        "it is in the middle",
        |c| {
            says(c, "phase", "Verifying");
            says(c, "reason", "NotYetProven");
        },
        "NotYetProven",
        false,
    ),
    (
        "it rolled back",
        |c| {
            says(c, "phase", "RolledBack");
            says(c, "reason", "RevisionFailed");
        },
        "RevisionFailed",
        true,
    ),
    (
        "it is refused",
        |c| {
            says(c, "phase", "Blocked");
            says(c, "reason", "SeveralControlPlanes");
        },
        "SeveralControlPlanes",
        true,
    ),
    (
        "it is held",
        |c| {
            says(c, "phase", "Restored");
            says(c, "reason", "Held");
        },
        "Held",
        true,
    ),
    (
        "there is no configuration in the source",
        |c| {
            says(c, "phase", "Pending");
            says(c, "reason", "NoSource");
        },
        "NoSource",
        true,
    ),
    (
        "nobody could be asked",
        |c| {
            says(c, "phase", "Unknown");
            says(c, "reason", "NobodyToAsk");
        },
        "NobodyToAsk",
        false,
    ),
    ("another digest was verified", |c| says(c, "verified-digest", &"0".repeat(64)), "NotVerified", false),
    ("no scheduler", |c| drop(c["schedulers"].as_array_mut().map(Vec::pop)), "NoScheduler", false),
    (
        "its scheduler is no static pod",
        |c| c["schedulers"][1]["metadata"]["annotations"] = json!({"schedpatch.io/revision": "0a1b2c3d4e5f"}),
        "NoScheduler",
        false,
    ),
    (
        "its scheduler carries nothing",
        |c| c["schedulers"][1]["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "aa"}),
        "OtherRevision",
        false,
    ),
    (
        "its scheduler carries another generation",
        |c| c["schedulers"][1]["metadata"]["annotations"]["schedpatch.io/generation"] = "2".into(),
        "OtherRevision",
        false,
    ),
    (
        "its scheduler was started with another file",
        |c| c["schedulers"][1]["spec"]["containers"][0]["command"][2] = "--config=/etc/other.yaml".into(),
        "OtherConfig",
        false,
    ),
    (
        "its scheduler is not ready",
        |c| c["schedulers"][1]["status"]["containerStatuses"][0]["ready"] = false.into(),
        "SchedulerNotReady",
        false,
    ),
    (
        "its agent is not ready",
        |c| c["agents"][1]["status"]["containerStatuses"][0]["ready"] = false.into(),
        "AgentNotReady",
        false,
    ),
    ("it is no control-plane node", |c| drop(c["nodes"].as_array_mut().map(Vec::pop)), "NotControlPlane", false),
];

#[test]
fn whatever_lacks_on_one_node_is_named_and_no_other_node_suffers() {
    for (name, happens, reason, is_final) in CASES {
        let mut cluster = cluster();
        happens(&mut cluster);
        let status = judged(&cluster);
        assert_eq!(gaps(&status), ["", *reason], "{name}");
        assert_eq!(status["nodes"][1]["gap"]["final"], *is_final, "{name}");
        assert_eq!((&status["proven"], &status["counts"]["proven"]), (&json!(false), &json!(1)), "{name}");
    }
}

#[test]
fn a_changed_config_map_counts_before_any_agent_has_seen_it() {
    let mut cluster = cluster();
    cluster["configMaps"]["schedpatch"]["data"]["config.yaml"] = "# another\n".into();
    assert_eq!(gaps(&judged(&cluster)), ["SourceNotSeen", "SourceNotSeen"]);
}

#[test]
fn without_agents_or_without_nodes_nothing_is_proven() {
    let mut cluster = cluster();
    (cluster["set"], cluster["agents"]) = (Value::Null, json!([]));
    let status = judged(&cluster);
    assert_eq!(gaps(&status), ["NoAgent", "NoAgent"]);
    assert_eq!(status["findings"][0]["rule"], "no-agents");
    (cluster["nodes"], cluster["schedulers"]) = (json!([]), json!([]));
    let status = judged(&cluster);
    assert_eq!((&status["proven"], &status["nodes"]), (&json!(false), &json!([])));
}

#[test]
fn what_is_wanted_must_be_known() {
    let mut missing = cluster();
    missing["configMaps"] = json!({});
    let status = judged(&missing);
    assert_eq!(gaps(&status), ["WantedUnknown", "WantedUnknown"]);
    assert_eq!(status["findings"][0]["rule"], "configmap-missing");
    let mut elsewhere = cluster();
    for pod in ["/set/spec/template/spec", "/agents/0/spec", "/agents/1/spec"] {
        let args = elsewhere.pointer_mut(&format!("{pod}/containers/0/args")).expect("flags");
        args[1] = "--source=/host/etc/kubernetes/manifests".into();
    }
    let status = judged(&elsewhere);
    assert_eq!(gaps(&status), ["WantedUnknown", "WantedUnknown"]);
    assert_eq!(
        (&status["findings"][0]["rule"], &status["findings"][0]["level"]),
        (&json!("source-elsewhere"), &json!("error"))
    );
}

#[test]
fn of_two_schedulers_on_a_node_ours_counts() {
    let mut cluster = cluster();
    let mut second = cluster["schedulers"][1].clone();
    second["metadata"]["name"] = "a-second-scheduler-cp2".into();
    second["metadata"]["annotations"] = json!({"kubernetes.io/config.mirror": "bb"});
    let schedulers = cluster["schedulers"].as_array_mut().expect("a list");
    for at in [1, 2] {
        schedulers.insert(at, second.clone());
    }
    assert_eq!(gaps(&judged(&cluster)), ["", ""]);
}

#[test]
fn who_leads_is_told_and_nothing_depends_on_it() {
    let leaders = |cluster: &Value| {
        let status = judged(cluster);
        assert_eq!(status["proven"], true);
        (status["nodes"][0]["leader"].clone(), status["nodes"][1]["leader"].clone())
    };
    let mut cluster = cluster();
    let holders = [
        ("cp1_9c327f2a", (json!(true), json!(false))),
        ("CP2.example.com_9c327f2a", (json!(false), json!(true))),
        ("cp10_9c327f2a", (json!(false), json!(false))),
        ("", (Value::Null, Value::Null)),
    ];
    for (holder, expected) in holders {
        cluster["lease"]["spec"]["holderIdentity"] = holder.into();
        assert_eq!(leaders(&cluster), expected, "{holder}");
    }
    cluster["lease"] = Value::Null;
    assert_eq!(leaders(&cluster), (Value::Null, Value::Null));
    let refused = ClusterObjects { lease: Err(Finding::warning("api-forbidden", "no", "ask")), ..answers(&cluster) };
    let fleet = judge(&refused);
    assert!(fleet.proven && fleet.findings.len() == 1);
}

/// A directory as the kubelet shows a ConfigMap.
fn mount(name: &str, files: &[(&str, &[u8])]) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("fleet").join(name);
    let _ = fs::remove_dir_all(&dir);
    let real = dir.join("..2026_11_16_18_31_08.1");
    fs::create_dir_all(&real).expect("a directory");
    symlink(real.file_name().expect("a name"), dir.join("..data")).expect("a link");
    for (name, content) in files {
        fs::write(real.join(name), content).expect("a file");
        symlink(Path::new("..data").join(name), dir.join(name)).expect("a link");
    }
    dir
}

/// The digest that an agent on a host computes.
fn planned(dirs: &[PathBuf]) -> String {
    let mut flags = vec!["--host-root".to_owned(), root().join("examples/host").display().to_string()];
    flags.extend(dirs.iter().flat_map(|dir| ["--source".to_owned(), dir.display().to_string()]));
    let settings = schedpatch::cli::plan_settings(&flags).expect("flags");
    let snapshot = observe::take_snapshot(&settings).expect("a host");
    plan::make(&snapshot, &settings, Direction::Apply).digest.expect("a digest").to_string()
}

/// The digest that the API's objects give.
fn wanted(cluster: &Value) -> String {
    judged(cluster)["wanted"]["digest"].as_str().unwrap_or("unknown").to_owned()
}

#[test]
fn the_digest_is_the_one_that_plan_computes_for_the_mounted_files() {
    let mut cluster = cluster();
    let config = cluster["configMaps"]["schedpatch"]["data"]["config.yaml"].as_str().expect("text").to_owned();
    let ca: &[u8] = &[0x30, 0x82, 0x00, 0xff, 0xfe];
    let whole = mount("whole", &[("config.yaml", config.as_bytes()), ("ca.der", ca)]);
    assert_eq!(wanted(&cluster), planned(std::slice::from_ref(&whole)));

    // hidden files are no source, neither there nor here
    cluster["configMaps"]["schedpatch"]["data"][".hidden"] = "x".into();
    fs::write(whole.join("..data/.hidden"), "x").expect("a file");
    assert_eq!(wanted(&cluster), planned(std::slice::from_ref(&whole)));

    // two sources: flags in two words count before the variable; some keys under other names, in a directory below the mount
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["args"] =
        json!(["run", "--source", "/etc/schedpatch/source/", "--source=/etc/schedpatch//more/below"]);
    let env = template["containers"][0]["env"].as_array_mut().expect("a list");
    env.push(json!({"name": "SCHEDPATCH_SOURCE", "value": "/nowhere"}));
    let mounts = template["containers"][0]["volumeMounts"].as_array_mut().expect("a list");
    mounts.push(json!({"name": "more", "mountPath": "/etc/schedpatch/more"}));
    let items = json!([{"key": "a", "path": "below/z.yaml"}, {"key": "b", "path": "beside.yaml"}]);
    let volumes = template["volumes"].as_array_mut().expect("a list");
    volumes.push(json!({"name": "more", "configMap": {"name": "more", "items": items}}));
    cluster["configMaps"]["more"] = json!({"metadata": {"name": "more"}, "data": {"a": "kind: A\n", "b": "", "c": ""}});
    let more = mount("more", &[("z.yaml", b"kind: A\n")]);
    assert_eq!(wanted(&cluster), planned(&[whole.clone(), more]));

    // no flag: the variable counts, and a source that may be missing is empty
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["args"] = json!(["run"]);
    assert_eq!(wanted(&cluster), "unknown", "nothing is mounted at /nowhere");
    let template = &mut cluster["set"]["spec"]["template"]["spec"];
    template["containers"][0]["env"][2]["value"] = "/etc/schedpatch/more".into();
    template["volumes"][2]["configMap"] = json!({"name": "absent", "optional": true});
    assert_eq!(wanted(&cluster), planned(&[mount("absent", &[])]));
}

/// The formats that others may read: `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn the_formats_of_the_status_over_the_cluster_are_pinned() {
    let mut cluster = cluster();
    says(&mut cluster, "phase", "RolledBack");
    says(&mut cluster, "reason", "RevisionFailed");
    says(&mut cluster, "message", "unknown flag: --nonsense \u{1b}[31m");
    cluster["schedulers"][1]["status"]["containerStatuses"][0]["ready"] = false.into();
    let fleet = judge(&answers(&cluster));
    let forms = [("fleet-1.json", fleet.to_json().expect("JSON") + "\n"), ("fleet.txt", show(&fleet))];
    for (name, form) in forms {
        let path = root().join("tests/formats").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &form).expect("written");
        }
        let pinned = fs::read_to_string(&path).expect("run UPDATE_GOLDEN=1 cargo test --test fleet");
        assert_eq!(form, pinned, "{name}");
    }
}

#[test]
fn each_step_of_a_change_is_shown_by_the_schedulers_mirror_pod() {
    let mut cluster = cluster();
    assert_eq!(judge(&answers(&cluster)).steps().count(), 0, "nothing is changed");
    says(&mut cluster, "phase", "Verifying");
    let (revision, generation) = ("schedpatch.io/revision", "schedpatch.io/generation");
    let step = |cluster: &Value| {
        let fleet = judge(&answers(cluster));
        let steps: Vec<_> = fleet.steps().map(|(node, step)| (node.to_owned(), step)).collect();
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert_eq!(steps[0].0, "cp2");
        steps[0].1.clone()
    };
    says(&mut cluster, "generation", "4");
    assert_eq!(step(&cluster), "the kubelet stops the old pod");
    let pod = cluster["schedulers"][1].clone();
    cluster["schedulers"] = json!([cluster["schedulers"][0]]);
    assert_eq!(step(&cluster), "the old pod is gone; the new one is not there yet");
    cluster["schedulers"] = json!([cluster["schedulers"][0], pod]);
    let annotations = &mut cluster["schedulers"][1]["metadata"]["annotations"];
    annotations[generation] = "4".into();
    let carried = annotations[revision].clone();
    assert!(carried.is_string());
    let status = cluster["schedulers"][1]["status"]["containerStatuses"][0].clone();
    cluster["schedulers"][1]["status"]["containerStatuses"] = json!([]);
    assert_eq!(step(&cluster), "the new pod is there; its container is not created yet");
    let mut with = |state: Value, ready: bool| {
        let mut status = status.clone();
        (status["state"], status["ready"]) = (state, ready.into());
        cluster["schedulers"][1]["status"]["containerStatuses"] = json!([status]);
        step(&cluster)
    };
    assert!(with(json!({"waiting": {"reason": "ContainerCreating"}}), false).contains("creates the container"));
    let pull = with(json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}}), false);
    assert_eq!(pull, "the container does not start: ErrImagePull: not found");
    assert!(with(json!({"running": {}}), false).contains("the image is pulled"));
    assert!(with(json!({"running": {}}), true).contains("settling"));
    assert!(with(json!({"terminated": {"exitCode": 1}}), false).contains("exit code 1"));
}

#[test]
fn an_extender_that_a_node_cannot_reach_stands_below_the_table_and_changes_no_verdict() {
    let mut cluster = cluster();
    says(&mut cluster, "extenders-unreachable", "http://127.0.0.1:8889");
    let fleet = judge(&answers(&cluster));
    assert!(fleet.proven);
    assert!(show(&fleet).contains("extenders   cp2: cannot reach http://127.0.0.1:8889\n"), "{}", show(&fleet));
    assert_eq!(judged(&cluster)["nodes"][1]["extendersUnreachable"], "http://127.0.0.1:8889");
}

#[test]
fn sources_of_the_environment_stand_on_lines_as_the_program_reads_them() {
    let mut cluster = cluster();
    let container = &mut cluster["set"]["spec"]["template"]["spec"]["containers"][0];
    let args = container["args"].as_array().expect("a list").clone();
    let (sources, others): (Vec<_>, Vec<_>) =
        args.into_iter().partition(|word| word.as_str().is_some_and(|word| word.starts_with("--source")));
    let dirs: Vec<_> = sources.iter().filter_map(|word| word.as_str()?.strip_prefix("--source=")).collect();
    assert!(!dirs.is_empty(), "{sources:?}");
    let expected = wanted(&cluster);
    let container = &mut cluster["set"]["spec"]["template"]["spec"]["containers"][0];
    container["args"] = others.into();
    let lines = dirs.join("\n") + "\n";
    container["env"].as_array_mut().expect("a list").push(json!({"name": "SCHEDPATCH_SOURCE", "value": lines}));
    assert_eq!(wanted(&cluster), expected);
}
