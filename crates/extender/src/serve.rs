//! Serves the scheduler and people: HTTP/1.1 with keep-alive, with or without TLS, answers from memory.

mod body;
mod buffers;
mod chunks;
mod pages;
mod verbs;

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use rustls::ServerConfig;
use schedpatch_service::api::Api;
use schedpatch_service::http::{self, LastUse};
use schedpatch_service::patience::Patience;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::nodes::Nodes;
use crate::state::State;

use chunks::Chunks;

pub use body::MAX_BODY_BYTES;
pub use buffers::Buffers;
pub use pages::{metrics_text, ready_text};

/// The scheduler, the kubelet and people. One more closes the connection that was unused for the longest time.
const MAX_CONNECTIONS: usize = 64;
/// A connection on which no request begins in this time is closed. Longer than the 90 s after which the scheduler closes its
/// idle connections itself: a request that meets our closing is lost, and its pod is placed without us.
const HEADER_TIMEOUT: Duration = Duration::from_mins(3);
/// So long a client may take to read an answer.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);
/// So long a TLS handshake may take.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// Answers requests.
#[derive(Debug)]
pub struct Server {
    /// Shared state
    pub state: Arc<State>,
    /// Nodes, for explanations
    pub nodes: Arc<Nodes>,
    /// Where pods are looked up for explanations
    pub api: Option<Api>,
    /// Room and memory for long bodies
    pub buffers: Arc<Buffers>,
    /// When a request that cannot be read was logged last
    complained: Mutex<Option<Instant>>,
}

impl Server {
    /// Answers from this state.
    pub fn new(state: Arc<State>, nodes: Arc<Nodes>, api: Option<Api>) -> Arc<Self> {
        Arc::new(Self { state, nodes, api, buffers: Arc::default(), complained: Mutex::default() })
    }

    /// Binds the address at once and serves until the runtime ends. The certificate may be replaced while it serves.
    pub async fn serve(
        self: Arc<Self>,
        address: SocketAddr,
        tls: Option<watch::Receiver<Arc<ServerConfig>>>,
    ) -> std::io::Result<SocketAddr> {
        tokio::spawn(Arc::clone(&self.buffers).forget_unused());
        http::accept(address, MAX_CONNECTIONS, move |stream, last_use| {
            let _ = stream.set_nodelay(true);
            let stream = Patience::new(stream, ANSWER_TIMEOUT);
            let server = Arc::clone(&self);
            let acceptor = tls.as_ref().map(|tls| tokio_rustls::TlsAcceptor::from(Arc::clone(&tls.borrow())));
            async move {
                let Some(acceptor) = acceptor else { return server.connection(stream, last_use).await };
                match tokio::time::timeout(HANDSHAKE_TIMEOUT, acceptor.accept(stream)).await {
                    Ok(Ok(stream)) => server.connection(stream, last_use).await,
                    Ok(Err(error)) => tracing::debug!(%error, "a TLS handshake failed"),
                    Err(_) => tracing::debug!("a TLS handshake took too long"),
                }
            }
        })
        .await
    }

    async fn connection(self: Arc<Self>, stream: impl AsyncRead + AsyncWrite + Unpin, last_use: LastUse) {
        let service = service_fn(move |request| {
            let (server, last_use) = (Arc::clone(&self), last_use.clone());
            async move {
                last_use.begin();
                let response = server.respond(request).await;
                last_use.end();
                Ok::<_, Infallible>(response)
            }
        });
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEADER_TIMEOUT)
            .serve_connection(TokioIo::new(stream), service);
        if let Err(error) = connection.await {
            tracing::debug!(%error, "a connection ended early");
        }
    }

    async fn respond(&self, request: Request<Incoming>) -> Response<Chunks> {
        // urlPrefix may have a path: the verb is what comes last
        let verb = request.uri().path().rsplit('/').next().unwrap_or_default();
        let is_read = [Method::GET, Method::HEAD].contains(request.method());
        match (request.method(), verb) {
            (&Method::POST, "filter") => self.verb("filter", request).await,
            (&Method::POST, "prioritize") => self.verb("prioritize", request).await,
            (&Method::POST, "explain") => self.explain_request(request).await,
            _ if is_read => self.page(request.uri()).await,
            _ => text(405, "only POST for filter, prioritize and explain, and GET for the rest\n"),
        }
    }
}

/// An answer in plain text.
fn text(status: u16, body: impl Into<Bytes>) -> Response<Chunks> {
    answer(status, "text/plain; version=0.0.4; charset=utf-8", body)
}

/// An answer in JSON, in pieces.
fn json_pieces(pieces: impl Iterator<Item = Bytes>) -> Response<Chunks> {
    let mut response = json(Bytes::new());
    *response.body_mut() = Chunks::from(pieces);
    response
}

/// An answer in JSON.
fn json(body: impl Into<Bytes>) -> Response<Chunks> {
    answer(200, "application/json", body)
}

fn answer(status: u16, kind: &'static str, body: impl Into<Bytes>) -> Response<Chunks> {
    let mut response = Response::new(Chunks::from([body.into()]));
    *response.status_mut() = StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(kind));
    response
}
