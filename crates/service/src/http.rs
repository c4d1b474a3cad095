//! A small HTTP endpoint for probes and metrics: GET only, one answer per connection, bounded in every direction.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::header::{CONTENT_TYPE, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;

/// A client that has not sent its request in this time is disconnected.
const HEADER_TIMEOUT: Duration = Duration::from_secs(2);
/// Requests are one line; nobody needs more.
const MAX_HEADER_BYTES: usize = 8 * 1024;
/// The kubelet, a scraper and a person; more is rather a mistake.
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
    accept(address, MAX_CONNECTIONS, move |stream| {
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

/// Binds the address at once and has every connection handled until the runtime ends, at most so many at a time.
pub async fn accept<F, H>(address: SocketAddr, at_a_time: usize, handle: F) -> std::io::Result<SocketAddr>
where
    F: Fn(TcpStream) -> H + Send + 'static,
    H: Future<Output = ()> + Send + 'static,
{
    let listener = TcpListener::bind(address).await?;
    let bound = listener.local_addr()?;
    let places = Arc::new(Semaphore::new(at_a_time));
    tokio::spawn(async move {
        loop {
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // out of file descriptors, for example: that may pass
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let handled = handle(stream);
            tokio::spawn(async move {
                handled.await;
                drop(place);
            });
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
}
