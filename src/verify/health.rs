//! The scheduler's own health endpoint, on this node.
//!
//! Its certificate is made by itself at every start, so there is nothing to check it against. Nothing is sent but the
//! question, no credential above all, and the answer only ever delays or confirms what the cluster says.

use std::time::Duration;

use hyper::{Request, Uri};
use kube::{Client, Config};

/// A scheduler on the same machine answers at once, or not at all.
const PATIENCE: Duration = Duration::from_secs(1);

/// Asks one endpoint.
#[derive(Clone)]
pub struct Health {
    client: Client,
    path: String,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Health {
    /// For an address like `https://127.0.0.1:10259/livez`; none if it is no address.
    pub fn at(url: &str) -> Option<Self> {
        let url: Uri = url.parse().ok()?;
        let path = url.path().to_owned();
        let origin = format!("{}://{}", url.scheme_str()?, url.authority()?);
        let mut config = Config::new(origin.parse().ok()?);
        config.accept_invalid_certs = true;
        // none: the system's own are not needed, and an image that holds nothing but the program has none
        config.root_cert = Some(Vec::new());
        config.connect_timeout = Some(PATIENCE);
        config.proxy_url = None;
        Some(Self { client: Client::try_from(config).ok()?, path })
    }

    /// Asks by a client that is there already.
    pub fn by(client: Client, path: &str) -> Self {
        Self { client, path: path.to_owned() }
    }

    /// Whether it says that it is well. Who refuses to tell a stranger (flags may close the path) is there at least.
    pub async fn is_well(&self) -> bool {
        let Ok(request) = Request::get(&self.path).body(Vec::new()) else { return false };
        match tokio::time::timeout(PATIENCE, self.client.request_text(request)).await {
            Ok(Ok(_)) => true,
            Ok(Err(kube::Error::Api(status))) => matches!(status.code, 401 | 403),
            _ => false,
        }
    }
}
