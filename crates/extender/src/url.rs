//! The URL of Prometheus, as far as it is needed: scheme, host, port, path.

/// Where a server is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Url {
    /// Whether it speaks TLS
    pub is_https: bool,
    /// Host name or address, without brackets
    pub host: String,
    /// Port
    pub port: u16,
    /// Path without a slash at its end
    pub path: String,
}

impl Url {
    /// Reads a URL; the error says what is wrong.
    pub fn parse(text: &str) -> Result<Self, String> {
        let example = "; a URL is http://prometheus.monitoring.svc:9090";
        let is_credential = |part: &str| part.contains('@');
        if text.split("://").last().and_then(|rest| rest.split('/').next()).is_some_and(is_credential) {
            return Err("a password in the url would end up in logs; use basicAuthFile".to_owned());
        }
        let (scheme, rest) = text.split_once("://").ok_or_else(|| format!("{text:?} has no scheme{example}"))?;
        let is_https = match scheme {
            "http" => false,
            "https" => true,
            _ => return Err(format!("{scheme}:// is not supported{example}")),
        };
        let (authority, path) = rest.find('/').map_or((rest, ""), |slash| rest.split_at(slash));
        if path.contains(['?', '#']) || !path.is_ascii() || path.contains(char::is_whitespace) {
            return Err(format!("{text:?} has more than scheme, host, port and path{example}"));
        }
        let (host, port) = match authority.strip_prefix('[') {
            Some(inner) => {
                let (host, rest) =
                    inner.split_once(']').ok_or_else(|| format!("{text:?} has no closing ]{example}"))?;
                (host, rest.strip_prefix(':'))
            }
            None => authority.split_once(':').map_or((authority, None), |(host, port)| (host, Some(port))),
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || "-._:%".contains(c);
        if host.is_empty() || !host.chars().all(is_host) {
            return Err(format!("{text:?} has no valid host{example}"));
        }
        let port = match port {
            None => {
                if is_https {
                    443
                } else {
                    80
                }
            }
            Some(port) => {
                port.parse().ok().filter(|port| *port != 0).ok_or_else(|| format!("{port:?} is no port{example}"))?
            }
        };
        Ok(Self { is_https, host: host.to_owned(), port, path: path.trim_end_matches('/').to_owned() })
    }

    /// Value of the Host header.
    pub fn authority(&self) -> String {
        if self.host.contains(':') {
            format!("[{}]:{}", self.host, self.port)
        } else {
            format!("{}:{}", self.host, self.port)
        }
    }
}

/// A text as a value of a form.
pub fn form_encode(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len() + text.len() / 4);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            encoded.push('%');
            for digit in [byte >> 4, byte & 15] {
                encoded.push(char::from_digit(u32::from(digit), 16).unwrap_or('0').to_ascii_uppercase());
            }
        }
    }
    encoded
}

/// The value of a form as text; what is not valid stays as it is.
pub fn form_decode(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let hex = |at: usize| tail.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        if let (b'%', Some(high), Some(low)) = (first, hex(0), hex(1)) {
            bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'%'));
            rest = &tail[2..];
        } else {
            bytes.push(if *first == b'+' { b' ' } else { *first });
            rest = tail;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_read_with_their_defaults() {
        let url = Url::parse("http://prometheus.monitoring.svc:9090/prefix/").expect("it is one");
        assert_eq!((url.host.as_str(), url.port, url.path.as_str()), ("prometheus.monitoring.svc", 9090, "/prefix"));
        assert_eq!(Url::parse("https://a").expect("it is one").port, 443);
        assert_eq!(Url::parse("http://[::1]:9090").expect("it is one").authority(), "[::1]:9090");
        for wrong in [
            "",
            "a:9090",
            "ftp://a",
            "http://",
            "http://a:0",
            "http://a:x",
            "http://u:p@a",
            "http://a/b?c",
            "http://a b",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        for secret in ["http://u:secret@a", "u:secret@a:9090", "ftp://u:secret@a/x"] {
            let error = Url::parse(secret).expect_err("a password");
            assert!(!error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn what_is_encoded_is_decoded_again() {
        let query = "sum by (node) (rate(a{b=\"ü+ &%\"}[5m]))\n";
        assert_eq!(form_decode(&form_encode(query)), query);
        assert_eq!(form_decode("a+b%2Fc%zz%"), "a b/c%zz%");
    }
}
