//! `schedpatch run`: the agent.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::ValueEnum;
use clap::builder::NonEmptyStringValueParser;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use super::args::{HostArgs, LockArgs, WantedArgs, duration, second_or_more};
use super::lists::{List, all, lines};
use super::output::{block_on, fail};
use super::preflight_args::{Mode, PreflightArgs};
use super::write::now;
use crate::agent::{Agent, Options, Outside, Proof, Release};
use crate::cluster;
use crate::finding::Finding;
use crate::plan::Colour;
use crate::report::{self, Report, Reporter};
use crate::rollout::OnFailure;
use crate::sandbox::Sandbox;
use crate::settings::Settings;
use crate::verify::Limits;

const EXAMPLES: &str = "\
Examples:
  See what it does in half a minute, on a throw-away host with a simulated kubelet and API:
    schedpatch run --sandbox

  As the DaemonSet runs it, with the host's directories below /host:
    schedpatch run --host-root /host --source /etc/schedpatch/source --node-name cp1

  On a host, without any API; nobody proves that the scheduler runs:
    schedpatch run --standalone --source ./scheduler

The endpoint: /livez the loop turns, /readyz the running scheduler is proven at what is wanted, /metrics.
SIGTERM keeps what is applied; in the middle of a change what ran before comes back first.";

/// Where the agent listens if nothing else is given.
const LISTEN: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9471);
const ANY_PORT: SocketAddr = SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 0);
/// The loop turns at least every --resync; after so much more it counts as stuck.
const STUCK_AFTER: Duration = Duration::from_mins(5);
/// How long the last report may take at shutdown.
const LAST_WORD: Duration = Duration::from_secs(2);

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Verify {
    /// The scheduler's mirror pod must show it
    MirrorPod,
    /// Nothing is proven: the phase stays Unknown
    None,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum OnFailureArg {
    /// Every node that carries the failed configuration goes back to the one before, one by one
    Back,
    /// The others keep what they have
    Stop,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum LogFormat {
    /// For people
    Text,
    /// One object a line
    Json,
}

/// Keep this node's scheduler at what is wanted: the agent
///
/// Looks when a source, the manifest or the scheduler's pod changes, applies what `schedpatch plan` shows, proves that the
/// running scheduler carries it, and takes it back when it does not come up. Tells where it is by the node's annotations
/// (schedpatch.io/phase and more), by events, by /readyz and /metrics, and by one log line for each change.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(flatten)]
    host: HostArgs,

    /// Name of this node
    #[arg(long, value_name = "NAME", env = "NODE_NAME")]
    node_name: Option<String>,

    /// How to reach the API; by default KUBECONFIG or ~/.kube/config, else the pod's service account
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_KUBECONFIG")]
    kubeconfig: Option<PathBuf>,

    /// Run without any API: nothing is verified, nothing is reported to the cluster
    #[arg(long, env = "SCHEDPATCH_STANDALONE")]
    standalone: bool,

    /// Show what the agent does, on a throw-away host tree with a simulated kubelet and API; other flags but --listen and
    /// --log-* have no effect
    #[arg(long)]
    sandbox: bool,

    /// What counts as proof that the scheduler runs with it
    #[arg(long, value_name = "HOW", default_value = "mirror-pod", value_enum, env = "SCHEDPATCH_VERIFY")]
    verify: Verify,

    #[command(flatten)]
    preflight: PreflightArgs,

    /// So long the scheduler must stay ready before it counts as proven
    #[arg(long, value_name = "TIME", default_value = "10s", env = "SCHEDPATCH_SETTLE", value_parser = duration)]
    settle: Duration,

    /// So long the scheduler may take to come up before it is taken back
    #[arg(long, value_name = "TIME", default_value = "5m", env = "SCHEDPATCH_VERIFY_TIMEOUT", value_parser = second_or_more)]
    verify_timeout: Duration,

    /// Look at everything this often, even when nothing seems to change
    #[arg(long, value_name = "TIME", default_value = "10m", env = "SCHEDPATCH_RESYNC", value_parser = second_or_more)]
    resync: Duration,

    /// What the other nodes do when a configuration fails on one
    #[arg(long, value_name = "WHAT", default_value = "back", value_enum, env = "SCHEDPATCH_ON_FAILURE")]
    on_failure: OnFailureArg,

    /// On k3s with two servers that run etcd: change them all the same, though the API stands still while either restarts
    #[arg(long, env = "SCHEDPATCH_ALLOW_QUORUM_LOSS")]
    allow_quorum_loss: bool,

    /// A ConfigMap with what is wanted, read through the API; may be given several times, and in the environment one on each line.
    /// The directories of --source show the same ConfigMaps in the same order, for commands in the pod and for an agent that may
    /// not read them
    #[arg(long = "config-map", value_name = "NAME", env = "SCHEDPATCH_CONFIG_MAP", value_parser = lines(NonEmptyStringValueParser::new()))]
    config_maps: Vec<List<String>>,

    /// Namespace of the ConfigMaps and of the DaemonSet
    #[arg(long, value_name = "NAME", default_value = "default", env = "SCHEDPATCH_NAMESPACE")]
    namespace: String,

    /// Name of the DaemonSet that runs this agent
    #[arg(long, value_name = "NAME", env = "SCHEDPATCH_DAEMON_SET")]
    daemon_set: Option<String>,

    /// Which template of that DaemonSet this agent was started from: the pod's label pod-template-generation
    #[arg(long, value_name = "NUMBER", default_value_t = 0, env = "SCHEDPATCH_TEMPLATE_GENERATION")]
    template_generation: i64,

    /// Address of /livez, /readyz and /metrics [default: 127.0.0.1:9471; with --sandbox another port where that one is taken]
    #[arg(long, value_name = "ADDRESS", env = "SCHEDPATCH_LISTEN")]
    listen: Option<SocketAddr>,

    /// Form of the log, on standard error
    #[arg(long, value_name = "FORM", default_value = "text", value_enum, env = "SCHEDPATCH_LOG_FORMAT")]
    log_format: LogFormat,

    /// How much is logged: off, error, warn, info, debug or trace
    #[arg(long, value_name = "LEVEL", default_value = "info", env = "SCHEDPATCH_LOG_LEVEL")]
    log_level: LevelFilter,

    /// Where a fatal error is left for the kubelet, if this file is there
    #[arg(long, value_name = "FILE", default_value = "/dev/termination-log", env = "SCHEDPATCH_TERMINATION_LOG")]
    termination_log: PathBuf,

    #[command(flatten)]
    lock: LockArgs,

    #[command(flatten)]
    wanted: WantedArgs,
}

impl Args {
    pub(super) fn is_empty(&self) -> bool {
        self.wanted.is_empty() && self.config_maps.is_empty() && !self.sandbox
    }

    pub(super) fn needs_node(&self) -> bool {
        self.node_name.is_none() && !self.standalone && !self.sandbox
    }

    pub(super) fn run(self) -> ExitCode {
        let termination_log = self.termination_log.clone();
        match block_on(self.serve()) {
            Ok(()) => ExitCode::SUCCESS,
            Err(finding) => {
                leave_word(&termination_log, &finding);
                fail(&[finding], Colour::Off)
            }
        }
    }

    async fn serve(self) -> Result<(), Finding> {
        self.begin_log();
        let shutdown = shutdown()?;
        let sandbox = if self.sandbox { Some(Sandbox::make()?) } else { None };
        // each thread has connections of its own: who waits for a disk must not hold up who reports
        let connect = || cluster::connect(self.kubeconfig.as_deref(), None);
        let (outside, reporting) = match &sandbox {
            Some(sandbox) => (sandbox.outside(), Some(sandbox.client())),
            None if self.standalone => (Outside::real(None), None),
            None => (Outside::real(Some(connect().await?)), Some(connect().await?)),
        };
        let (report, receiver) = watch::channel(Report::pending(now()));
        let (turned, last_turn) = watch::channel(Instant::now());
        let serve = |address| report::serve(address, receiver.clone(), last_turn.clone(), self.resync + STUCK_AFTER);
        let bound = match serve(self.listen.unwrap_or(LISTEN)).await {
            // a person who tries it out needs no particular port
            Err(_) if self.sandbox && self.listen.is_none() => serve(ANY_PORT).await?,
            bound => bound?,
        };
        let options = if self.sandbox { Sandbox::options(now) } else { self.options() };
        let settings = if let Some(sandbox) = &sandbox {
            sandbox.settings()
        } else {
            let preflight = self.preflight.setting(Mode::On);
            let platforms = self.host.k3s(!self.standalone && self.verify != Verify::None).platforms();
            Settings { platforms, preflight, ..self.wanted.add_to(self.host.settings()) }
        };
        let (node, standalone) = (options.node.clone(), reporting.is_none());
        tracing::info!(version = env!("CARGO_PKG_VERSION"), node, standalone, listen = %bound, "schedpatch begins");
        let story = sandbox.as_ref().map(|sandbox| sandbox.start(bound, now, receiver.clone()));
        let reporter = reporting.map(|client| tokio::spawn(Reporter::new(client, &node).follow(receiver)));
        let ended = on_its_own_thread(Agent::new(settings, options, outside, report, turned), shutdown).await;
        drop(story);
        if let Some(reporter) = reporter {
            // send the last report too, if the API takes it
            let _ = tokio::time::timeout(LAST_WORD, reporter).await;
        }
        drop(sandbox);
        ended
    }

    fn options(&self) -> Options {
        Options {
            node: self.node_name.clone().unwrap_or_default(),
            proof: if self.standalone || self.verify == Verify::None { Proof::None } else { Proof::Observation },
            limits: Limits { settle: self.settle, timeout: self.verify_timeout },
            resync: self.resync,
            on_failure: match self.on_failure {
                OnFailureArg::Back => OnFailure::Back,
                OnFailureArg::Stop => OnFailure::Stop,
            },
            allows_quorum_loss: self.allow_quorum_loss,
            release: Release {
                namespace: self.namespace.clone(),
                daemon_set: self.daemon_set.clone(),
                template: self.template_generation,
                config_maps: all(self.config_maps.clone()),
            },
            lock_timeout: self.lock.lock_timeout,
            clock: now,
        }
    }

    fn begin_log(&self) {
        // errors of libraries are logged by us, in our words
        let others = if self.log_level >= LevelFilter::DEBUG { LevelFilter::WARN } else { LevelFilter::OFF };
        let own = Targets::new().with_default(others).with_target("schedpatch", self.log_level);
        let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(false);
        let log = tracing_subscriber::registry().with(own);
        // a second one in this process would be a mistake of ours, and no reason to stop
        let _ = match self.log_format {
            LogFormat::Text => log.with(lines).try_init(),
            LogFormat::Json => log.with(lines.json().flatten_event(true)).try_init(),
        };
    }
}

/// The agent waits for disks; who asks how it is doing must be answered meanwhile.
async fn on_its_own_thread(agent: Agent, shutdown: impl Future<Output = ()>) -> Result<(), Finding> {
    let wrong = |why: String| Finding::error("thread", why, "see the log, and ulimit -u");
    let (stop, stopped) = oneshot::channel::<()>();
    let (end, mut ended) = oneshot::channel();
    let run = move || {
        let _ = end.send(block_on(agent.run(async {
            let _ = stopped.await;
        })));
    };
    std::thread::Builder::new().name("agent".to_owned()).spawn(run).map_err(|error| wrong(error.to_string()))?;
    let lost = |_| Err(wrong("the agent's thread ended without a word; this is a defect, please report it".to_owned()));
    tokio::select! {
        result = &mut ended => return result.unwrap_or_else(lost),
        () = shutdown => drop(stop.send(())),
    }
    ended.await.unwrap_or_else(lost)
}

/// Done when the process is asked to end.
pub(super) fn shutdown() -> Result<impl Future<Output = ()>, Finding> {
    let wrong = |error: std::io::Error| Finding::error("signals", error.to_string(), "see ulimit -n");
    let mut terminate = signal(SignalKind::terminate()).map_err(wrong)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(wrong)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Leaves the last words where the kubelet looks for them.
#[expect(clippy::disallowed_methods, reason = "the kubelet's file for last words is the pod's, not the host's")]
fn leave_word(file: &std::path::Path, finding: &Finding) {
    use std::io::Write as _;
    let Ok(mut file) = std::fs::OpenOptions::new().write(true).truncate(true).open(file) else { return };
    let _ = writeln!(file, "{}: {}; {}", finding.rule, finding.message, finding.way_out);
}
