//! A small HTTP endpoint for probes and metrics: GET only, one answer per connection, bounded in every direction.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::AbortHandle;

/// A client that has not sent its request in this time is disconnected.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests are one line; nobody needs more.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The kubelet, a scraper and a person; of more, the oldest are closed.
const MAX_CONNECTIONS: usize = 32;
/// Connections are closed after the answer, so that none lingers.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// An answer: status and text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    /// HTTP status
    pub status: u16,
    /// Plain text
    pub body: String,
}

impl Answer {
    /// 200.
    pub fn ok(body: impl Into<String>) -> Self {
        Self { status: 200, body: body.into() }
    }

    /// 503.
    pub fn unavailable(body: impl Into<String>) -> Self {
        Self { status: 503, body: body.into() }
    }

    /// 404.
    pub fn not_found(body: impl Into<String>) -> Self {
        Self { status: 404, body: body.into() }
    }
}

/// Binds the address at once and serves until the runtime ends. `answer` gets the path.
pub async fn serve<F, A>(address: SocketAddr, answer: F) -> std::io::Result<SocketAddr>
where
    F: Fn(String) -> A + Clone + Send + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    accept(address, MAX_CONNECTIONS, move |stream, _| {
        let answer = answer.clone();
        async move {
            let service = service_fn(move |request| {
                let answer = answer.clone();
                async move { Ok::<_, Infallible>(respond(request, answer).await) }
            });
            let connection = http1::Builder::new()
                .timer(TokioTimer::new())
                .header_read_timeout(HEADER_TIMEOUT)
                .max_buf_size(MAX_HEADER_BYTES)
                .keep_alive(false)
                .serve_connection(TokioIo::new(stream), service);
            // a client that hangs up early gets nothing, and nobody else is concerned
            let _ = tokio::time::timeout(CONNECTION_TIMEOUT, connection).await;
        }
    })
    .await
}

/// When a connection was last used, in comparison with the other connections of its listener, and whether it is in use.
#[derive(Clone, Debug)]
pub struct LastUse {
    own: Arc<AtomicU64>,
    newest: Arc<AtomicU64>,
    is_busy: Arc<AtomicBool>,
}

impl LastUse {
    fn new(newest: &Arc<AtomicU64>) -> Self {
        let last_use = Self { own: Arc::default(), newest: Arc::clone(newest), is_busy: Arc::default() };
        last_use.renew();
        last_use
    }

    /// Marks the connection as the one that was used last.
    pub fn renew(&self) {
        self.own.store(self.newest.fetch_add(1, Ordering::Relaxed), Ordering::Relaxed);
    }

    /// A request has arrived on the connection: it is closed after those that wait for one.
    pub fn begin(&self) {
        self.is_busy.store(true, Ordering::Relaxed);
        self.renew();
    }

    /// The request is answered.
    pub fn end(&self) {
        self.is_busy.store(false, Ordering::Relaxed);
        self.renew();
    }

    /// The connection with the smallest one is closed first.
    fn order(&self) -> (bool, u64) {
        (self.is_busy.load(Ordering::Relaxed), self.own.load(Ordering::Relaxed))
    }
}

/// Binds the address at once and has every connection handled until the runtime ends, at most so many at a time. One more closes
/// the connection that was unused for the longest time, of those without a request if there are any: clients that hold
/// connections open cannot lock out the others, and those that only open them interrupt nobody.
pub async fn accept<F, H>(address: SocketAddr, at_a_time: usize, handle: F) -> std::io::Result<SocketAddr>
where
    F: Fn(TcpStream, LastUse) -> H + Send + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    tokio::spawn(async move {
        let newest = Arc::default();
        let mut open: Vec<(LastUse, AbortHandle)> = Vec::new();
        loop {
            let Ok((stream, _)) = listener.accept().await else {
                // out of file descriptors, for example: that may pass
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            open.retain(|(_, task)| !task.is_finished());
            if open.len() >= at_a_time
                && let Some(oldest) = (0..open.len()).min_by_key(|at| open[*at].0.order())
            {
                open.swap_remove(oldest).1.abort();
            }
            let last_use = LastUse::new(&newest);
            let task = tokio::spawn(handle(stream, last_use.clone()));
            open.push((last_use, task.abort_handle()));
        }
    });
    Ok(bound)
}

async fn respond<A: Future<Output = Answer>>(
    request: Request<Incoming>,
    answer: impl FnOnce(String) -> A,
) -> Response<Full<Bytes>> {
    let answer = if [Method::GET, Method::HEAD].contains(request.method()) {
        let answer = answer(request.uri().path().to_owned());
        answer.await
    } else {
        Answer { status: 405, body: "only GET\n".to_owned() }
    };
    let mut response = Response::new(Full::new(Bytes::from(answer.body)));
    *response.status_mut() = StatusCode::from_u16(answer.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let plain = HeaderValue::from_static("text/plain; version=0.0.4; charset=utf-8");
    response.headers_mut().insert(CONTENT_TYPE, plain);
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    async fn ask(address: SocketAddr, request: &str) -> String {
        let mut stream = tokio::net::TcpStream::connect(address).await.expect("it listens");
        stream.write_all(request.as_bytes()).await.expect("it reads");
        let mut text = String::new();
        stream.read_to_string(&mut text).await.expect("it answers");
        text
    }

    #[tokio::test]
    async fn every_path_gets_its_answer_and_only_get_is_allowed() {
        let answer = |path: String| async move { Answer::ok(format!("you asked for {path}\n")) };
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), answer).await.expect("a free port");
        let text = ask(address, "GET /any/path HTTP/1.1\r\nhost: x\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 200") && text.ends_with("you asked for /any/path\n"), "{text}");
        let text = ask(address, "POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n").await;
        assert!(text.starts_with("HTTP/1.1 405"), "{text}");
    }

    #[tokio::test]
    async fn clients_that_say_nothing_do_not_lock_out_the_others() {
        let answer = |_| async move { Answer::ok("here\n") };
        let address = serve(SocketAddr::from(([127, 0, 0, 1], 0)), answer).await.expect("a free port");
        let mut silent = Vec::new();
        for _ in 0..3 * MAX_CONNECTIONS {
            silent.push(tokio::net::TcpStream::connect(address).await.expect("it listens"));
        }
        let asking = ask(address, "GET / HTTP/1.1\r\nhost: x\r\n\r\n");
        let text = tokio::time::timeout(Duration::from_secs(1), asking).await.expect("it answers at once");
        assert!(text.ends_with("here\n"), "{text}");
    }

    #[tokio::test]
    async fn the_connection_that_was_unused_for_the_longest_time_is_closed_first() {
        let echo = |mut stream: TcpStream, last_use: LastUse| async move {
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() {
                last_use.renew();
                let _ = stream.write_all(&byte).await;
            }
        };
        let address = accept(SocketAddr::from(([127, 0, 0, 1], 0)), 2, echo).await.expect("a free port");
        let mut connections = Vec::new();
        for _ in 0..2 {
            connections.push(tokio::net::TcpStream::connect(address).await.expect("it listens"));
        }
        for at in [1, 0] {
            connections[at].write_all(b"x").await.expect("open");
            connections[at].read_exact(&mut [0]).await.expect("open");
        }
        let mut third = tokio::net::TcpStream::connect(address).await.expect("it listens");
        third.write_all(b"x").await.expect("open");
        third.read_exact(&mut [0]).await.expect("it is served");
        let mut byte = [0];
        let closing = tokio::time::timeout(Duration::from_secs(5), connections[1].read_exact(&mut byte));
        assert!(closing.await.expect("closed at once").is_err(), "closed");
        connections[0].write_all(b"x").await.expect("open");
        connections[0].read_exact(&mut [0]).await.expect("still open");
    }

    #[tokio::test]
    async fn new_connections_interrupt_no_request() {
        let slow = |mut stream: TcpStream, last_use: LastUse| async move {
            let mut byte = [0];
            while stream.read_exact(&mut byte).await.is_ok() {
                last_use.begin();
                tokio::time::sleep(Duration::from_millis(300)).await;
                let _ = stream.write_all(&byte).await;
                last_use.end();
            }
        };
        let address = accept(SocketAddr::from(([127, 0, 0, 1], 0)), 4, slow).await.expect("a free port");
        let mut asking = tokio::net::TcpStream::connect(address).await.expect("it listens");
        asking.write_all(b"x").await.expect("open");
        tokio::time::sleep(Duration::from_millis(50)).await;
        let mut others = Vec::new();
        for _ in 0..20 {
            others.push(tokio::net::TcpStream::connect(address).await.expect("it listens"));
        }
        let mut byte = [0];
        let answer = asking.read_exact(&mut byte);
        tokio::time::timeout(Duration::from_secs(5), answer).await.expect("in time").expect("not interrupted");
    }
}
