//! Wires the parts: poller, watches, reloads, server.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use rustls::ServerConfig;
use schedpatch_service::api::Api;
use schedpatch_service::feed::{self, Change, Query, Watched};
use schedpatch_service::http::{self, Answer};
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use crate::config::{self, Config, ConfigError};
use crate::metrics as m;
use crate::nodes::{self, Nodes};
use crate::pods;
use crate::poll::Poller;
use crate::serve::{Server, metrics_text, ready_text};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::tls::{self, TlsError};
use crate::wake::wake;
use crate::watchfile::Files;

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
    warn_of(&first);
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
        tasks.push(tokio::spawn(follow_nodes(api.clone(), Arc::clone(&nodes), config.clone())));
        tasks.push(tokio::spawn(follow_pods(api.clone(), Arc::clone(&state), config.clone())));
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

/// Logs what `check` warns of.
fn warn_of(config: &Config) {
    for warning in config::warnings(config) {
        tracing::warn!("{warning}");
    }
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
            warn_of(&config);
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

/// Follows pods while the configuration needs them.
async fn follow_pods(api: Api, state: Arc<State>, mut config: watch::Receiver<Arc<Config>>) {
    while config.wait_for(|config| config.needs_pods()).await.is_ok() {
        let take = |change| state.tracker().take(change, Instant::now(), Timestamp::now());
        tokio::select! {
            () = followed(&api, pods::query(), take) => return,
            changed = config.wait_for(|config| !config.needs_pods()) => if changed.is_err() { return },
        }
        // the chart takes the permission away with the need: what nobody follows is not true for long
        state.tracker().forget();
    }
}

/// Follows objects for ever.
async fn followed<T: Watched + Sync>(api: &Api, query: Query, take: impl Fn(Change<T>)) {
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
    tokio::join!(feed::follow(api.clone(), query, LIST_PAUSE, sink), taking);
}

/// Follows nodes while the configuration needs them, and begins anew when policies need other labels of them.
async fn follow_nodes(api: Api, nodes: Arc<Nodes>, mut config: watch::Receiver<Arc<Config>>) {
    while config.wait_for(|config| config.needs_nodes()).await.is_ok() {
        let labels = config.borrow_and_update().node_labels();
        nodes.keep_labels(labels.clone());
        let is_other = |config: &Arc<Config>| !config.needs_nodes() || config.node_labels() != labels;
        tokio::select! {
            () = followed(&api, nodes::query(), |change| nodes.take(change)) => return,
            changed = config.wait_for(is_other) => if changed.is_err() { return },
        }
        if !config.borrow().needs_nodes() {
            nodes.forget();
        }
    }
}

fn probe(state: &State, path: &str) -> Answer {
    match path {
        "/livez" | "/healthz" => Answer::ok("ok\n"),
        "/readyz" => match ready_text(state, false) {
            Ok(text) => Answer::ok(text),
            Err(text) => Answer::unavailable(text),
        },
        "/metrics" => Answer::ok(metrics_text(state)),
        _ => Answer::not_found("try /livez, /readyz or /metrics\n"),
    }
}
