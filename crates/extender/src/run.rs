//! Wires the parts: poller, watches, reloads, server.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::ServerConfig;
use schedpatch_service::api::Api;
use schedpatch_service::feed::{self, Change, Query, Watched};
use schedpatch_service::http::{self, Answer};
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::config::{self, Config, ConfigError};
use crate::metrics as m;
use crate::nodes::{self, Nodes};
use crate::pods::{self, Waiting};
use crate::poll::Poller;
use crate::serve::{Server, metrics_text, why_not_ready};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tls::{self, TlsError};
use crate::watchfile::Files;

/// The annotation whose change makes the scheduler try a waiting pod again.
pub const RETRY_ANNOTATION: &str = "schedpatch.io/extender-retry";
/// Pause between two annotations, so that a thousand waiting pods do not become a thousand requests at once.
const WAKE_PAUSE: Duration = Duration::from_millis(10);
/// Pause before a pod is annotated again that the API server did not take.
const WAKE_RETRY: Duration = Duration::from_secs(5);
/// Where watching is not allowed, pods and nodes are listed in this interval.
const LIST_PAUSE: Duration = Duration::from_secs(30);

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configuration file
    pub config: PathBuf,
    /// Where the scheduler asks
    pub listen: SocketAddr,
    /// A further address for probes and metrics, without TLS
    pub probes: Option<SocketAddr>,
    /// Certificate and key of the server
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Where schedpatch is installed
    pub own_namespace: Option<String>,
    /// The weight that the scheduler gives this extender
    pub weight: u32,
}

/// Why the extender cannot run.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The configuration is wrong
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The certificate is wrong
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// The address is taken
    #[error("cannot listen on {0}: {1}; give another address with --listen or --probes")]
    Listen(SocketAddr, std::io::Error),
    /// Policies need Node objects
    #[error(
        "{0}: a policy maps series by InternalIP, hostname or nodeLabel, which needs the API server; leave --standalone out"
    )]
    NeedsNodes(String),
}

/// Runs until `shutdown`.
pub async fn run(settings: Settings, api: Option<Api>, shutdown: impl Future<Output = ()>) -> Result<(), RunError> {
    let (address, running) = start(settings, api).await?;
    tracing::info!(%address, "serving /filter and /prioritize");
    shutdown.await;
    drop(running);
    Ok(())
}

/// What runs; it ends when this is dropped.
#[derive(Debug)]
pub struct Running {
    /// Shared state
    pub state: Arc<State>,
    tasks: Vec<tokio::task::JoinHandle<()>>,
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(tokio::task::JoinHandle::abort);
    }
}

/// Starts everything and returns where it serves.
pub async fn start(settings: Settings, api: Option<Api>) -> Result<(SocketAddr, Running), RunError> {
    let mut files = Files::new(vec![settings.config.clone()]);
    let first = Arc::new(config::load(&settings.config)?);
    if first.needs_nodes() && api.is_none() {
        return Err(RunError::NeedsNodes(settings.config.display().to_string()));
    }
    let certificate = match &settings.tls {
        None => None,
        Some((certificate, key)) => {
            // watched before it is read, so that no renewal falls between the two
            let files = Files::new(vec![certificate.clone(), key.clone()]);
            Some((files, watch::channel(tls::server(certificate, key)?)))
        }
    };
    let snapshot = Snapshot::empty(Arc::clone(&first));
    let state = Arc::new(State::new(snapshot, settings.own_namespace.clone(), settings.weight));
    state.metrics.set(m::CONFIG_CURRENT, "", 1.0);
    let nodes = Arc::new(Nodes::default());
    let (configs, config) = watch::channel(first);
    let (woken, waiting) = mpsc::unbounded_channel();
    let mut tasks = Vec::new();
    if let Some(api) = &api {
        let (own, followed) = (Arc::clone(&nodes), config.clone());
        tasks.push(follow(api, nodes::query(), followed, Config::needs_nodes, move |change| own.take(change)));
        let (own, followed) = (Arc::clone(&state), config.clone());
        let take = move |change| own.tracker().take(change, Instant::now());
        tasks.push(follow(api, pods::query(), followed, Config::needs_pods, take));
        tasks.push(tokio::spawn(wake(api.clone(), Arc::clone(&state), waiting)));
    }
    let poller = Poller { state: Arc::clone(&state), nodes: Arc::clone(&nodes), config, woken };
    tasks.push(tokio::spawn(poller.run()));
    let (own, path, has_api) = (Arc::clone(&state), settings.config.clone(), api.is_some());
    tasks.push(tokio::spawn(async move {
        loop {
            files.changed().await;
            reload(&own, &path, has_api, &configs);
        }
    }));
    let mut receiver = None;
    if let (Some((files, (sender, current))), Some((certificate, key))) = (certificate, settings.tls) {
        receiver = Some(current);
        tasks.push(tokio::spawn(renew(Arc::clone(&state), files, certificate, key, sender)));
    }
    let server = Server::new(Arc::clone(&state), nodes, api);
    let listening = server.serve(settings.listen, receiver).await;
    let address = listening.map_err(|error| RunError::Listen(settings.listen, error))?;
    if let Some(probes) = settings.probes {
        let own = Arc::clone(&state);
        let answer = move |path: String| std::future::ready(probe(&own, &path));
        http::serve(probes, answer).await.map_err(|error| RunError::Listen(probes, error))?;
    }
    Ok((address, Running { state, tasks }))
}

/// Takes up a changed file. A wrong one changes nothing, and the log and a metric say so.
fn reload(state: &State, file: &std::path::Path, has_api: bool, configs: &watch::Sender<Arc<Config>>) {
    let loaded = config::load(file).map_err(RunError::from).and_then(|config| {
        if config.needs_nodes() && !has_api {
            return Err(RunError::NeedsNodes(file.display().to_string()));
        }
        Ok(config)
    });
    match loaded {
        Ok(config) if config == **configs.borrow() => state.metrics.set(m::CONFIG_CURRENT, "", 1.0),
        Ok(config) => {
            tracing::info!(policies = config.policies.len(), "the changed configuration is in use");
            state.metrics.add(m::RELOADS, "used", 1);
            state.metrics.set(m::CONFIG_CURRENT, "", 1.0);
            configs.send_replace(Arc::new(config));
        }
        Err(error) => {
            tracing::error!(%error, "the changed configuration is wrong; the one before stays in use");
            state.metrics.add(m::RELOADS, "wrong", 1);
            state.metrics.set(m::CONFIG_CURRENT, "", 0.0);
        }
    }
}

/// Takes up a renewed certificate; connections that are open keep the old one.
async fn renew(
    state: Arc<State>,
    mut files: Files,
    certificate: PathBuf,
    key: PathBuf,
    sender: watch::Sender<Arc<ServerConfig>>,
) {
    loop {
        files.changed().await;
        match tls::server(&certificate, &key) {
            Ok(config) => {
                tracing::info!("the renewed certificate is in use");
                state.metrics.add(m::CERTIFICATES, "used", 1);
                sender.send_replace(config);
            }
            Err(error) => {
                tracing::error!(%error, "the renewed certificate is wrong; the one before stays in use");
                state.metrics.add(m::CERTIFICATES, "wrong", 1);
            }
        }
    }
}

/// Follows objects while the configuration needs them.
fn follow<T: Watched + Sync>(
    api: &Api,
    query: Query,
    mut config: watch::Receiver<Arc<Config>>,
    is_needed: fn(&Config) -> bool,
    take: impl Fn(Change<T>) + Send + Sync + 'static,
) -> tokio::task::JoinHandle<()> {
    let api = api.clone();
    tokio::spawn(async move {
        if config.wait_for(|config| is_needed(config)).await.is_err() {
            return;
        }
        let (sink, mut changes) = mpsc::channel(64);
        let mut why = String::new();
        let taking = async {
            while let Some(change) = changes.recv().await {
                match &change {
                    Change::Lost(now) if *now != why => {
                        tracing::warn!(why = now, "the API server does not show what is needed; trying again");
                        why.clone_from(now);
                    }
                    Change::Reset(_) | Change::Found => why.clear(),
                    _ => {}
                }
                take(change);
            }
        };
        tokio::join!(feed::follow(api, query, LIST_PAUSE, sink), taking);
    })
}

/// Changes an annotation of waiting pods, upon which the scheduler tries them again.
async fn wake(api: Api, state: Arc<State>, mut recovered: mpsc::UnboundedReceiver<Vec<Waiting>>) {
    let mut pods: BTreeMap<(String, String), String> = BTreeMap::new();
    let name = |pod: Waiting| ((pod.namespace, pod.name), pod.uid);
    loop {
        if pods.is_empty() {
            let Some(more) = recovered.recv().await else { return };
            tracing::info!(
                pods = more.len(),
                "the scheduler is made to try waiting pods again, since a node recovered, policies changed or the extender restarted"
            );
            pods.extend(more.into_iter().map(name));
        }
        while let Ok(more) = recovered.try_recv() {
            pods.extend(more.into_iter().map(name));
        }
        let Some(((namespace, pod), uid)) = pods.pop_first() else { continue };
        let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
        let patch = json!({ "metadata": { "uid": uid, "annotations": { RETRY_ANNOTATION: time } } });
        let list = format!("/api/v1/namespaces/{namespace}/pods");
        match api.patch(&list, &pod, &patch, "application/merge-patch+json").await {
            Ok(()) => state.metrics.add(m::WOKEN, "woken", 1),
            // deleted meanwhile, or another one has its name now
            Err(error) if [404, 409, 422].contains(&error.code()) => {}
            Err(error) => {
                state.metrics.add(m::WOKEN, "failed", 1);
                let is_refused = (400..500).contains(&error.code()) && error.code() != 429;
                if is_refused {
                    tracing::warn!(pod, namespace, %error, "cannot annotate a waiting pod; it waits until the scheduler tries it by itself (needs permission to patch pods)");
                } else {
                    tracing::warn!(pod, namespace, %error, "cannot annotate a waiting pod now; trying again");
                    pods.insert((namespace, pod), uid);
                    tokio::time::sleep(WAKE_RETRY).await;
                }
            }
        }
        tokio::time::sleep(WAKE_PAUSE).await;
    }
}

fn probe(state: &State, path: &str) -> Answer {
    match path {
        "/livez" | "/healthz" => Answer::ok("ok\n"),
        "/readyz" => match why_not_ready(state) {
            None => Answer::ok("ok: at least one policy has fresh values\n"),
            Some(why) => Answer::unavailable(format!("no policy has fresh values, every node is neutral:\n{why}\n")),
        },
        "/metrics" => Answer::ok(metrics_text(state)),
        _ => Answer::not_found("try /livez, /readyz or /metrics\n"),
    }
}
