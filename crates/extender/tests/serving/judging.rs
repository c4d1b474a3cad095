//! Mappings that fit no node, queries that hang beside others, and bursts of pods.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::stage::{Behaviour, Prometheus, Stage, config, vector};

#[tokio::test]
async fn a_mapping_that_fits_no_node_is_told_with_both_sides() {
    let stage = Stage::new("").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let series =
        ["10.0.0.1:9100", "10.0.0.2:9100"].map(|node| format!(r#"{{"metric":{{"node":"{node}"}},"value":[1,"0.5"]}}"#));
    stage.prometheus.set(Behaviour::Says(200, vector(&series.join(","))));
    stage.expect_points(&["a", "b", "c"], &[5, 5, 5]).await;
    let (status, said) = stage.get("/readyz?verbose").await;
    assert_eq!(status, 200, "there are values: {said}");
    for words in ["[-] cpu: ", "nodes like \"a\"", "2 series", "\"10.0.0.1:9100\"", "a node's name", "node.is"] {
        assert!(said.contains(words), "{words} is missing in {said}");
    }
    assert_eq!(stage.get("/readyz").await.1, "ok: at least one policy has fresh values\n");
    let metric = r#"schedpatch_extender_misfit_requests_total{policy="cpu"}"#;
    assert!(stage.get("/metrics").await.1.contains(metric));
    let body = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":["a","b"]}"#;
    let (_, said) = stage.post("/explain", body).await;
    assert!(said.contains("nodes like \"a\"") && said.contains("10.0.0.1:9100"), "{said}");
    // a series without the label fits no node either
    stage.prometheus.set(Behaviour::Says(200, vector(r#"{"metric":{"instance":"a"},"value":[1,"0.5"]}"#)));
    for _ in 0..60 {
        stage.points(&["a", "b"]).await;
        if stage.get("/readyz?verbose").await.1.contains("none of them has the label node") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let (status, said) = stage.get("/readyz?verbose").await;
    assert!(status == 503 && said.contains("none of them has the label node"), "{said}");
    stage.prometheus.values(&[("a", "0.1"), ("b", "0.9"), ("c", "0.5")]);
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let (_, said) = stage.get("/readyz?verbose").await;
    assert!(said.contains("[+] cpu: ") && !said.contains("nodes like"), "{said}");
}

#[tokio::test]
async fn a_policy_that_knows_some_nodes_only_fits() {
    let prometheus = Prometheus::start().await;
    prometheus.values(&[("gpu", "0.1"), ("gpu-2", "0.9")]);
    let text = config(&format!("http://{}", prometheus.address), "");
    let stage = Stage::with(prometheus, &text, None).await;
    stage.expect_points(&["gpu", "gpu-2"], &[10, 0]).await;
    let misfits = || async {
        let text = stage.get("/metrics").await.1;
        text.lines().filter(|line| line.starts_with("schedpatch_extender_misfit_requests_total{")).count()
    };
    assert_eq!(stage.points(&["a", "b"]).await, [5, 5], "pods that want other nodes");
    assert_eq!(stage.points(&["joined"]).await, [5], "a node whose exporter is not up yet");
    let body = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":["a","b"]}"#;
    let (_, said) = stage.post("/explain", body).await;
    assert!(!said.contains("nodes like"), "{said}");
    let (_, said) = stage.get("/readyz?verbose").await;
    assert!(said.contains("[+] cpu: ") && misfits().await == 0, "{said}");
}

#[tokio::test]
async fn values_count_as_soon_as_they_are_there_although_other_queries_hang() {
    let prometheus = Prometheus::start().await;
    prometheus.values(&[("a", "0.1"), ("b", "0.9")]);
    let stuck = |name: &str| format!("- {{name: {name}, query: stuck, prefer: lower}}\n");
    let text = config(&format!("http://{}", prometheus.address), "").replace("timeout: 300ms", "timeout: 60s");
    let text =
        text.replace("- {name: cpu", &format!("{}- {{name: cpu", stuck("first"))) + &stuck("third") + &stuck("fourth");
    let stage = Stage::with(prometheus, &text, None).await;
    stage.expect_points(&["a", "b"], &[10, 0]).await;
}

#[tokio::test]
async fn a_hundred_pods_at_once_spread_before_any_of_them_is_bound() {
    let stage = Stage::new("").await;
    let nodes: Vec<String> = (0..10).map(|number| format!("n{number}")).collect();
    let values: Vec<(&str, String)> =
        nodes.iter().enumerate().map(|(at, node)| (node.as_str(), format!("0.{}", 30 + at))).collect();
    let values: Vec<(&str, &str)> = values.iter().map(|(node, value)| (*node, value.as_str())).collect();
    stage.prometheus.values(&values);
    let names: Vec<&str> = nodes.iter().map(String::as_str).collect();
    for _ in 0..100 {
        if stage.get("/metrics").await.1.contains(r#"schedpatch_extender_nodes{policy="cpu"} 10.0"#) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    // on a slow machine pods that were not seen bound in five seconds count no more, so that it tries again
    for attempt in 0..10 {
        let began = std::time::Instant::now();
        let counts = places_of_a_hundred_pods(&stage, &names, attempt).await;
        if began.elapsed() < Duration::from_secs(4) {
            let most = counts.values().copied().max().expect("some");
            assert!(most <= 25 && counts.len() == 10, "{counts:?}");
            return;
        }
        tokio::time::sleep(Duration::from_secs(5)).await;
    }
    panic!("this machine does not answer a hundred requests within four seconds");
}

/// By node: how many pods kube-scheduler would bind there.
async fn places_of_a_hundred_pods(stage: &Stage, names: &[&str], attempt: usize) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for number in 0..100 {
        let pod =
            serde_json::json!({"metadata": {"name": "p", "namespace": "n", "uid": format!("u{attempt}-{number}")}});
        let body = serde_json::json!({"Pod": pod, "NodeNames": names}).to_string();
        let (_, answer) = stage.post("/prioritize", body.as_bytes()).await;
        let answer: Vec<serde_json::Value> = serde_json::from_str(&answer).expect("JSON");
        let most = answer.iter().map(|one| one["Score"].as_u64()).max().expect("a node");
        let best: Vec<_> = answer.iter().filter(|one| one["Score"].as_u64() == most).collect();
        // of nodes with the same points kube-scheduler takes any
        *counts.entry(best[number * 7 % best.len()]["Host"].as_str().expect("a name").to_owned()).or_default() += 1;
    }
    counts
}
