//! Beside an API server: explanations of pods, waiting pods that are woken, nodes that are followed while they are needed.

use std::time::Duration;

use crate::cluster::Cluster;
use crate::stage::{Prometheus, Stage, config, replace};

async fn stage(cluster: &Cluster, policy: &str) -> Stage {
    let prometheus = Prometheus::start().await;
    prometheus.values(&[("a", "0.1"), ("b", "0.9"), ("c", "0.5")]);
    let text = config(&format!("http://{}", prometheus.address), policy);
    Stage::with_api(prometheus, &text, cluster.serve().await).await
}

/// The scheduler asks for the pod `web`.
async fn ask(stage: &Stage, verb: &str, uid: &str) -> String {
    let body =
        format!(r#"{{"Pod":{{"metadata":{{"name":"web","namespace":"n","uid":"{uid}"}}}},"NodeNames":["a","b","c"]}}"#);
    stage.post(verb, body.as_bytes()).await.1
}

async fn metric(stage: &Stage, name: &str) -> f64 {
    let text = stage.get("/metrics").await.1;
    let lines = text.lines().filter(|line| line.starts_with(name));
    lines.filter_map(|line| line.rsplit(' ').next()?.parse::<f64>().ok()).sum()
}

/// Waits until a metric has this value.
async fn expect_metric(stage: &Stage, name: &str, value: f64) {
    for _ in 0..200 {
        if (metric(stage, name).await - value).abs() < 0.5 {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{name} is {}, not {value}", metric(stage, name).await);
}

#[tokio::test]
async fn explain_says_what_the_scheduler_made_of_the_answer_for_this_very_pod() {
    let cluster = Cluster::default();
    let stage = stage(&cluster, "avoidAbove: 0.8").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    assert_eq!(stage.get("/explain?pod=n/web").await.0, 404);
    cluster.set_pod("web", "new", "b");
    let not_asked = "It was bound to b. The scheduler did not ask this extender for points";
    for asked_for in [None, Some("old")] {
        if let Some(uid) = asked_for {
            ask(&stage, "/filter", uid).await;
            ask(&stage, "/prioritize", uid).await;
        }
        let (status, said) = stage.get("/explain?pod=n/web").await;
        assert!(status == 200 && said.contains(not_asked), "another pod had this name before: {said}");
        assert!(!said.contains("nodes were refused") && said.contains("has not asked for this pod lately"), "{said}");
    }
    ask(&stage, "/filter", "new").await;
    ask(&stage, "/prioritize", "new").await;
    for (node, words) in [
        ("", "the scheduler asked for points of 3 nodes"),
        ("a", "It was bound to a, which had the most points (10)"),
        ("b", "while the best had 10: 500 more from the scheduler's own plugins outweighed the difference"),
        ("elsewhere", "It was bound to elsewhere; at "),
    ] {
        cluster.set_pod("web", "new", node);
        let (_, said) = stage.get("/explain?pod=n/web").await;
        assert!(said.contains(words), "bound to {node:?}: {said}");
        assert!(said.contains("When the scheduler asked last, 1 nodes were refused."), "{said}");
        assert!(said.contains("Shown: the 3 nodes that the scheduler asked for at "), "{said}");
    }
}

#[tokio::test]
async fn a_pod_that_an_admission_policy_protects_is_not_taken_for_another_one() {
    for code in [422, 409] {
        let cluster = Cluster::default();
        cluster.set_patch_code(code);
        cluster.set_pod("web", "u", "");
        let stage = stage(&cluster, "avoidAbove: 0.05, whenAllExceed: reject").await;
        stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
        let refused = ask(&stage, "/filter", "u").await;
        assert!(refused.contains(r#""NodeNames":[]"#), "{refused}");
        stage.prometheus.values(&[("a", "0.01"), ("b", "0.9"), ("c", "0.5")]);
        expect_metric(&stage, r#"schedpatch_extender_woken_pods_total{result="failed"}"#, 1.0).await;
        assert!(cluster.count("GET /api/v1/namespaces/n/pods/web") > 0, "{code}: it is looked up");
        expect_metric(&stage, "schedpatch_extender_waiting_pods", 1.0).await;
    }
}

#[tokio::test]
async fn a_pod_whose_name_another_one_has_is_forgotten() {
    let cluster = Cluster::default();
    cluster.set_patch_code(422);
    cluster.set_pod("web", "another", "");
    let stage = stage(&cluster, "avoidAbove: 0.05, whenAllExceed: reject").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    ask(&stage, "/filter", "u").await;
    expect_metric(&stage, "schedpatch_extender_waiting_pods", 1.0).await;
    stage.prometheus.values(&[("a", "0.01"), ("b", "0.9"), ("c", "0.5")]);
    expect_metric(&stage, "schedpatch_extender_waiting_pods", 0.0).await;
    let failed = metric(&stage, r#"schedpatch_extender_woken_pods_total{result="failed"}"#).await;
    assert!(failed < 0.5 && cluster.count("PATCH ") == 1, "{failed} failures, {} patches", cluster.count("PATCH "));
}

#[tokio::test]
async fn nodes_are_followed_only_while_a_policy_needs_them() {
    let cluster = Cluster::default();
    cluster.add_node("a", "10.0.0.1");
    cluster.add_node("b", "10.0.0.2");
    let stage = stage(&cluster, "node: {is: internalIP}").await;
    stage.prometheus.values(&[("10.0.0.1:9100", "0.1"), ("10.0.0.2:9100", "0.9")]);
    stage.expect_points(&["a", "b"], &[10, 0]).await;
    // the chart takes the permission away together with the need
    let url = format!("http://{}", stage.prometheus.address);
    replace(&stage.file, config(&url, "").as_bytes());
    stage.prometheus.values(&[("a", "0.1"), ("b", "0.5"), ("joined-later", "0.9")]);
    stage.expect_points(&["a", "b", "joined-later"], &[10, 5, 0]).await;
    cluster.hide_nodes();
    let before = cluster.count("GET /api/v1/nodes");
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert_eq!(cluster.count("GET /api/v1/nodes"), before, "nobody asks for nodes any more");
}
