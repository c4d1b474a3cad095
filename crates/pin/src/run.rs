//! Wires the parts: one pass, or the daemon with its watches, endpoints and election.

use std::net::SocketAddr;
use std::time::Duration;

use kube::Client;
use schedpatch_service::feed::{Change, Query, Watched, follow};
use schedpatch_service::http::{self, Answer};
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch};

use crate::api::{Api, ApiError};
use crate::attempt::Attempt;
use crate::counters::Counters;
use crate::decide::{Checks, Mode};
use crate::engine::{Engine, Input, Readiness};
use crate::events::Recorder;
use crate::facts::Facts;
use crate::labels::Labels;
use crate::lead::Candidate;
use crate::model::{Node, OPT_IN_LABEL, Pod};
use crate::state::State;

/// Changes that wait to be taken up; a watch that is faster waits.
const INPUTS: usize = 256;
/// A loop that does not answer in this time is stuck.
const PING_TIMEOUT: Duration = Duration::from_secs(5);

/// What is wanted.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Labels of this scheduler
    pub labels: Labels,
    /// What is checked before a pod is placed
    pub checks: Checks,
    /// Which pods are served
    pub modes: Vec<Mode>,
    /// Pause between two looks at what no watch shows, and between lists where watching is not allowed
    pub delay: Duration,
}

impl Settings {
    /// Which pods a mode is about. Bound pods are not asked for, and neither are those of others.
    pub fn pods(&self, mode: Mode) -> Query {
        let name = self.labels.name();
        match mode {
            Mode::Bind => Query {
                path: "/api/v1/pods",
                fields: format!("spec.schedulerName={name},spec.nodeName="),
                labels: String::new(),
            },
            Mode::Gate => Query {
                path: "/api/v1/pods",
                fields: "spec.nodeName=".to_owned(),
                labels: format!("{OPT_IN_LABEL}={name}"),
            },
        }
    }

    fn attempt(&self, api: &Api) -> Attempt {
        let facts = Facts::new(api.clone());
        Attempt { api: api.clone(), facts, labels: self.labels.clone(), checks: self.checks, leads_until: None }
    }
}

/// All nodes.
pub fn nodes() -> Query {
    Query { path: "/api/v1/nodes", fields: String::new(), labels: String::new() }
}

/// One pass: every pod that can be placed is placed. Returns how many requests failed.
pub async fn pass(client: Client, settings: &Settings, counters: Counters) -> Result<usize, ApiError> {
    let api = Api::new(client);
    let (nodes, _) = api.list::<Node>(nodes().path, &nodes().list()).await?;
    let mut pods = Vec::new();
    for mode in &settings.modes {
        let query = settings.pods(*mode);
        pods.push((*mode, api.list::<Pod>(query.path, &query.list()).await?.0));
    }
    let state = State::new(settings.labels.clone(), settings.checks);
    let (engine, _) = Engine::new(state, settings.attempt(&api), settings.delay, counters, None, &[]);
    Ok(engine.pass(nodes, pods).await)
}

/// The daemon, ready to run.
#[derive(Debug)]
pub struct Daemon {
    engine: Engine,
    inputs: (Sender<Input>, Receiver<Input>),
    readiness: watch::Receiver<Readiness>,
    counters: Counters,
    candidate: Option<(Candidate, watch::Sender<Option<tokio::time::Instant>>)>,
    api: Api,
    settings: Settings,
}

impl Daemon {
    /// Prepares the daemon; nothing is asked of the API yet.
    pub fn new(
        client: Client,
        settings: Settings,
        candidate: Option<Candidate>,
        identity: &str,
        counters: Counters,
    ) -> Self {
        let api = Api::new(client);
        let mut attempt = settings.attempt(&api);
        let candidate = candidate.map(|candidate| {
            let (sender, until) = watch::channel(None);
            attempt.leads_until = Some(until);
            (candidate, sender)
        });
        let recorder = Recorder::start(api.clone(), settings.labels.name(), identity, counters.clone());
        let mut sources = vec!["nodes"];
        sources.extend(settings.modes.iter().map(|mode| if *mode == Mode::Bind { "pods" } else { "gated pods" }));
        let state = State::new(settings.labels.clone(), settings.checks);
        let (engine, readiness) =
            Engine::new(state, attempt, settings.delay, counters.clone(), Some(recorder), &sources);
        Self { engine, inputs: channel(INPUTS), readiness, counters, candidate, api, settings }
    }

    /// Serves the metrics on any path of this address.
    pub async fn serve_metrics(&self, address: SocketAddr) -> std::io::Result<SocketAddr> {
        let counters = self.counters.clone();
        http::serve(address, move |_| std::future::ready(Answer::ok(counters.text()))).await
    }

    /// Serves /livez, /readyz and /metrics on this address.
    pub async fn serve_probes(&self, address: SocketAddr) -> std::io::Result<SocketAddr> {
        let (inputs, readiness, counters) = (self.inputs.0.clone(), self.readiness.clone(), self.counters.clone());
        let answer = move |path: String| {
            let (inputs, readiness, counters) = (inputs.clone(), readiness.clone(), counters.clone());
            async move {
                match path.as_str() {
                    "/livez" | "/healthz" => livez(&inputs).await,
                    "/readyz" => readyz(&readiness.borrow()),
                    "/metrics" => Answer::ok(counters.text()),
                    _ => Answer::not_found("try /livez, /readyz or /metrics\n"),
                }
            }
        };
        http::serve(address, answer).await
    }

    /// Runs until `shutdown`, and gives the lease back.
    pub async fn run(self, shutdown: impl Future<Output = ()>) {
        let (inputs, receiver) = self.inputs;
        let delay = self.settings.delay;
        let mut tasks = vec![source(&self.api, nodes(), delay, &inputs, Input::Nodes)];
        for mode in self.settings.modes.clone() {
            tasks.push(source(&self.api, self.settings.pods(mode), delay, &inputs, move |change| {
                Input::Pods(mode, change)
            }));
        }
        let candidate = self.candidate.map(|(candidate, until)| {
            tasks.push(tokio::spawn(candidate.clone().run(until)));
            candidate
        });
        self.engine.run(receiver, shutdown).await;
        tasks.iter().for_each(tokio::task::JoinHandle::abort);
        if let Some(candidate) = candidate {
            candidate.release().await;
        }
    }
}

/// Follows a kind of object and passes its changes on.
fn source<T: Watched>(
    api: &Api,
    query: Query,
    delay: Duration,
    inputs: &Sender<Input>,
    wrap: impl Fn(Change<T>) -> Input + Send + Sync + 'static,
) -> tokio::task::JoinHandle<()> {
    let (api, inputs) = (api.clone(), inputs.clone());
    tokio::spawn(async move {
        let (sink, mut changes) = channel(1);
        let passing = async {
            while let Some(change) = changes.recv().await {
                if inputs.send(wrap(change)).await.is_err() {
                    return;
                }
            }
        };
        tokio::join!(follow((*api).clone(), query, delay, sink), passing);
    })
}

async fn livez(inputs: &Sender<Input>) -> Answer {
    let (ping, answer) = oneshot::channel();
    let turned = async {
        inputs.send(Input::Ping(ping)).await.ok()?;
        answer.await.ok()
    };
    match tokio::time::timeout(PING_TIMEOUT, turned).await {
        Ok(Some(())) => Answer::ok("ok: the loop turns\n"),
        _ => Answer::unavailable(format!("stuck: the loop did not answer in {} s\n", PING_TIMEOUT.as_secs())),
    }
}

fn readyz(readiness: &Readiness) -> Answer {
    let missing = readiness.iter().filter_map(|(source, known)| Some(format!("{source}: {}", known.as_ref().err()?)));
    let missing: Vec<String> = missing.collect();
    if missing.is_empty() {
        Answer::ok("ok: nodes and pods are known\n")
    } else {
        Answer::unavailable(missing.join("\n") + "\n")
    }
}
