//! The probe endpoint: /livez, /readyz and /metrics, for the kubelet, for people and for Prometheus.

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::CONTENT_TYPE;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::TcpListener;
use tokio::sync::{Mutex, watch};
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::{Reach, Report, metrics, short};
use crate::finding::Finding;
use crate::phase::Phase;
use crate::revision::Digest;

/// Who has not sent its question in this time is hung up on.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Longest request line and headers that are read.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The kubelet, a scraper and a person; more is rather a mistake, and the silent ones are hung up on.
const MAX_CONNECTIONS: usize = 32;
/// Connections are closed after the answer, so that none lingers.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// What the endpoint serves.
#[derive(Clone, Debug)]
struct Served {
    report: watch::Receiver<Report>,
    turned: watch::Receiver<Instant>,
    stale: Duration,
    reach: Arc<Mutex<Reach>>,
}

/// Binds the address at once and answers until it is dropped. `turned` is when the loop turned last; after `stale` it counts
/// as stuck.
pub async fn serve(
    address: SocketAddr,
    report: watch::Receiver<Report>,
    turned: watch::Receiver<Instant>,
    stale: Duration,
) -> Result<SocketAddr, Finding> {
    let listener = TcpListener::bind(address).await.map_err(|error| {
        let message = format!("cannot listen on {address}: {error}");
        Finding::error("listen", message, "give another address with --listen")
    })?;
    let bound = listener.local_addr().unwrap_or(address);
    let served = Served { report, turned, stale, reach: Arc::default() };
    tokio::spawn(async move {
        let mut open = VecDeque::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // out of file descriptors, for example: that may pass
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            make_room(&mut open);
            let served = served.clone();
            let has_asked = Arc::new(AtomicBool::new(false));
            let asked = Arc::clone(&has_asked);
            let task = tokio::spawn(async move {
                let answer = service_fn(|request| {
                    has_asked.store(true, Ordering::Relaxed);
                    let served = served.clone();
                    async move { Ok::<_, Infallible>(served.answer(&request).await) }
                });
                let connection = http1::Builder::new()
                    .timer(TokioTimer::new())
                    .header_read_timeout(HEADER_TIMEOUT)
                    .max_buf_size(MAX_HEADER_BYTES)
                    .keep_alive(false)
                    .serve_connection(TokioIo::new(stream), answer);
                // a client that hangs up early gets no answer
                let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
            });
            open.push_back(Connection { has_asked: asked, task: task.abort_handle() });
        }
    });
    Ok(bound)
}

/// A connection that may be open.
struct Connection {
    /// Whether its question has come
    has_asked: Arc<AtomicBool>,
    task: AbortHandle,
}

/// Hangs up on somebody where too many are connected: on the one that has been silent for longest, so that nobody who asks
/// waits for those who do not.
fn make_room(open: &mut VecDeque<Connection>) {
    open.retain(|connection| !connection.task.is_finished());
    if open.len() < MAX_CONNECTIONS {
        return;
    }
    let silent = open.iter().position(|connection| !connection.has_asked.load(Ordering::Relaxed));
    if let Some(connection) = open.remove(silent.unwrap_or(0)) {
        connection.task.abort();
    }
}

impl Served {
    async fn answer(&self, request: &Request<Incoming>) -> Response<Full<Bytes>> {
        if ![Method::GET, Method::HEAD].contains(request.method()) {
            return text(StatusCode::METHOD_NOT_ALLOWED, "only GET\n".to_owned());
        }
        let is_verbose = request.uri().query().is_some_and(|query| query.split('&').any(|part| part == "verbose"));
        match request.uri().path() {
            "/livez" | "/healthz" => self.livez(is_verbose),
            "/readyz" => self.readyz(is_verbose),
            "/metrics" => {
                let report = self.report.borrow().clone();
                let mut reach = self.reach.lock().await;
                text(StatusCode::OK, metrics::text(&report, reach.ask(&report.extenders).await))
            }
            _ => text(StatusCode::NOT_FOUND, "try /livez, /readyz, /readyz?verbose or /metrics\n".to_owned()),
        }
    }

    fn livez(&self, is_verbose: bool) -> Response<Full<Bytes>> {
        let turned = self.turned.borrow().elapsed();
        let lives = turned < self.stale;
        let verbose = if is_verbose { format!("{} loop\n", sign(lives)) } else { String::new() };
        let (code, word) = if lives { (StatusCode::OK, "ok") } else { (StatusCode::SERVICE_UNAVAILABLE, "stuck") };
        text(code, format!("{verbose}{word}: the loop turned {} s ago\n", turned.as_secs()))
    }

    fn readyz(&self, is_verbose: bool) -> Response<Full<Bytes>> {
        let report = self.report.borrow();
        let node_state = &report.node_state;
        let ready = node_state.is_ready();
        let phase = node_state.phase.name();
        let checks = if is_verbose {
            let is_verified = report.digest.is_some() && report.digest == report.verified_digest;
            let is_middle = matches!(node_state.phase, Phase::Applying | Phase::Verifying);
            format!(
                "{} phase {phase}\n{} wanted digest {}, verified digest {}\n{} not in the middle of a change\n",
                sign(ready),
                sign(is_verified),
                shown(report.digest),
                shown(report.verified_digest),
                sign(!is_middle),
            )
        } else {
            String::new()
        };
        let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
        text(code, format!("{checks}{phase}: {}: {}\n", node_state.reason, node_state.message))
    }
}

/// A digest as people compare it.
fn shown(digest: Option<Digest>) -> String {
    digest.map_or_else(|| "none".to_owned(), |digest| short(&digest))
}

fn sign(is_well: bool) -> &'static str {
    if is_well { "[+]" } else { "[-]" }
}

fn text(code: StatusCode, body: String) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::new(Bytes::from(body)));
    *response.status_mut() = code;
    let plain = hyper::header::HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}
