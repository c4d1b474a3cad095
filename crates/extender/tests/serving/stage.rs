//! A Prometheus of our own, a file, and an extender between them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use schedpatch_extender::run::{Running, Settings, start};
use schedpatch_service::api::Api;
use tokio::io::{
    AsyncBufRead, AsyncBufReadExt as _, AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _, BufReader,
};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

/// How Prometheus answers.
#[derive(Clone, Debug)]
pub enum Behaviour {
    /// With this body and status
    Says(u16, String),
    /// Not at all
    Hangs,
    /// With half an answer
    Breaks,
    /// With a redirection to this place
    Moves(String),
    /// Without end
    Floods,
    /// With this body, after a while
    Late(Duration, String),
    /// With this body, in ten pieces with pauses between them that take this long together
    Drips(Duration, String),
}

/// A Prometheus that does as it is told, whatever the query; only `stuck` is never answered.
#[derive(Clone, Debug)]
pub struct Prometheus {
    pub address: SocketAddr,
    behaviour: Arc<Mutex<Behaviour>>,
    pub requests: Arc<Mutex<Vec<String>>>,
}

impl Prometheus {
    pub async fn start() -> Self {
        Self::start_as(None).await
    }

    /// With a certificate, and only for clients that have one of the same CA.
    pub async fn start_with_tls() -> Self {
        let pem = |name: &str| std::fs::read(certificate(name)).expect("there");
        let all =
            |name: &str| CertificateDer::pem_slice_iter(&pem(name)).map(|one| one.expect("PEM")).collect::<Vec<_>>();
        let mut roots = rustls::RootCertStore::empty();
        roots.add_parsable_certificates(all("ca.crt"));
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let clients = WebPkiClientVerifier::builder_with_provider(roots.into(), Arc::clone(&provider)).build();
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("versions")
            .with_client_cert_verifier(clients.expect("a CA"))
            .with_single_cert(all("one.crt"), PrivateKeyDer::from_pem_slice(&pem("one.key")).expect("PEM"));
        Self::start_as(Some(Arc::new(config.expect("a certificate")).into())).await
    }

    async fn start_as(tls: Option<TlsAcceptor>) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("bound");
        let own = Self { address, behaviour: Arc::new(Mutex::new(Behaviour::Hangs)), requests: Arc::default() };
        let server = own.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (server, tls) = (server.clone(), tls.clone());
                tokio::spawn(async move {
                    match tls {
                        None => server.connection(stream).await,
                        Some(tls) => server.connection(tls.accept(stream).await.ok()?).await,
                    }
                });
            }
        });
        own
    }

    async fn connection(self, stream: impl AsyncRead + AsyncWrite + Unpin) -> Option<()> {
        let mut stream = BufReader::new(stream);
        loop {
            let (head, body) = read_request(&mut stream).await?;
            let is_stuck = body.starts_with(b"query=stuck");
            self.requests.lock().expect("unpoisoned").push(head + &String::from_utf8_lossy(&body));
            if is_stuck {
                std::future::pending::<()>().await;
            }
            let behaviour = self.behaviour.lock().expect("unpoisoned").clone();
            let mut place = "/elsewhere".to_owned();
            let mut pause = Duration::ZERO;
            let (status, text, sent) = match behaviour {
                Behaviour::Moves(to) => {
                    place = to;
                    (302, String::new(), 0)
                }
                Behaviour::Floods => {
                    stream.write_all(b"HTTP/1.1 200 x\r\ntransfer-encoding: chunked\r\n\r\n").await.ok()?;
                    let chunk = format!("100000\r\n{}\r\n", " ".repeat(0x0010_0000));
                    loop {
                        stream.write_all(chunk.as_bytes()).await.ok()?;
                    }
                }
                Behaviour::Hangs => std::future::pending().await,
                Behaviour::Breaks => (200, "{\"status\":\"success\",\"data\":{\"resul".to_owned(), 1000),
                Behaviour::Says(status, text) => (status, text.clone(), text.len()),
                Behaviour::Late(after, text) => {
                    tokio::time::sleep(after).await;
                    (200, text.clone(), text.len())
                }
                Behaviour::Drips(during, text) => {
                    pause = during / 10;
                    (200, text.clone(), text.len())
                }
            };
            let head = format!("HTTP/1.1 {status} x\r\nlocation: {place}\r\ncontent-length: {sent}\r\n\r\n");
            stream.write_all(head.as_bytes()).await.ok()?;
            for piece in text.as_bytes().chunks(text.len() / 10 + 1) {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                stream.write_all(piece).await.ok()?;
            }
            if sent != text.len() {
                return None;
            }
        }
    }

    pub fn set(&self, behaviour: Behaviour) {
        *self.behaviour.lock().expect("unpoisoned") = behaviour;
    }

    /// Answers with these values by node.
    pub fn values(&self, values: &[(&str, &str)]) {
        let series =
            values.iter().map(|(node, value)| format!(r#"{{"metric":{{"node":"{node}"}},"value":[1,"{value}"]}}"#));
        self.set(Behaviour::Says(200, vector(&series.collect::<Vec<_>>().join(","))));
    }
}

/// The next request of a client: its head and its body.
pub async fn read_request(stream: &mut (impl AsyncBufRead + Unpin)) -> Option<(String, Vec<u8>)> {
    let (mut head, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
        if line.trim().is_empty() {
            break;
        }
        head.push_str(&line);
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some((head, body))
}

pub fn vector(series: &str) -> String {
    format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#)
}

/// An extender on the loopback.
#[derive(Debug)]
pub struct Stage {
    pub address: SocketAddr,
    pub prometheus: Prometheus,
    pub file: PathBuf,
    _running: Running,
}

static NUMBER: AtomicU64 = AtomicU64::new(0);

/// Replaces a file as the kubelet does: another one takes its place.
pub fn replace(file: &Path, text: &[u8]) {
    let new = file.with_extension("new");
    std::fs::write(&new, text).expect("written");
    std::fs::rename(&new, file).expect("renamed");
}

/// A file of the certificates that tests use.
pub fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

/// A directory that no other test has.
pub fn scratch() -> PathBuf {
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let dir = std::env::temp_dir().join(format!("schedpatch-extender-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&dir).expect("made");
    dir
}

/// A configuration that asks this Prometheus every second.
pub fn config(url: &str, policy: &str) -> String {
    format!(
        "prometheus: {{url: '{url}', interval: 1s, timeout: 300ms}}\npolicies:\n- {{name: cpu, query: up, prefer: lower, range: {{from: 0, to: 1}}, {policy}}}\n"
    )
}

impl Stage {
    pub async fn new(policy: &str) -> Self {
        let prometheus = Prometheus::start().await;
        prometheus.values(&[("a", "0.1"), ("b", "0.9"), ("c", "0.5")]);
        let url = format!("http://{}", prometheus.address);
        Self::with(prometheus, &config(&url, policy), None).await
    }

    pub async fn with(prometheus: Prometheus, text: &str, tls: Option<(PathBuf, PathBuf)>) -> Self {
        Self::start(prometheus, text, tls, None).await
    }

    pub async fn with_api(prometheus: Prometheus, text: &str, api: Api) -> Self {
        Self::start(prometheus, text, None, Some(api)).await
    }

    async fn start(prometheus: Prometheus, text: &str, tls: Option<(PathBuf, PathBuf)>, api: Option<Api>) -> Self {
        let file = scratch().join("extender.yaml");
        std::fs::write(&file, text).expect("written");
        let settings = Settings {
            config: file.clone(),
            listen: ([127, 0, 0, 1], 0).into(),
            probes: None,
            tls,
            own_namespace: Some("schedpatch".to_owned()),
            weight: 5,
        };
        let (address, running) = start(settings, api).await.expect("it starts");
        Self { address, prometheus, file, _running: running }
    }

    /// POSTs a body and returns status and answer.
    pub async fn post(&self, path: &str, body: &[u8]) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        request(&mut stream, "POST", path, body).await
    }

    pub async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.address).await.expect("it listens");
        request(&mut stream, "GET", path, b"").await
    }

    /// Points by node.
    pub async fn points(&self, nodes: &[&str]) -> Vec<u64> {
        let body =
            serde_json::json!({"Pod": {"metadata": {"name": "p", "namespace": "n"}}, "NodeNames": nodes}).to_string();
        let (status, answer) = self.post("/prioritize", body.as_bytes()).await;
        assert_eq!(status, 200, "{answer}");
        let answer: serde_json::Value = serde_json::from_str(&answer).expect("JSON");
        let list = answer.as_array().expect("a list");
        list.iter().map(|one| one["Score"].as_u64().expect("a number")).collect()
    }

    /// Waits until the points are these.
    pub async fn expect_points(&self, nodes: &[&str], expected: &[u64]) {
        let mut last = Vec::new();
        for _ in 0..100 {
            last = self.points(nodes).await;
            if last == expected {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("points of {nodes:?} are {last:?}, not {expected:?}");
    }
}

/// One request on a connection that stays open.
pub async fn request(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    method: &str,
    path: &str,
    body: &[u8],
) -> (u16, String) {
    let head = format!(
        "{method} {path} HTTP/1.1\r\nhost: x\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(head.as_bytes()).await.expect("sent");
    stream.write_all(body).await.expect("sent");
    let mut bytes = Vec::new();
    let end = loop {
        let mut chunk = vec![0; 65536];
        let read = stream.read(&mut chunk).await.expect("answered");
        assert!(read > 0, "closed: {}", String::from_utf8_lossy(&bytes));
        bytes.extend_from_slice(&chunk[..read]);
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            break end + 4;
        }
    };
    let head = String::from_utf8_lossy(&bytes[..end]).to_lowercase();
    let length = head.split("content-length: ").nth(1).and_then(|rest| rest.split("\r\n").next());
    let length: usize = length.and_then(|text| text.parse().ok()).expect("a length");
    let mut rest = bytes.split_off(end);
    let read = rest.len();
    rest.resize(length, 0);
    stream.read_exact(&mut rest[read..]).await.expect("the whole answer");
    let status = head.split(' ').nth(1).and_then(|text| text.parse().ok()).expect("a status");
    (status, String::from_utf8(rest).expect("text"))
}
