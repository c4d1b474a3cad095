//! Whether a cluster runs what is wanted.

use super::cluster_objects::{answers, cluster, gaps, judged, says};
use schedpatch::finding::Finding;
use schedpatch::fleet::{ClusterObjects, judge};
use serde_json::{Value, json};

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
        "the API or the scheduler could not be asked",
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
