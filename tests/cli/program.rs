//! Runs the real program on golden hosts.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

pub const CASE: &str = "tests/golden/kubeadm-1.36";

pub fn schedpatch(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(args)
        .output()
        .expect("the program runs")
}

pub fn plan(more: &[&str]) -> Output {
    let (host, source) = (format!("{CASE}/host"), format!("{CASE}/source"));
    let args = [&["plan", "--host-root", &host, "--source", &source], more].concat();
    schedpatch(&args)
}

pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// A host of its own with one manifest, and a source.
pub fn host(name: &str, manifest: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    let _ = fs::remove_dir_all(&root);
    let manifests = root.join("host/etc/kubernetes/manifests");
    fs::create_dir_all(&manifests).expect("a directory");
    fs::write(manifests.join("kube-scheduler.yaml"), manifest).expect("a file");
    root
}

pub fn good_manifest() -> String {
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
    fs::read_to_string(path).expect("the golden manifest")
}

pub fn plan_on(root: &Path, more: &[&str]) -> Output {
    let host = root.join("host").display().to_string();
    let source = format!("{CASE}/source");
    schedpatch(&[&["plan", "-o", "json", "--host-root", &host, "--source", &source], more].concat())
}

pub fn first_rule(output: &Output) -> String {
    json(output)["findings"][0]["rule"].as_str().unwrap_or_default().to_owned()
}

/// A kubeconfig whose API server is at a port that nobody listens on.
pub fn kubeconfig(name: &str) -> String {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(name);
    fs::create_dir_all(&dir).expect("a directory");
    let port = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address").port();
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: here\n\
         contexts: [{{name: here, context: {{cluster: c, user: u}}}}, {{name: there, context: {{cluster: c, user: u}}}}]\n\
         clusters: [{{name: c, cluster: {{server: 'https://127.0.0.1:{port}', insecure-skip-tls-verify: true}}}}]\n\
         users: [{{name: u, user: {{token: x}}}}]\n"
    );
    let file = dir.join("config");
    fs::write(&file, text).expect("a file");
    file.display().to_string()
}
