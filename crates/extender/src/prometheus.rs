//! The way to Prometheus: one connection for a round of queries, bounded in time and size.

use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http_body_util::{BodyExt as _, Full};
use hyper::body::{Body as _, Bytes, Incoming};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper::header::{AUTHORIZATION, CONTENT_TYPE, HOST, HeaderValue, LOCATION, USER_AGENT};
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use schedpatch_service::log::shortened;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::config::Prometheus;
use crate::tls::{self, TlsError};
use crate::url::{Url, form_encode};

/// An answer may have this many bytes: 100,000 series have half of it.
pub const MAX_ANSWER_BYTES: usize = 48 * 1024 * 1024;
/// Of longer answers than this there is one at a time in memory.
const SHORT_ANSWER_BYTES: usize = 2 * 1024 * 1024;
/// So much of an answer that is no answer is quoted.
const MAX_QUOTED_BYTES: usize = 200;

/// Credentials are looked for in so much of it.
const MAX_SEARCHED_BYTES: usize = 64 * 1024;
/// Passwords that are shorter are only hidden together with the user's name.
const MIN_PASSWORD_BYTES: usize = 4;

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryError {
    /// The URL is wrong
    #[error("prometheus.url: {0}")]
    Url(String),
    /// Without a CA nobody knows whom the credentials go to
    #[error("an https:// URL needs prometheus.caFile")]
    NoAuthority,
    /// Nobody takes the connection
    #[error("cannot connect to {0}: {1}; see prometheus.url, and dnsPolicy if it is a Service name")]
    Connect(String, String),
    /// A file with credentials cannot be read
    #[error("cannot read {0}: {1}")]
    Credentials(String, String),
    /// A certificate or key cannot be used
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The connection broke
    #[error("the connection to Prometheus broke: {0}")]
    Broken(String),
    /// No answer in time
    #[error("no answer from Prometheus in {0:?}; see prometheus.timeout")]
    Late(Duration),
    /// Credentials are missing or wrong
    #[error("Prometheus answers {0}: see bearerTokenFile, basicAuthFile and clientCertificateFile")]
    Forbidden(StatusCode),
    /// Prometheus is elsewhere
    #[error("Prometheus answers {0} and points to {1:?}: set prometheus.url to that place, it is not followed")]
    Moved(StatusCode, String),
    /// Something else
    #[error("Prometheus answers {0}: {1}")]
    Status(StatusCode, String),
    /// Too much
    #[error("the answer has more than {MAX_ANSWER_BYTES} bytes; aggregate the query, for example with: sum by (node)")]
    TooLong,
}

/// An answer's body, which is dropped as soon as it is read.
#[derive(Debug)]
pub struct Answer {
    bytes: Vec<u8>,
    _turn: Option<OwnedSemaphorePermit>,
}

impl std::ops::Deref for Answer {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

/// Asks Prometheus, one query after the other.
pub struct Client {
    url: Url,
    timeout: Duration,
    tls: Option<Arc<ClientConfig>>,
    authorization: Option<HeaderValue>,
    sender: Option<SendRequest<Full<Bytes>>>,
    /// Held by the one that reads a long answer
    turn: Arc<Semaphore>,
}

impl std::fmt::Debug for Client {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Client").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Client {
    /// Reads credentials and certificates, which may have been renewed since the last round.
    pub fn new(settings: &Prometheus) -> Result<Self, QueryError> {
        let url = Url::parse(&settings.url).map_err(QueryError::Url)?;
        let own = settings.client_certificate_file.as_deref().zip(settings.client_key_file.as_deref());
        let tls = match (url.is_https, settings.ca_file.as_deref()) {
            (true, Some(ca)) => Some(tls::client(ca, own)?),
            (true, None) => return Err(QueryError::NoAuthority),
            (false, _) => None,
        };
        let turn = Arc::new(Semaphore::new(1));
        Ok(Self { url, timeout: settings.timeout, tls, authorization: authorization(settings)?, sender: None, turn })
    }

    /// Another one for queries at the same time, on a connection of its own.
    #[must_use]
    pub fn another(&self) -> Self {
        let (url, timeout, tls) = (self.url.clone(), self.timeout, self.tls.clone());
        let (authorization, turn) = (self.authorization.clone(), Arc::clone(&self.turn));
        Self { url, timeout, tls, authorization, sender: None, turn }
    }

    /// Runs one query and returns the answer's body: JSON, also if Prometheus refuses the query.
    pub async fn query(&mut self, promql: &str) -> Result<Answer, QueryError> {
        // what is left of an answer after an error must not be taken for the next one, so the sender comes back at the end
        let timeout = self.timeout;
        let late = |_| QueryError::Late(timeout);
        let asked = tokio::time::timeout(timeout, async {
            let (sender, response) = self.ask(promql).await?;
            let mut reading = Reading::new(response);
            let is_whole = reading.go_on(SHORT_ANSWER_BYTES).await?;
            Ok::<_, QueryError>((sender, reading, is_whole))
        });
        let (sender, mut reading, is_whole) = asked.await.map_err(late)??;
        let mut turn = None;
        if !is_whole {
            // waiting for other answers is no fault of Prometheus
            turn = Arc::clone(&self.turn).acquire_owned().await.ok();
            reading.make_room();
            let read = tokio::time::timeout(timeout, reading.go_on(MAX_ANSWER_BYTES)).await;
            if !read.map_err(late)?? {
                return Err(QueryError::TooLong);
            }
        }
        self.sender = Some(sender);
        self.judged(reading, turn)
    }

    fn judged(&self, reading: Reading, turn: Option<OwnedSemaphorePermit>) -> Result<Answer, QueryError> {
        let Reading { status, location, bytes, .. } = reading;
        match status.as_u16() {
            // Prometheus explains a refused query in the body
            200 | 400 | 422 if bytes.first() == Some(&b'{') => Ok(Answer { bytes, _turn: turn }),
            401 | 403 => Err(QueryError::Forbidden(status)),
            300..=399 => Err(QueryError::Moved(status, self.quoted(&location.unwrap_or_default()))),
            _ => {
                // longer than credentials, so that they are not cut before they are seen
                let start = &bytes[..bytes.len().min(MAX_SEARCHED_BYTES)];
                Err(QueryError::Status(status, self.quoted(&String::from_utf8_lossy(start))))
            }
        }
    }

    async fn ask(&mut self, promql: &str) -> Result<(SendRequest<Full<Bytes>>, Response<Incoming>), QueryError> {
        let mut kept = self.sender.take();
        let is_open = match &mut kept {
            Some(sender) => sender.ready().await.is_ok(),
            None => false,
        };
        let mut sender = match kept.filter(|_| is_open) {
            Some(sender) => sender,
            None => self.connect().await?,
        };
        // Prometheus reads no fraction of a second before a unit
        let body = format!("query={}&timeout={}ms", form_encode(promql), self.timeout.as_millis());
        let mut request = Request::post(format!("{}/api/v1/query", self.url.path))
            .header(HOST, self.url.authority())
            .header(USER_AGENT, concat!("schedpatch-extender/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, "application/x-www-form-urlencoded");
        if let Some(authorization) = &self.authorization {
            request = request.header(AUTHORIZATION, authorization);
        }
        let request = request.body(Full::new(body.into())).map_err(|error| QueryError::Url(error.to_string()))?;
        let broken = |error: hyper::Error| QueryError::Broken(root(&error));
        let response = sender.send_request(request).await.map_err(broken)?;
        Ok((sender, response))
    }

    /// Words of the other side for a message: short, and without the credentials that it may send back.
    fn quoted(&self, text: &str) -> String {
        shortened(&self.without_credentials(text), MAX_QUOTED_BYTES)
    }

    /// Words of the other side without the credentials that it may send back.
    pub fn without_credentials(&self, text: &str) -> String {
        let mut text = text.to_owned();
        let sent = self.authorization.as_ref().and_then(|value| value.to_str().ok()).unwrap_or_default();
        let secret = sent.split_once(' ').map_or("", |(_, secret)| secret);
        let decoded = BASE64.decode(secret).ok().filter(|_| sent.starts_with("Basic"));
        let decoded = decoded.and_then(|bytes| String::from_utf8(bytes).ok()).unwrap_or_default();
        let password = decoded.split_once(':').map_or("", |(_, password)| password);
        // a password of few letters is part of many words, and hiding those would show it
        let password = if password.len() < MIN_PASSWORD_BYTES { "" } else { password };
        for secret in [sent, secret, &decoded, password] {
            if !secret.is_empty() {
                text = text.replace(secret, "(credentials)");
            }
        }
        // a URL with a user and a password
        if let Some((scheme, rest)) = text.split_once("://")
            && let Some((_, host)) = rest.split_once('@')
        {
            text = format!("{scheme}://{host}");
        }
        text
    }

    async fn connect(&self) -> Result<SendRequest<Full<Bytes>>, QueryError> {
        let authority = self.url.authority();
        let wrong = |error: std::io::Error| QueryError::Connect(authority.clone(), error.to_string());
        let stream = TcpStream::connect((self.url.host.as_str(), self.url.port)).await.map_err(wrong)?;
        let _ = stream.set_nodelay(true);
        match &self.tls {
            None => open(stream).await,
            Some(config) => {
                let name = ServerName::try_from(self.url.host.clone());
                let name = name.map_err(|error| QueryError::Url(error.to_string()))?;
                let connector = tokio_rustls::TlsConnector::from(Arc::clone(config));
                open(connector.connect(name, stream).await.map_err(wrong)?).await
            }
        }
    }
}

async fn open(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<SendRequest<Full<Bytes>>, QueryError> {
    let opened = handshake(TokioIo::new(stream)).await;
    let (sender, connection) = opened.map_err(|error| QueryError::Broken(root(&error)))?;
    // ends with the connection; requests on it report what went wrong
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// An answer on its way.
struct Reading {
    status: StatusCode,
    location: Option<String>,
    body: Incoming,
    bytes: Vec<u8>,
}

impl Reading {
    fn new(response: Response<Incoming>) -> Self {
        let status = response.status();
        let location = response.headers().get(LOCATION).and_then(|value| value.to_str().ok()).map(str::to_owned);
        let body = response.into_body();
        let expected = body.size_hint().exact().and_then(|bytes| usize::try_from(bytes).ok()).unwrap_or(0);
        Self { status, location, body, bytes: Vec::with_capacity(expected.min(SHORT_ANSWER_BYTES)) }
    }

    /// Room for the longest answer at once: memory that is never touched costs nothing, and a buffer that grows by doubling is
    /// there twice while it grows.
    fn make_room(&mut self) {
        self.bytes.reserve_exact(MAX_ANSWER_BYTES.saturating_sub(self.bytes.len()));
    }

    /// Reads until the end, or until there is more than this; whether it is the end.
    async fn go_on(&mut self, most: usize) -> Result<bool, QueryError> {
        while self.bytes.len() <= most {
            let Some(frame) = self.body.frame().await else { return Ok(true) };
            let frame = frame.map_err(|error| QueryError::Broken(root(&error)))?;
            if let Ok(data) = frame.into_data() {
                self.bytes.extend_from_slice(&data);
            }
        }
        Ok(false)
    }
}

fn authorization(settings: &Prometheus) -> Result<Option<HeaderValue>, QueryError> {
    let (file, scheme) = match (&settings.bearer_token_file, &settings.basic_auth_file) {
        (Some(file), _) => (file, "Bearer"),
        (None, Some(file)) => (file, "Basic"),
        (None, None) => return Ok(None),
    };
    let wrong = |why: String| QueryError::Credentials(file.display().to_string(), why);
    let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
    let text = text.trim();
    let value = match scheme {
        "Bearer" => format!("Bearer {text}"),
        _ if text.contains(':') => format!("Basic {}", BASE64.encode(text)),
        _ => return Err(wrong("it must hold user:password in one line".to_owned())),
    };
    let mut value = HeaderValue::from_str(&value).map_err(|_| wrong("it holds more than one line".to_owned()))?;
    value.set_sensitive(true);
    Ok(Some(value))
}

fn root(error: &(dyn std::error::Error + 'static)) -> String {
    schedpatch_service::client::root_cause(error)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn credentials_never_go_unencrypted_to_an_https_port() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n";
        let mut settings = crate::config::parse("test.yaml".as_ref(), text).expect("valid").prometheus;
        // as with simulate --prometheus
        settings.url = "https://p".to_owned();
        assert_eq!(Client::new(&settings).err(), Some(QueryError::NoAuthority));
    }

    #[test]
    fn credentials_are_hidden_in_every_form_in_which_they_may_come_back() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n";
        let config = crate::config::parse("test.yaml".as_ref(), text).expect("valid");
        let mut client = Client::new(&config.prometheus).expect("a client");
        for (header, words, expected) in [
            ("Bearer t0p-secret", "Bearer t0p-secret", "(credentials)"),
            ("Bearer t0p-secret", "token t0p-secret is old", "token (credentials) is old"),
            ("Basic dXNlcjpwYXNz", "user:pass", "(credentials)"),
            (
                "Basic dXNlcjpwYXNz",
                "wrong password 'pass' (dXNlcjpwYXNz)",
                "wrong (credentials)word '(credentials)' ((credentials))",
            ),
            ("Basic dXNlcjph", "a bad request of user:a", "a bad request of (credentials)"),
        ] {
            client.authorization = Some(HeaderValue::from_static(header));
            assert_eq!(client.without_credentials(words), expected, "{header}");
        }
    }
}
