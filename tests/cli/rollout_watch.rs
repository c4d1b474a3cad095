//! `schedpatch rollout status --watch` against an API server that goes away for a moment.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use schedpatch::rollout::Record;
use serde_json::json;

/// Answers one request: the Lease, or a list of nodes. `None` where the path is neither.
fn answer(path: &str, is_paused: bool) -> Option<String> {
    let record = Record { paused: is_paused, ..Record::default() }.write().expect("JSON");
    let node = json!({ "metadata": { "name": "cp1", "annotations": { "schedpatch.io/phase": "Ready" } } });
    let body = if path.contains("/leases/") {
        json!({ "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": { "name": "schedpatch-rollout", "annotations": { "schedpatch.io/rollout": record } } })
    } else if path.contains("/nodes") {
        json!({ "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadataList", "metadata": {}, "items": [node] })
    } else {
        return None;
    };
    let body = body.to_string();
    Some(format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\nconnection: close\r\ncontent-length: {}\r\n\r\n{body}",
        body.len()
    ))
}

fn path_of(stream: &mut TcpStream) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !text.ends_with(b"\r\n\r\n") && stream.read(&mut byte).is_ok_and(|count| count == 1) {
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).split(' ').nth(1).unwrap_or_default().to_owned()
}

#[test]
fn a_watch_of_the_rollout_outlives_an_api_that_is_away_for_a_moment() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let port = listener.local_addr().expect("an address").port();
    // three requests are one look; then three connections are cut, and after that the rollout is paused
    let count = Arc::new(AtomicUsize::new(0));
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let Ok(mut stream) = stream else { return };
            let number = count.fetch_add(1, Ordering::SeqCst);
            let path = path_of(&mut stream);
            if !(3..6).contains(&number)
                && let Some(answer) = answer(&path, number >= 6)
            {
                let _ = stream.write_all(answer.as_bytes());
            }
        }
    });
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/rollout-watch");
    fs::create_dir_all(&dir).expect("a directory");
    let file = dir.join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\ncontexts: [{{name: here, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]\nusers: [{{name: u, user: {{token: x}}}}]\n"
    );
    fs::write(&file, text).expect("a file");
    let mut child = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .env_clear()
        .args(["rollout", "status", "--watch", "--kubeconfig"])
        .arg(&file)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let lines = BufReader::new(child.stdout.take().expect("a pipe")).lines();
    let is_paused = lines.map_while(Result::ok).any(|line| line.to_lowercase().contains("paused"));
    child.kill().expect("it runs");
    let mut errors = String::new();
    child.stderr.take().expect("a pipe").read_to_string(&mut errors).expect("text");
    child.wait().expect("it ended");
    assert!(is_paused, "{errors}");
    assert_eq!(errors.matches("trying again").count(), 1, "{errors}");
}
