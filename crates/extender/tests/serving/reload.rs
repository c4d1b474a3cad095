//! Files that change while it serves: the configuration and the certificate.

use std::sync::Arc;
use std::time::Duration;

use rustls::pki_types::ServerName;
use tokio::net::TcpStream;

use crate::stage::{Prometheus, Stage, certificate, config, replace, request, scratch};

async fn eventually(stage: &Stage, line: &str) {
    for _ in 0..150 {
        if stage.get("/metrics").await.1.contains(line) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("{line} does not appear in {}", stage.get("/metrics").await.1);
}

#[tokio::test]
async fn a_bad_file_changes_nothing_and_a_good_one_counts_at_once() {
    let stage = Stage::new("").await;
    stage.expect_points(&["a", "b", "c"], &[10, 0, 5]).await;
    let good = std::fs::read_to_string(&stage.file).expect("there");
    for (number, bad) in ["nonsense: [", &good.replace("prefer: lower", "prefer: lowest")].into_iter().enumerate() {
        replace(&stage.file, bad.as_bytes());
        let wrong = format!("schedpatch_extender_config_reloads_total{{result=\"wrong\"}} {}.0", number + 1);
        eventually(&stage, &wrong).await;
        eventually(&stage, "schedpatch_extender_config_current 0.0").await;
        assert_eq!(stage.points(&["a", "b", "c"]).await, [10, 0, 5], "after {bad:?}");
    }
    replace(&stage.file, good.replace("prefer: lower", "prefer: higher").as_bytes());
    stage.expect_points(&["a", "b", "c"], &[0, 10, 5]).await;
    eventually(&stage, "schedpatch_extender_config_current 1.0").await;
    std::fs::remove_file(&stage.file).expect("removed");
    eventually(&stage, "schedpatch_extender_config_current 0.0").await;
    assert_eq!(stage.points(&["a", "b", "c"]).await, [0, 10, 5]);
}

/// The common name of the certificate that the server shows.
async fn shown(stage: &Stage) -> Result<Vec<u8>, String> {
    let config = schedpatch_extender::tls::client(&certificate("ca.crt"), None).map_err(|error| error.to_string())?;
    let stream = TcpStream::connect(stage.address).await.map_err(|error| error.to_string())?;
    let connector = tokio_rustls::TlsConnector::from(Arc::clone(&config));
    let name = ServerName::try_from("127.0.0.1").map_err(|error| error.to_string())?;
    let mut stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    let (status, _) = request(&mut stream, "GET", "/livez", b"").await;
    assert_eq!(status, 200);
    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first).map(|own| own.to_vec());
    shown.ok_or_else(|| "no certificate".to_owned())
}

#[tokio::test]
async fn a_renewed_certificate_is_shown_to_new_connections_and_a_bad_one_is_not() {
    let dir = scratch();
    let (own, key) = (dir.join("tls.crt"), dir.join("tls.key"));
    let put = |name: &str| {
        replace(&own, &std::fs::read(certificate(&format!("{name}.crt"))).expect("there"));
        replace(&key, &std::fs::read(certificate(&format!("{name}.key"))).expect("there"));
    };
    put("one");
    let prometheus = Prometheus::start().await;
    prometheus.values(&[("a", "1")]);
    let url = format!("http://{}", prometheus.address);
    let stage = Stage::with(prometheus, &config(&url, ""), Some((own.clone(), key.clone()))).await;
    let first = shown(&stage).await.expect("TLS works");
    // a certificate without its key is what a look between two renames finds
    let half = std::fs::read(certificate("two.crt")).expect("there");
    for bad in [&b"nonsense"[..], &half] {
        replace(&own, bad);
        tokio::time::sleep(Duration::from_secs(3)).await;
        assert_eq!(shown(&stage).await, Ok(first.clone()), "the old one stays");
    }
    put("two");
    for _ in 0..100 {
        if shown(&stage).await.expect("TLS works at any moment") != first {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the renewed certificate is not shown");
}
