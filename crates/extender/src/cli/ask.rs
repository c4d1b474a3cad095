//! `schedpatch-extender explain POD`: asks a running extender.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use http_body_util::{BodyExt as _, Empty};
use hyper::Request;
use hyper::body::Bytes;
use hyper::client::conn::http1::handshake;
use hyper::header::HOST;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use schedpatch_service::cli::Output;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;

use super::args::ExplainArgs;
use super::{Ran, print};
use crate::tls;
use crate::url::form_encode;

/// So long the answer may take.
const TIMEOUT: Duration = Duration::from_secs(15);

pub(super) async fn explain(args: &ExplainArgs) -> Ran {
    let pod = form_encode(&format!("{}/{}", args.namespace, args.pod));
    let form = if args.output == Output::Json { "&output=json" } else { "" };
    let path = format!("/explain?pod={pod}{form}");
    let asked = tokio::time::timeout(TIMEOUT, get(args, &path)).await;
    let (status, text) = asked.map_err(|_| format!("no answer from {} in {} s", args.server, TIMEOUT.as_secs()))??;
    if status != 200 {
        return Err(text.trim_end().to_owned());
    }
    print(&text);
    Ok(ExitCode::SUCCESS)
}

async fn get(args: &ExplainArgs, path: &str) -> Result<(u16, String), String> {
    let stream = TcpStream::connect(args.server).await.map_err(|error| {
        format!("no extender answers on {}: {error}; run this in its pod: kubectl exec ds/… -- /schedpatch-extender explain POD", args.server)
    })?;
    match &args.ca {
        None => request(args, path, stream).await,
        Some(ca) => {
            let config = tls::client(ca, None).map_err(|error| error.to_string())?;
            let connector = tokio_rustls::TlsConnector::from(Arc::clone(&config));
            let stream = connector.connect(ServerName::from(args.server.ip()), stream).await;
            request(args, path, stream.map_err(|error| format!("TLS with {}: {error}", args.server))?).await
        }
    }
}

async fn request(
    args: &ExplainArgs,
    path: &str,
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
) -> Result<(u16, String), String> {
    let words = |error: hyper::Error| error.to_string();
    let (mut sender, connection) = handshake(TokioIo::new(stream)).await.map_err(words)?;
    tokio::spawn(async move { drop(connection.await) });
    let request = Request::get(path).header(HOST, args.server.to_string()).body(Empty::<Bytes>::new());
    let response = sender.send_request(request.map_err(|error| error.to_string())?).await.map_err(words)?;
    let status = response.status().as_u16();
    let body = response.into_body().collect().await.map_err(words)?.to_bytes();
    Ok((status, String::from_utf8_lossy(&body).into_owned()))
}
