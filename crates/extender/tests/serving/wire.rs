//! What kube-scheduler sends, and much more of it.

use std::fmt::Write as _;

use tokio::net::TcpStream;

use crate::stage::{Stage, request};

#[tokio::test]
async fn one_connection_serves_both_verbs_in_both_forms() {
    let stage = Stage::new("avoidAbove: 0.8").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
    let names =
        br#"{"Pod":{"metadata":{"name":"p","namespace":"n","uid":"u"}},"Nodes":null,"NodeNames":["a","b","new"]}"#;
    let (status, text) = request(&mut stream, "POST", "/any/prefix/filter", names).await;
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, &answer["NodeNames"]), (200, &serde_json::json!(["a", "new"])));
    assert_eq!(answer["FailedAndUnresolvableNodes"]["b"], "schedpatch-extender: cpu above 0.8");
    let nodes = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"b"}},{"metadata":{"name":"a"},"spec":{"x":[1,2]}}]},"NodeNames":null}"#;
    let (_, text) = request(&mut stream, "POST", "/filter", nodes).await;
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["Nodes"]["items"], serde_json::json!([{"metadata":{"name":"a"},"spec":{"x":[1,2]}}]));
    assert!(answer["NodeNames"].is_null());
    let (_, text) = request(&mut stream, "POST", "/prioritize", nodes).await;
    assert_eq!(text, r#"[{"Host":"b","Score":0},{"Host":"a","Score":10}]"#);
    let (_, text) = request(&mut stream, "GET", "/debug/decisions", b"").await;
    let decisions: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&decisions[0]["verb"], &decisions[0]["pod"]), (&"prioritize".into(), &"n/p".into()));
    assert_eq!(decisions[0]["answer"]["best"][0]["node"], "a");
    assert_eq!(decisions[1]["answer"]["refused"], 1);
}

#[tokio::test]
async fn exempt_pods_pass_everywhere_and_get_no_points() {
    let stage = Stage::new("avoidAbove: 0.05, whenAllExceed: reject").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let body = br#"{"Pod":{"metadata":{"namespace":"kube-system"}},"NodeNames":["a","b"]}"#;
    let (_, text) = stage.post("/filter", body).await;
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["NodeNames"], serde_json::json!(["a", "b"]));
    assert_eq!(stage.post("/prioritize", body).await, (200, "[]".to_owned()));
    let body = String::from_utf8_lossy(body).replace("kube-system", "n");
    let (_, text) = stage.post("/filter", body.as_bytes()).await;
    let answer: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!(answer["NodeNames"], serde_json::json!([]), "other pods are refused everywhere");
    let (_, text) = stage.get("/metrics").await;
    assert!(text.contains(r#"schedpatch_extender_exempt_total{reason="namespace"} 2.0"#), "{text}");
    assert!(text.contains(r#"schedpatch_extender_refused_nodes_total{policy="cpu"} 2.0"#), "{text}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn sixty_four_megabytes_of_nodes_are_answered_and_more_than_the_limit_is_refused() {
    let stage = Stage::new("avoidAbove: 0.8").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let filler = "x".repeat(12_800);
    let mut body = r#"{"Pod":{"metadata":{"namespace":"n"}},"Nodes":{"items":["#.to_owned();
    for number in 0..5000 {
        let name = ["a", "b", "c"].get(number).map_or_else(|| format!("n{number}"), |name| (*name).to_owned());
        let comma = if number == 0 { "" } else { "," };
        let _ = write!(body, r#"{comma}{{"metadata":{{"name":"{name}","annotations":{{"f":"{filler}"}}}}}}"#);
    }
    body.push_str("]}}");
    assert!(body.len() > 64_000_000);
    let (status, text) = stage.post("/prioritize", body.as_bytes()).await;
    let list: Vec<serde_json::Value> = serde_json::from_str(&text).expect("JSON");
    assert_eq!((status, list.len(), &list[0]["Score"]), (200, 5000, &10.into()));
    let (status, text) = stage.post("/filter", body.as_bytes()).await;
    assert!(status == 200 && text.len() > 63_000_000, "all but b: {}", text.len());
    let mut stream = TcpStream::connect(stage.address).await.expect("it listens");
    let head = b"POST /filter HTTP/1.1\r\nhost: x\r\ncontent-length: 900000000\r\n\r\n";
    tokio::io::AsyncWriteExt::write_all(&mut stream, head).await.expect("sent");
    let mut answer = vec![0; 12];
    tokio::io::AsyncReadExt::read_exact(&mut stream, &mut answer).await.expect("answered");
    assert_eq!(answer, b"HTTP/1.1 413");
}

#[tokio::test]
async fn what_is_no_request_gets_a_clear_answer_and_the_server_goes_on() {
    let stage = Stage::new("").await;
    for body in ["", "{", "[]", "\u{0}", r#"{"NodeNames":{}}"#] {
        let (status, text) = stage.post("/filter", body.as_bytes()).await;
        assert!(status == 400 && text.contains("ExtenderArgs"), "{status} {text}");
    }
    assert_eq!(stage.get("/nowhere").await.0, 404);
    assert_eq!(stage.get("/filter").await.0, 404);
    let deep = "[".repeat(100_000);
    assert_eq!(stage.post("/prioritize", deep.as_bytes()).await.0, 400);
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let body = br#"{"Pod":{"metadata":{"name":"p","namespace":"n"}},"NodeNames":["b","a"]}"#;
    let (status, text) = stage.post("/explain", body).await;
    assert!(status == 200 && text.contains("NODE") && text.contains("points × 50"), "{text}");
}
