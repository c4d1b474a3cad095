//! Prometheus down, slow, lying: nodes become neutral, nothing becomes an error.

use std::fmt::Write as _;
use std::time::Duration;

use crate::stage::{Behaviour, Prometheus, Stage, certificate, config, vector};

#[tokio::test]
async fn values_count_until_they_are_stale_and_then_every_node_is_neutral() {
    let stage = Stage::new("staleAfter: 2s, avoidAbove: 0.8").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    assert_eq!(stage.get("/readyz").await.0, 200);
    for behaviour in [
        Behaviour::Hangs,
        Behaviour::Breaks,
        Behaviour::Says(500, "oh".to_owned()),
        Behaviour::Says(401, String::new()),
        Behaviour::Says(302, String::new()),
        Behaviour::Says(200, "<html>".to_owned()),
        Behaviour::Says(400, r#"{"status":"error","error":"parse error"}"#.to_owned()),
    ] {
        stage.prometheus.set(behaviour.clone());
        tokio::time::sleep(Duration::from_millis(400)).await;
        assert_eq!(stage.points(&["a", "b", "c"]).await, [10, 0, 5], "the last values count: {behaviour:?}");
        stage.expect_points(&["a", "b", "c"], &[5, 5, 5]).await;
        let (status, text) = stage.get("/readyz").await;
        assert!(status == 503 && text.contains("cpu: "), "{behaviour:?}: {text}");
        let body = br#"{"Pod":{"metadata":{"namespace":"n"}},"NodeNames":["b"]}"#;
        assert!(stage.post("/filter", body).await.1.contains(r#""NodeNames":["b"]"#), "a stale value refuses nobody");
        stage.prometheus.values(&[("a", "0.1"), ("b", "0.9"), ("c", "0.5")]);
        stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    }
    let (_, text) = stage.get("/metrics").await;
    assert!(text.contains(r#"schedpatch_extender_query_failures_total{policy="cpu"}"#), "{text}");
    assert!(text.contains(r#"schedpatch_extender_neutral_nodes_total{policy="cpu"}"#), "{text}");
}

#[tokio::test]
async fn an_answer_that_comes_late_or_in_drips_counts_if_it_is_there_in_time() {
    let series = [("a", "0.9"), ("b", "0.1")]
        .map(|(node, value)| format!(r#"{{"metric":{{"node":"{node}"}},"value":[1,"{value}"]}}"#));
    let body = vector(&series.join(","));
    let prometheus = Prometheus::start().await;
    let text =
        config(&format!("http://{}", prometheus.address), "staleAfter: 4s").replace("timeout: 300ms", "timeout: 2s");
    let stage = Stage::with(prometheus, &text, None).await;
    let (in_time, too_late) = (Duration::from_millis(600), Duration::from_secs(4));
    for (slow, slower) in [
        (Behaviour::Late(in_time, body.clone()), Behaviour::Late(too_late, body.clone())),
        (Behaviour::Drips(in_time, body.clone()), Behaviour::Drips(too_late, body.clone())),
    ] {
        stage.prometheus.values(&[("a", "0.1"), ("b", "0.9")]);
        stage.expect_points(&["a", "b"], &[10, 0]).await;
        stage.prometheus.set(slow);
        stage.expect_points(&["a", "b"], &[0, 10]).await;
        stage.prometheus.set(slower);
        for _ in 0..200 {
            let body = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":["a","b"]}"#;
            let asked = tokio::time::timeout(Duration::from_secs(1), stage.post("/filter", body)).await;
            assert_eq!(asked.expect("the scheduler does not wait for Prometheus").0, 200);
            if stage.get("/readyz?verbose").await.1.contains("no answer from Prometheus in 2s") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let (_, said) = stage.get("/readyz?verbose").await;
        assert!(said.contains("no answer from Prometheus in 2s"), "{said}");
    }
}

#[tokio::test]
async fn nobody_listens_where_prometheus_should_be() {
    let prometheus = Prometheus::start().await;
    let stage = Stage::with(prometheus, &config("http://127.0.0.1:1", ""), None).await;
    assert_eq!(stage.points(&["a", "b"]).await, [5, 5]);
    for _ in 0..50 {
        let (status, text) = stage.get("/readyz").await;
        assert_eq!(status, 503);
        if text.contains("cannot connect to 127.0.0.1:1") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the reason is not told");
}

#[tokio::test]
async fn nan_infinity_missing_and_duplicate_series_are_neutral_or_the_worse() {
    let stage = Stage::new("").await;
    stage.prometheus.values(&[("a", "NaN"), ("b", "+Inf"), ("c", "0.5"), ("c", "0.9"), ("d", "0.1"), ("e", "-Inf")]);
    stage.expect_points(&["a", "b", "c", "d", "e", "new"], &[5, 5, 0, 10, 5, 5]).await;
    let (_, text) = stage.get("/metrics").await;
    for line in [
        r#"schedpatch_extender_series{policy="cpu"} 6.0"#,
        r#"schedpatch_extender_series_not_a_number{policy="cpu"} 3.0"#,
        r#"schedpatch_extender_series_duplicate{policy="cpu"} 1.0"#,
        r#"schedpatch_extender_nodes{policy="cpu"} 2.0"#,
    ] {
        assert!(text.contains(line), "{line} is missing in\n{text}");
    }
}

#[tokio::test]
async fn the_clock_of_prometheus_does_not_matter() {
    // the age of a value counts from its answer, by a clock that nobody sets
    let stage = Stage::new("staleAfter: 2s").await;
    for time in ["0", "-1", "1e18", "253402300800.5"] {
        let series = [("a", "0.1"), ("b", "0.9"), ("c", "0.5")]
            .map(|(node, value)| format!(r#"{{"metric":{{"node":"{node}"}},"value":[{time},"{value}"]}}"#));
        stage.prometheus.values(&[("a", "0.5"), ("b", "0.5"), ("c", "0.5")]);
        stage.expect_points(&["a", "b", "c"], &[5, 5, 5]).await;
        stage.prometheus.set(Behaviour::Says(200, vector(&series.join(","))));
        stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
        tokio::time::sleep(Duration::from_millis(2500)).await;
        assert_eq!(stage.points(&["a", "b", "c"]).await, [10, 0, 5], "fresh answers count, at time {time}");
    }
}

#[tokio::test]
async fn prometheus_is_verified_by_its_ca_and_sees_the_clients_certificate() {
    let prometheus = Prometheus::start_with_tls().await;
    prometheus.values(&[("a", "0.1"), ("b", "0.9")]);
    let certificate = |name: &str| certificate(name).display().to_string();
    let port = prometheus.address.port();
    let own = format!("clientCertificateFile: {}, clientKeyFile: {}", certificate("two.crt"), certificate("two.key"));
    for (ca, own, why) in
        [("ca.crt", own.as_str(), ""), ("ca.crt", "", "ertificate"), ("two.crt", own.as_str(), "ertificate")]
    {
        let comma = if own.is_empty() { "" } else { ", " };
        let url = format!("https://127.0.0.1:{port}', caFile: {}{comma}{own}, x: '", certificate(ca));
        let text = config(&url, "").replace(", x: ''", "");
        let stage = Stage::with(prometheus.clone(), &text, None).await;
        if why.is_empty() {
            stage.expect_points(&["a", "b"], &[10, 0]).await;
            continue;
        }
        let mut said = String::new();
        for _ in 0..100 {
            said = stage.get("/readyz").await.1;
            if said.contains("cpu: ") {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        assert!(said.contains(why), "{ca} and {own:?}: {said}");
        assert_eq!(stage.points(&["a", "b"]).await, [5, 5], "nothing that is not verified counts");
    }
}

#[tokio::test]
async fn a_hundred_thousand_series_are_read_while_the_scheduler_is_answered() {
    let prometheus = Prometheus::start().await;
    let mut series = String::new();
    for number in 0..100_000 {
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(
            series,
            r#"{comma}{{"metric":{{"__name__":"x","instance":"10.0.0.1:9100","job":"node","node":"n{}","app":"a{}"}},"value":[1435781451.781,"0.{number}"]}}"#,
            number % 5000,
            number / 5000
        );
    }
    prometheus.set(Behaviour::Says(200, vector(&series)));
    let url = format!("http://{}", prometheus.address);
    let text = config(&url, "match: {app: labels.app}").replace("timeout: 300ms", "timeout: 20s");
    let stage = Stage::with(prometheus, &text, None).await;
    let (mut worst, mut is_known) = (Duration::ZERO, false);
    for _ in 0..600 {
        let body = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":["n1","n2","n3"]}"#;
        let began = std::time::Instant::now();
        assert_eq!(stage.post("/filter", body).await.0, 200);
        worst = worst.max(began.elapsed());
        let text = stage.get("/metrics").await.1;
        if text.contains(r#"schedpatch_extender_nodes{policy="cpu"} 5000.0"#) {
            is_known = true;
            break;
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(is_known, "the series were not read");
    assert!(worst < Duration::from_secs(1), "the scheduler, whose timeout is 1 s, waited {worst:?} for the reading");
}

#[tokio::test]
async fn queries_carry_credentials_and_promql_as_a_form() {
    let prometheus = Prometheus::start().await;
    prometheus.values(&[("a", "1")]);
    let dir = crate::stage::scratch();
    std::fs::write(dir.join("token"), "t0p-secret\n").expect("written");
    std::fs::write(dir.join("basic"), "user:pa ss\n").expect("written");
    for (name, file, header) in
        [("bearerTokenFile", "token", "Bearer t0p-secret"), ("basicAuthFile", "basic", "Basic dXNlcjpwYSBzcw==")]
    {
        let url = format!("http://{}/prefix/', {name}: '{}", prometheus.address, dir.join(file).display());
        prometheus.requests.lock().expect("unpoisoned").clear();
        let stage = Stage::with(
            prometheus.clone(),
            &config(&url, "").replace("query: up", "query: 'sum by (node) (a + b)'"),
            None,
        )
        .await;
        stage.expect_points(&["a"], &[5]).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
        let requests = prometheus.requests.lock().expect("unpoisoned").clone();
        let first = requests.first().expect("it was asked");
        assert!(first.starts_with("POST /prefix/api/v1/query HTTP/1.1") && first.contains(header), "{first}");
        assert!(first.contains("query=sum%20by%20%28node%29%20%28a%20%2B%20b%29&timeout=300ms"), "{first}");
    }
}
