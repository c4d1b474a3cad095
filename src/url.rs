//! What a person may see of a URL: scheme, host and port. User names, passwords, paths and queries can be secrets, and
//! messages end in logs, events and annotations.

use std::borrow::Cow;

/// What replaces a user name and password where the rest of a text is shown.
const HIDDEN: &str = "***";

/// The parts of a URL that matter here. Nothing is decoded.
struct Parts<'a> {
    scheme: Option<&'a str>,
    /// The user name and password, as they are written
    user: Option<&'a str>,
    /// With its brackets, if it has any
    host: &'a str,
    port: Option<&'a str>,
}

impl<'a> Parts<'a> {
    fn of(url: &'a str) -> Self {
        let is_scheme = |text: &&str| text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        let (scheme, rest) = match url.split_once("://") {
            Some((scheme, rest)) => (Some(scheme).filter(is_scheme), rest),
            None => (None, url),
        };
        let authority = |rest: &'a str| rest.split(['/', '?', '#']).next().unwrap_or_default();
        let mut place = authority(rest);
        let mut user = place.rsplit_once('@').map(|(user, _)| user);
        // a password with a slash in it: no reader of URLs takes it, but it is a password all the same
        if let Some((before, after)) = rest.rsplit_once('@').filter(|_| user.is_none() && !has_good_port(place)) {
            (user, place) = (Some(before), authority(after));
        }
        let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
        let colon = if place.ends_with(']') { None } else { place.rfind(':') };
        let (host, port) = colon.map_or((place, None), |at| (&place[..at], Some(&place[at + 1..])));
        Self { scheme, user, host, port }
    }
}

fn is_port(text: &str) -> bool {
    text.parse::<u16>().is_ok() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn has_good_port(place: &str) -> bool {
    place.ends_with(']') || place.rsplit_once(':').is_none_or(|(_, port)| port.is_empty() || is_port(port))
}

/// Scheme, host and port of a URL, and nothing else of it.
pub(crate) fn shown(url: &str) -> String {
    let parts = Parts::of(url);
    let scheme = parts.scheme.map(|scheme| format!("{scheme}://")).unwrap_or_default();
    let port = parts.port.filter(|port| is_port(port)).map(|port| format!(":{port}")).unwrap_or_default();
    format!("{scheme}{}{port}", parts.host)
}

/// Whether a URL holds a user name or password.
pub(crate) fn has_credentials(url: &str) -> bool {
    Parts::of(url).user.is_some()
}

/// The host of a URL, without user, port and brackets' content changed; `None` if there is none.
pub(crate) fn host(url: &str) -> Option<&str> {
    Some(Parts::of(url).host).filter(|host| !host.is_empty())
}

/// Why an HTTP client cannot call a URL, if it cannot.
pub(crate) fn fault(url: &str) -> Option<&'static str> {
    let parts = Parts::of(url);
    let is_http = |scheme: &str| scheme.eq_ignore_ascii_case("http") || scheme.eq_ignore_ascii_case("https");
    if !parts.scheme.is_some_and(is_http) {
        Some("begins neither with http:// nor with https://")
    } else if parts.host.is_empty() {
        Some("names no host")
    } else if parts.port.is_some_and(|port| !port.is_empty() && !is_port(port)) {
        Some("has a port that is no number up to 65535")
    } else if url.contains(|c: char| c.is_whitespace() || c.is_control()) {
        Some("holds white space")
    } else {
        None
    }
}

/// A text without the user names and passwords of the URLs in it.
pub(crate) fn hide_credentials(text: &str) -> Cow<'_, str> {
    let mut out = String::new();
    let mut rest = text;
    while let Some(at) = rest.find("://") {
        let (before, url) = rest.split_at(at + "://".len());
        let end = end_of_url(url);
        let user = Parts::of(&rest[at..at + "://".len() + end]).user.map_or(0, str::len);
        out.push_str(before);
        if user > 0 {
            out.push_str(HIDDEN);
        }
        out.push_str(&url[user..end]);
        rest = &url[end..];
    }
    if out.is_empty() {
        return Cow::Borrowed(text);
    }
    out.push_str(rest);
    Cow::Owned(out)
}

/// Where a URL in a text ends: at white space, or at a quote that is not escaped.
fn end_of_url(text: &str) -> usize {
    let mut is_escaped = false;
    for (at, c) in text.char_indices() {
        if c.is_whitespace() || (!is_escaped && matches!(c, '"' | '\'')) {
            return at;
        }
        is_escaped = c == '\\' && !is_escaped;
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scheme_host_and_port_are_shown() {
        for (url, expected) in [
            ("http://127.0.0.1:8889/path?token=secret#x", "http://127.0.0.1:8889"),
            ("https://user:secret@[::1]:8443/filter", "https://[::1]:8443"),
            ("https://secret@host", "https://host"),
            ("http://user:secr@et@host:80", "http://host:80"),
            ("http://user:sec/ret@host:80/x", "http://host:80"),
            ("http://user:secret", "http://user"),
            ("user:secret@host:80/x", "host:80"),
            ("127.0.0.1:8889", "127.0.0.1:8889"),
            ("http://host/path@v1", "http://host"),
            ("[::1]:80", "[::1]:80"),
            ("", ""),
        ] {
            assert_eq!(shown(url), expected, "{url}");
        }
    }

    #[test]
    fn credentials_are_hidden_in_a_text_and_nothing_else_changes() {
        for (text, expected) in [
            (r#""urlPrefix": "http://user:secret@host:80/x","#, r#""urlPrefix": "http://***@host:80/x","#),
            (r#"a http://u:s\"s@h b https://t@i c"#, "a http://***@h b https://***@i c"),
            ("image: x@sha256:1\nurl: http://host/a@b\n://", "image: x@sha256:1\nurl: http://host/a@b\n://"),
            ("nothing", "nothing"),
        ] {
            assert_eq!(hide_credentials(text), expected);
        }
    }

    #[test]
    fn an_http_client_needs_a_scheme_a_host_and_a_port_that_is_a_number() {
        for url in ["http://a", "HTTPS://a.b:1/c", "http://[::1]:80/", "http://u:p@a:65535", "http://a:"] {
            assert_eq!(fault(url), None, "{url}");
        }
        for url in [
            "127.0.0.1:18889",
            "localhost:80",
            "//a",
            "tcp://a",
            "http://",
            "http://:80",
            "http://a:b",
            "http://a:65536",
            "http://a b",
            "",
        ] {
            assert!(fault(url).is_some(), "{url}");
        }
    }
}
