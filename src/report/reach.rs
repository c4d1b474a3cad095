//! Whether the extenders take connections, from this node's network, which is the scheduler's. Never part of readiness: an
//! extender may come later than the configuration that names it.

use std::time::Duration;

use futures_util::{StreamExt as _, stream};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// A scheduler would wait longer, but a scrape does not.
const PATIENCE: Duration = Duration::from_secs(1);
/// So many are asked at the same time: more than anybody has, and few enough for the limits on files and threads.
const AT_ONCE: usize = 16;
/// Extenders are asked at most this often, however many scrape.
const FRESH: Duration = Duration::from_secs(30);

/// What is shown of an extender, its host and its port.
type Place = (String, String, u16);

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
            self.answers = answers(places, async |host, port| TcpStream::connect((host, port)).await.is_ok()).await;
            (self.asked, self.urls) = (Some(Instant::now()), urls.to_vec());
        }
        &self.answers
    }
}

/// Asks many at the same time, so that all together take hardly longer than the slowest; their order stays.
async fn answers(places: Vec<Place>, connects: impl AsyncFn(&str, u16) -> bool) -> Vec<(String, bool)> {
    let ask = async |(shown, host, port): Place| {
        let is_there = timeout(PATIENCE, connects(&host, port)).await.unwrap_or(false);
        (shown, is_there)
    };
    stream::iter(places).map(ask).buffered(AT_ONCE).collect().await
}

/// What is shown of a URL, its host and its port.
fn place(url: &str) -> Option<Place> {
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
    use super::*;

    #[test]
    fn credentials_and_paths_are_not_shown() {
        let (shown, host, port) = place("https://user:secret@[::1]:8443/filter?x=y").expect("an address");
        assert_eq!((shown.as_str(), host.as_str(), port), ("https://[::1]:8443", "::1", 8443));
        assert_eq!(place("http://extender.svc/x").expect("an address").2, 80);
        assert_eq!(place("extender"), None);
    }

    #[test]
    fn ten_that_do_not_answer_take_as_long_as_one_and_order_stays() {
        let places: Vec<Place> = (0..10).map(|port| (format!("extender {port}"), String::new(), port)).collect();
        let expected: Vec<_> = places.iter().map(|(shown, _, port)| (shown.clone(), *port == 7)).collect();
        let only_one_answers = async |_: &str, port| if port == 7 { true } else { std::future::pending().await };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let begin = Instant::now();
        assert_eq!(runtime.block_on(answers(places, only_one_answers)), expected);
        assert!(begin.elapsed() < PATIENCE * 3, "{:?}", begin.elapsed());
    }
}
