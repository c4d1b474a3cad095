//! The program itself: commands, exit codes, what they print.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Command, Output};

const POLICIES: &str =
    "policies:\n- {name: cpu, query: up, prefer: lower, range: {from: 0, to: 1}, avoidAbove: 0.8, staleAfter: 20s}\n";

fn run(words: &[&str]) -> (Option<i32>, String, String) {
    let Output { status, stdout, stderr } =
        Command::new(env!("CARGO_BIN_EXE_schedpatch-extender")).args(words).output().expect("it runs");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (status.code(), text(stdout), text(stderr))
}

fn file(name: &str, url: &str, policies: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("schedpatch-extender-cli-{}-{name}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("made");
    let file = dir.join("extender.yaml");
    std::fs::write(&file, format!("prometheus: {{url: '{url}'}}\n{policies}")).expect("written");
    file
}

/// A Prometheus that gives one answer to every question, and the URL where it does.
fn prometheus(series: &'static str) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = listener.local_addr().expect("bound");
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut request = [0; 4096];
            let _ = stream.read(&mut request);
            let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
            let head = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {}\r\n\r\n", body.len());
            let _ = stream.write_all((head + &body).as_bytes());
        }
    });
    format!("http://{address}")
}

#[test]
fn check_tells_right_files_from_wrong_ones_and_warns_of_doubtful_ones() {
    let right = file("right", "http://p:9090", POLICIES);
    let (code, said, _) = run(&["check", right.to_str().expect("text")]);
    assert!(code == Some(0) && said.contains("valid. Policies: 1; with a threshold: 1"), "{said}");
    assert!(said.contains("warning: cpu: staleAfter (20s) is less than two intervals (15s)"), "{said}");
    let wrong = file("wrong", "http://p:9090", &POLICIES.replace("prefer: lower", "prefer: lowest"));
    let (code, said, error) = run(&["check", wrong.to_str().expect("text")]);
    assert!(code == Some(1) && said.is_empty(), "{said}");
    assert!(error.contains("extender.yaml:3: ") && error.contains("lowest"), "{error}");
    let (code, _, error) = run(&["check", "/nowhere/extender.yaml"]);
    assert!(code == Some(1) && error.contains("/nowhere/extender.yaml"), "{error}");
    assert_eq!(run(&["check"]).0, Some(2));
}

#[test]
fn schema_prints_the_json_schema() {
    let (code, said, _) = run(&["schema"]);
    let schema: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!(code, Some(0));
    assert!(schema["properties"]["policies"].is_object(), "{said}");
}

#[test]
fn simulate_scores_the_nodes_of_a_live_prometheus_without_any_scheduler() {
    let url =
        prometheus(r#"{"metric":{"node":"hot"},"value":[1,"0.95"]},{"metric":{"node":"cool"},"value":[1,"0.2"]}"#);
    let config = file("simulate", "http://nowhere:1", POLICIES);
    let words = ["simulate", "--config", config.to_str().expect("text"), "--prometheus", &url, "--weight", "13"];
    let (code, said, error) = run(&words);
    assert_eq!((code, error.as_str()), (Some(0), ""), "{said}");
    let lines: Vec<&str> = said.lines().collect();
    assert!(lines[1].starts_with("cool") && lines[1].contains("0.2 → 0.80"), "{said}");
    assert!(lines[2].starts_with("hot") && lines[2].contains("cpu is 0.95, above 0.8"), "{said}");
    assert!(said.contains("at most 1300"), "{said}");
    let (code, said, _) = run(&[&words[..], &["-o", "json"]].concat());
    let said: serde_json::Value = serde_json::from_str(&said).expect("JSON");
    assert_eq!((code, &said["nodes"][0]["node"], &said["nodes"][0]["points"]), (Some(0), &"cool".into(), &10.into()));
    let (code, said, _) = run(&[&words[..], &["-n", "kube-system"]].concat());
    assert!(code == Some(0) && said.contains("exempt (namespace)"), "{said}");
    let (code, _, error) = run(&words[..3]);
    assert!(code == Some(1) && error.contains("cpu: "), "a Prometheus that does not answer is an error: {error}");
}

#[test]
fn explain_names_the_way_if_nobody_answers() {
    let (code, _, error) = run(&["explain", "web-0", "--server", "127.0.0.1:1"]);
    assert!(code == Some(1) && error.contains("kubectl exec"), "{error}");
}
