//! The way to the API server: a kubeconfig, or the service account of the pod.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use kube::config::{
    AuthInfo, Cluster, Context, KubeConfigOptions, Kubeconfig, KubeconfigError, NamedAuthInfo, NamedCluster,
    NamedContext,
};
use kube::{Client, Config};

/// Where a pod finds its service account.
pub const SERVICE_ACCOUNT_DIR: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// An API server that does not take a connection in this time counts as away.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// A kubeconfig is missing or wrong
    #[error("cannot use the kubeconfig {0}: {1}")]
    Kubeconfig(String, #[source] Box<KubeconfigError>),
    /// There is neither a kubeconfig nor a service account
    #[error("found neither a kubeconfig (KUBECONFIG, ~/.kube/config) nor a service account in {0}")]
    Nowhere(PathBuf),
    /// The service account is incomplete
    #[error("cannot use the service account in {0}: {1}")]
    ServiceAccount(PathBuf, String),
    /// The client refuses the settings
    #[error("cannot make an API client: {0}")]
    Client(#[source] Box<kube::Error>),
}

/// Where to look for the API server.
#[derive(Clone, Debug)]
pub struct Access {
    /// Path of a kubeconfig, or several with colons between them, as in KUBECONFIG
    pub kubeconfig: Option<String>,
    /// Directory with the files `token` and `ca.crt`
    pub service_account_dir: PathBuf,
}

/// Settings of a client: the kubeconfig if one is named, else the service account, else `~/.kube/config`.
#[expect(clippy::disallowed_methods, reason = "where the API server is, the environment says")]
pub async fn config(access: &Access) -> Result<Config, ConnectError> {
    let mut config = match &access.kubeconfig {
        Some(paths) if !paths.is_empty() => from_kubeconfig(paths).await?,
        _ if access.service_account_dir.join("token").exists() => {
            from_service_account(&access.service_account_dir).await?
        }
        _ => {
            let home = std::env::var_os("HOME").map(|home| PathBuf::from(home).join(".kube/config"));
            let file = home.filter(|file| file.exists());
            let file = file.ok_or_else(|| ConnectError::Nowhere(access.service_account_dir.clone()))?;
            from_kubeconfig(&file.display().to_string()).await?
        }
    };
    config.connect_timeout = Some(CONNECT_TIMEOUT);
    // callers decide how long they wait for an answer
    config.read_timeout = None;
    // callers decide what is repeated, and when
    config.default_retry = false;
    Ok(config)
}

/// A client with these settings.
pub fn connect(config: Config) -> Result<Client, ConnectError> {
    Client::try_from(config).map_err(|error| ConnectError::Client(Box::new(error)))
}

async fn from_kubeconfig(paths: &str) -> Result<Config, ConnectError> {
    let wrong = |error| ConnectError::Kubeconfig(paths.to_owned(), Box::new(error));
    let mut merged = Kubeconfig::default();
    for path in paths.split(':').filter(|path| !path.is_empty()) {
        merged = merged.merge(Kubeconfig::read_from(path).map_err(wrong)?).map_err(wrong)?;
    }
    Config::from_custom_kubeconfig(merged, &KubeConfigOptions::default()).await.map_err(wrong)
}

#[expect(clippy::disallowed_methods, reason = "where the API server is, the environment says")]
async fn from_service_account(dir: &Path) -> Result<Config, ConnectError> {
    let wrong = |why: String| ConnectError::ServiceAccount(dir.to_owned(), why);
    let variable = |name: &str| std::env::var(name).map_err(|_| wrong(format!("{name} is not set")));
    let (host, port) = (variable("KUBERNETES_SERVICE_HOST")?, variable("KUBERNETES_SERVICE_PORT")?);
    let host = if host.contains(':') { format!("[{host}]") } else { host };
    let file = |name: &str| Some(dir.join(name).display().to_string());
    let authority = dir.join("ca.crt").exists().then(|| dir.join("ca.crt"));
    let cluster = Cluster {
        server: Some(format!("https://{host}:{port}")),
        certificate_authority: authority.as_ref().and_then(|_| file("ca.crt")),
        ..Cluster::default()
    };
    let user = AuthInfo { token_file: file("token"), ..AuthInfo::default() };
    let namespace = std::fs::read_to_string(dir.join("namespace")).ok().map(|text| text.trim().to_owned());
    let name = "pod".to_owned();
    let context = Context { cluster: name.clone(), user: Some(name.clone()), namespace, ..Context::default() };
    let kubeconfig = Kubeconfig {
        clusters: vec![NamedCluster { name: name.clone(), cluster: Some(cluster), other: BTreeMap::default() }],
        auth_infos: vec![NamedAuthInfo { name: name.clone(), auth_info: Some(user), other: BTreeMap::default() }],
        contexts: vec![NamedContext { name: name.clone(), context: Some(context), other: BTreeMap::default() }],
        current_context: Some(name),
        ..Kubeconfig::default()
    };
    let options = KubeConfigOptions::default();
    let loaded = Config::from_custom_kubeconfig(kubeconfig, &options).await;
    let mut config = loaded.map_err(|error| wrong(root_cause(&error)))?;
    // read again from time to time, since authorities are replaced
    config.root_cert_file = authority;
    Ok(config)
}

/// An error in one line: the API server's own words where there are some, else what went wrong at the bottom.
pub fn root_cause(error: &(dyn std::error::Error + 'static)) -> String {
    let mut deepest = error;
    loop {
        if let Some(kube::Error::Api(status)) = deepest.downcast_ref() {
            return format!("{} (code {})", status.message.replace('\n', " "), status.code);
        }
        match deepest.source() {
            Some(cause) => deepest = cause,
            None => return deepest.to_string().replace('\n', " "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_named_kubeconfig_that_is_missing_is_an_error_and_no_reason_to_look_elsewhere() {
        let access = Access { kubeconfig: Some("/nowhere/kubeconfig".to_owned()), service_account_dir: "/".into() };
        let error = config(&access).await.expect_err("it is missing").to_string();
        assert!(error.contains("/nowhere/kubeconfig"), "{error}");
    }
}
