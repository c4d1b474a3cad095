//! Whether the extenders take connections, from this node's network, which is the scheduler's. Never part of readiness: an
//! extender may come later than the configuration that names it.

use std::time::Duration;

use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// A scheduler would wait longer, but a scrape does not.
const PATIENCE: Duration = Duration::from_secs(1);
/// Extenders are asked at most this often, however many scrape.
const FRESH: Duration = Duration::from_secs(30);

/// The last answers.
#[derive(Debug, Default)]
pub struct Reach {
    asked: Option<Instant>,
    urls: Vec<String>,
    answers: Vec<(String, bool)>,
}

impl Reach {
    /// Asks, unless that was just done. Gives `scheme://host:port` of each, which holds no credential.
    pub async fn ask(&mut self, urls: &[String]) -> &[(String, bool)] {
        let is_fresh = self.asked.is_some_and(|asked| asked.elapsed() < FRESH) && self.urls == urls;
        if !is_fresh {
            let mut places: Vec<_> = urls.iter().filter_map(|url| place(url)).collect();
            places.sort();
            places.dedup();
            self.answers.clear();
            for (shown, host, port) in places {
                let connected = timeout(PATIENCE, TcpStream::connect((host.as_str(), port))).await;
                self.answers.push((shown, matches!(connected, Ok(Ok(_)))));
            }
            (self.asked, self.urls) = (Some(Instant::now()), urls.to_vec());
        }
        &self.answers
    }
}

/// What is shown of a URL, its host and its port.
fn place(url: &str) -> Option<(String, String, u16)> {
    let uri: hyper::Uri = url.parse().ok()?;
    let scheme = uri.scheme_str()?;
    let host = uri.host()?;
    let port = uri.port_u16().or(match scheme {
        "http" => Some(80),
        "https" => Some(443),
        _ => None,
    })?;
    Some((format!("{scheme}://{host}:{port}"), host.trim_matches(['[', ']']).to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::place;

    #[test]
    fn credentials_and_paths_are_not_shown() {
        let (shown, host, port) = place("https://user:secret@[::1]:8443/filter?x=y").expect("an address");
        assert_eq!((shown.as_str(), host.as_str(), port), ("https://[::1]:8443", "::1", 8443));
        assert_eq!(place("http://extender.svc/x").expect("an address").2, 80);
        assert_eq!(place("extender"), None);
    }
}
