//! Clients and a Prometheus that mean harm, or behave as if they did.

use std::time::Duration;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::stage::{Behaviour, Prometheus, Stage, config, replace, request, scratch};

const REQUEST: &[u8] = br#"{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"}},"NodeNames":["b","a"]}"#;

/// The scheduler asks as ever; its timeout is one second.
async fn expect_answer(stage: &Stage) {
    let asked = tokio::time::timeout(Duration::from_secs(1), stage.post("/filter", REQUEST)).await;
    assert_eq!(asked.expect("the scheduler does not wait").0, 200);
}

#[tokio::test]
async fn open_connections_and_slow_headers_do_not_lock_the_scheduler_out() {
    let stage = Stage::new("avoidAbove: 0.8").await;
    let mut held = Vec::new();
    for number in 0..300 {
        let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
        let words: &[&[u8]] =
            &[b"", b"POST /filter HTTP/1.1\r\nx", b"POST /filter HTTP/1.1\r\ncontent-length: 99\r\n\r\n{"];
        let _ = stream.write_all(words[number % 3]).await;
        held.push(stream);
    }
    expect_answer(&stage).await;
}

#[tokio::test]
async fn long_bodies_that_never_come_do_not_make_the_scheduler_wait() {
    let stage = Stage::new("avoidAbove: 0.8").await;
    let mut held = Vec::new();
    for _ in 0..4 {
        let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
        stream.write_all(b"POST /filter HTTP/1.1\r\nhost: x\r\ncontent-length: 130000000\r\n\r\n").await.expect("sent");
        held.push(stream);
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    expect_answer(&stage).await;
    for stream in &mut held {
        // more than a request has without asking
        stream.write_all(&vec![b' '; 2_000_000]).await.expect("sent");
    }
    tokio::time::sleep(Duration::from_millis(200)).await;
    expect_answer(&stage).await;
}

#[tokio::test]
async fn a_pod_that_could_be_none_is_judged_and_not_remembered() {
    let stage = Stage::new("avoidAbove: 0.05, whenAllExceed: reject").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    for (namespace, name, waiting) in
        [("n", "..", 0), ("../..", "p", 0), ("n", "p/status", 0), ("", "p", 0), ("n", "p", 1)]
    {
        let pod = format!(r#"{{"metadata":{{"name":"{name}","namespace":"{namespace}","uid":"u-{name}"}}}}"#);
        let body = format!(r#"{{"Pod":{pod},"NodeNames":["a"]}}"#);
        assert!(stage.post("/filter", body.as_bytes()).await.1.contains(r#""NodeNames":[]"#), "{namespace}/{name}");
        let metrics = stage.get("/metrics").await.1;
        assert!(metrics.contains(&format!("schedpatch_extender_waiting_pods {waiting}.0")), "{namespace}/{name}");
    }
}

#[tokio::test]
async fn methods_paths_and_pipelined_requests_are_answered_in_order() {
    let stage = Stage::new("").await;
    stage.expect_points(&["a", "b"], &[10, 0]).await;
    let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
    let post = format!("POST /prioritize HTTP/1.1\r\nhost: x\r\ncontent-length: {}\r\n\r\n", REQUEST.len());
    let one = [post.as_bytes(), REQUEST].concat();
    let rest = b"HEAD /metrics HTTP/1.1\r\nhost: x\r\n\r\nGET /livez HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(&[&one[..], &one, rest].concat()).await.expect("sent");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("answered");
    assert_eq!(text.matches(r#"[{"Host":"b","Score":0},{"Host":"a","Score":10}]"#).count(), 2, "{text}");
    assert!(text.matches("HTTP/1.1 200").count() == 4 && text.ends_with("ok\n"), "{text}");
    assert!(!text.contains("# HELP"), "HEAD has no body");
    let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
    for (method, path, status) in [
        ("PUT", "/filter", 405),
        ("DELETE", "/filter", 405),
        ("POST", "/fil%74er", 405),
        ("GET", "/%6detrics", 404),
        ("GET", "/debug/../metrics", 404),
        ("GET", "/explain?pod=n%2Fp", 501),
        ("GET", "/explain?pod=..%2Fp", 400),
        ("GET", "/explain?pod=n%3Fwatch%3D1%2Fp", 400),
        ("GET", "/explain?pod=n%2Fp%2Cspec.nodeName%21%3D", 400),
        ("GET", "/explain?pod=%ff%00%2F%2F", 400),
    ] {
        assert_eq!(request(&mut stream, method, path, b"").await.0, status, "{method} {path}");
    }
}

#[tokio::test]
async fn bodies_that_are_not_utf8_or_quote_themselves_get_a_short_answer() {
    let stage = Stage::new("").await;
    let long = format!(r#"{{"Pod":"{}"}}"#, "x".repeat(5_000_000));
    let strings: [&[u8]; 4] = [
        b"{\"NodeNames\":[\"\xff\xfe\"]}",
        b"{\"Nodes\":{\"items\":[{\"metadata\":{\"name\":\"a\",\"x\":\"\xff\"}}]}}",
        br#"{"NodeNames":["\ud800"]}"#,
        long.as_bytes(),
    ];
    for body in strings {
        let (status, text) = stage.post("/filter", body).await;
        assert!(status == 400 && text.len() < 500, "{status}, {} bytes", text.len());
    }
    let deep = format!(r#"{{"Pod":{{"spec":{}{}}},"NodeNames":["a"]}}"#, "[".repeat(100_000), "]".repeat(100_000));
    assert_eq!(stage.post("/filter", deep.as_bytes()).await.0, 200, "what is skipped may be deep");
}

#[tokio::test]
async fn a_prometheus_that_sends_credentials_or_megabytes_back_does_not_get_them_logged() {
    let prometheus = Prometheus::start().await;
    let dir = scratch();
    std::fs::write(dir.join("token"), "t0p-secret\n").expect("written");
    let url = format!("http://{}/', bearerTokenFile: '{}", prometheus.address, dir.join("token").display());
    let stage = Stage::with(prometheus, &config(&url, ""), None).await;
    let long = "x".repeat(3_000_000);
    for (status, body) in [
        (500, "you sent Authorization: Bearer t0p-secret".to_owned()),
        (400, r#"{"status":"error","error":"bad header Authorization: Bearer t0p-secret"}"#.to_owned()),
        (200, r#"{"status":"success","data":{"resultType":"Bearer t0p-secret","result":[]}}"#.to_owned()),
        (200, r#"{"status":"success","data":"Bearer t0p-\u0073ecret"}"#.to_owned()),
        (200, format!(r#"{{"status":"error","error":"{long}"}}"#)),
        (200, format!(r#"{{"status":"success","data":{{"resultType":"{long}","result":[]}}}}"#)),
        (200, format!(r#"{{"status":"success","data":"{long}"}}"#)),
    ] {
        stage.prometheus.set(Behaviour::Says(status, body));
        tokio::time::sleep(Duration::from_millis(1600)).await;
        let (status, text) = stage.get("/readyz").await;
        assert!(status == 503 && text.contains("cpu: ") && text.len() < 1000, "{status}, {} bytes", text.len());
        assert!(!text.contains("t0p-secret"), "{text}");
    }
    stage.prometheus.set(Behaviour::Moves("http://admin:hunter2@elsewhere:9090/".to_owned()));
    tokio::time::sleep(Duration::from_millis(1600)).await;
    let (_, text) = stage.get("/readyz").await;
    assert!(text.contains("elsewhere:9090") && !text.contains("hunter2"), "{text}");
    for page in ["/debug/decisions", "/metrics", "/explain"] {
        assert!(!stage.get(page).await.1.contains("t0p-secret"), "{page}");
    }
}

#[tokio::test]
async fn an_answer_without_end_counts_as_none() {
    let stage = Stage::new("staleAfter: 2s").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    stage.prometheus.set(Behaviour::Floods);
    stage.expect_points(&["a", "b", "c"], &[5, 5, 5]).await;
    let (_, text) = stage.get("/readyz").await;
    assert!(text.contains("more than 50331648 bytes") || text.contains("no answer from Prometheus in"), "{text}");
    stage.prometheus.values(&[("a", "0.1"), ("b", "0.9"), ("c", "0.5")]);
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
}

#[tokio::test]
async fn a_changed_file_counts_although_prometheus_hangs() {
    let prometheus = Prometheus::start().await;
    let text = config(&format!("http://{}", prometheus.address), "").replace("timeout: 300ms", "timeout: 60s");
    let stage = Stage::with(prometheus, &text, None).await;
    tokio::time::sleep(Duration::from_millis(200)).await;
    assert_ne!(stage.post("/prioritize", REQUEST).await.1, "[]");
    replace(&stage.file, format!("{text}pods: {{exemptNamespaces: [n]}}\n").as_bytes());
    for _ in 0..100 {
        if stage.post("/prioritize", REQUEST).await.1 == "[]" {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the changed file does not count after 5 s");
}
