//! What the agent tells, from outside: log lines, metrics and answers, as documented.

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// An agent on a host tree of its own, without any cluster.
struct Running {
    child: Child,
    dir: PathBuf,
    lines: BufReader<std::process::ChildStderr>,
    address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Running {
    fn start(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("telling").join(name);
        let _ = fs::remove_dir_all(&dir);
        let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
        let manifests = dir.join("host/etc/kubernetes/manifests");
        for made in [&manifests, &dir.join("host/var/lib"), &dir.join("source")] {
            fs::create_dir_all(made).expect("a directory");
        }
        let manifest = "kube-scheduler.yaml";
        fs::copy(examples.join("host/etc/kubernetes/manifests").join(manifest), manifests.join(manifest))
            .expect("copied");
        fs::copy(examples.join("source/config.yaml"), dir.join("source/config.yaml")).expect("copied");
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
            .args(["run", "--standalone", "--log-format", "json", "--listen", "127.0.0.1:0"])
            .arg("--host-root")
            .arg(dir.join("host"))
            .arg("--source")
            .arg(dir.join("source"))
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("its log"));
        let mut running = Self { child, dir, lines, address: String::new() };
        let first = running.line();
        first["listen"].as_str().expect("where it listens").clone_into(&mut running.address);
        running
    }

    /// The next line of its log.
    fn line(&mut self) -> serde_json::Value {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        serde_json::from_str(&line).unwrap_or_else(|error| panic!("{line}: {error}"))
    }

    fn wait_for(&mut self, phase: &str) -> serde_json::Value {
        loop {
            let line = self.line();
            if line["phase"] == phase {
                return line;
            }
        }
    }

    /// Asks once the endpoint is at this phase too: the line is logged an instant before.
    fn ask_once_in(&self, phase: &str, path: &str) -> (u16, String) {
        for _ in 0..40 {
            if self.ask("/readyz").1.starts_with(phase) {
                break;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        self.ask(path)
    }

    fn ask(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(stream, "GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").expect("asked");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("answered");
        let code = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        (code, answer.split_once("\r\n\r\n").map(|(_, body)| body.to_owned()).unwrap_or_default())
    }
}

#[test]
fn a_phase_line_has_exactly_the_documented_fields() {
    let mut agent = Running::start("lines");
    let line = agent.wait_for("Unknown");
    let fields: BTreeSet<&str> = line.as_object().expect("an object").keys().map(String::as_str).collect();
    let expected = ["timestamp", "level", "message", "phase", "reason", "revision", "generation", "digest"];
    assert_eq!(fields, BTreeSet::from(expected));
    let text = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operate/logs.md")).expect("there");
    for field in expected {
        assert!(text.contains(&format!("| `{field}` |")), "{field} is not in docs/operate/logs.md");
    }
}

#[test]
fn every_metric_is_documented_and_nothing_else() {
    let mut agent = Running::start("metrics");
    agent.wait_for("Unknown");
    let (code, body) = agent.ask_once_in("Unknown", "/metrics");
    assert_eq!(code, 200);
    let told: BTreeSet<&str> = body
        .lines()
        .filter_map(|line| line.strip_prefix("# TYPE "))
        .filter_map(|line| line.split(' ').next())
        .collect();
    let text =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/operate/metrics.md")).expect("there");
    let names =
        text.lines().filter_map(|line| line.strip_prefix("| `")).filter_map(|line| line.split(['{', '`']).next());
    // nothing is proven without a cluster
    let documented: BTreeSet<&str> = names.filter(|name| !name.contains("_proof_")).collect();
    assert_eq!(told, documented);
    assert!(body.contains("schedpatch_phase{phase=\"Unknown\"} 1\n"), "{body}");
    assert!(body.contains("schedpatch_extender_reachable{url=\"http://127.0.0.1:8889\"} "), "{body}");
}

#[test]
fn the_endpoint_tells_why_and_refuses_what_it_does_not_know() {
    let mut agent = Running::start("endpoint");
    agent.wait_for("Unknown");
    assert_eq!(agent.ask("/livez").0, 200);
    assert_eq!(agent.ask("/healthz").0, 200);
    let (code, body) = agent.ask_once_in("Unknown", "/readyz?verbose");
    assert_eq!(code, 503, "nothing is proven");
    assert!(
        body.contains("[-] phase Unknown\n") && body.ends_with("Unknown: NobodyToAsk: verification is switched off\n"),
        "{body}"
    );
    assert_eq!(agent.ask("/").0, 404);
}

#[test]
fn sources_manifest_and_hold_wake_it_and_its_own_writes_do_not() {
    let mut agent = Running::start("watched");
    let first = agent.wait_for("Unknown");
    let (host, source) = (agent.dir.join("host"), agent.dir.join("source/config.yaml"));
    // a ConfigMap is swapped by a rename
    let text = fs::read_to_string(&source).expect("there").replace("8889", "9999");
    fs::write(agent.dir.join("new"), text).expect("written");
    fs::rename(agent.dir.join("new"), &source).expect("swapped");
    let second = agent.wait_for("Unknown");
    assert_ne!(first["revision"], second["revision"]);
    // somebody writes the manifest anew
    let manifest = host.join("etc/kubernetes/manifests/kube-scheduler.yaml");
    let original =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
    fs::copy(original, &manifest).expect("overwritten");
    assert_eq!(agent.wait_for("Applying")["reason"], "Drift");
    let third = agent.wait_for("Unknown");
    assert_eq!((&third["revision"], third["generation"].as_u64()), (&second["revision"], Some(3)));
    let turns = turns(&agent);
    std::thread::sleep(Duration::from_millis(500));
    assert_eq!(self::turns(&agent), turns, "its own writes woke it");
    let restored = Command::new(env!("CARGO_BIN_EXE_schedpatch")).arg("restore").arg("--host-root").arg(&host).output();
    assert!(restored.expect("it runs").status.success());
    assert_eq!(agent.wait_for("Restored")["reason"], "Held");
    assert!(!fs::read_to_string(&manifest).expect("there").contains("schedpatch"));
    assert_eq!(agent.ask_once_in("Restored", "/readyz").0, 200);
}

fn turns(agent: &Running) -> String {
    let (_, body) = agent.ask("/metrics");
    body.lines().find(|line| line.starts_with("schedpatch_turns_total")).expect("counted").to_owned()
}

#[test]
fn who_asks_it_to_stop_is_obeyed_at_once() {
    let mut agent = Running::start("stop");
    agent.wait_for("Unknown");
    let asked = Instant::now();
    let pid = agent.child.id().to_string();
    assert!(Command::new("kill").args(["-TERM", &pid]).status().expect("it runs").success());
    assert!(agent.child.wait().expect("it ends").success());
    assert!(asked.elapsed() < Duration::from_secs(2), "{:?}", asked.elapsed());
    let manifest = agent.dir.join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
    assert!(fs::read_to_string(manifest).expect("there").contains("schedpatch.io/revision"), "what is applied stays");
}

#[test]
fn probes_are_answered_within_a_second_while_100_idle_connections_come_each_second() {
    let mut agent = Running::start("idle");
    agent.wait_for("Unknown");
    let address = agent.address.clone();
    let idle = std::thread::spawn(move || {
        // they stay open until the end, as those of a client that never asks
        let mut open = Vec::new();
        for _ in 0..400 {
            open.extend(TcpStream::connect(&address));
            std::thread::sleep(Duration::from_millis(10));
        }
        open.len()
    });
    let mut slowest = Duration::ZERO;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_secs(4) {
        let asked = Instant::now();
        assert_eq!(agent.ask("/livez").0, 200);
        slowest = slowest.max(asked.elapsed());
        assert!(slowest < Duration::from_secs(1), "/livez took {slowest:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
    assert_eq!(idle.join().expect("it ends"), 400);
    println!("slowest answer of /livez: {slowest:?}");
}

#[test]
fn both_digests_are_in_the_verbose_answer() {
    let mut agent = Running::start("digests");
    let line = agent.wait_for("Unknown");
    let digest = line["digest"].as_str().expect("a digest");
    let (_, body) = agent.ask("/readyz?verbose");
    assert!(body.contains(&format!("[-] wanted digest {digest}, verified digest none\n")), "{body}");
}
