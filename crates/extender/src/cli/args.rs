//! Flags and variables.

use std::net::SocketAddr;
use std::path::PathBuf;

use clap::{Parser, Subcommand, ValueEnum};
use schedpatch_service::api::Api;
use schedpatch_service::cli::Output;
use schedpatch_service::client::{self, Access, SERVICE_ACCOUNT_DIR};
use schedpatch_service::log::Format;

const EXAMPLES: &str = "\
Examples:
  Check a configuration file, and see what it would say of the nodes now, without any scheduler:
    schedpatch-extender check extender.yaml
    schedpatch-extender simulate --config extender.yaml --label app=web

  Serve the scheduler:
    schedpatch-extender run --config extender.yaml

  Ask a running extender why a pod went where it went:
    kubectl -n NAMESPACE exec ds/schedpatch-extender -- /schedpatch-extender explain POD -n default

Exit codes: 0 done, 1 failed, 2 wrong usage.";

/// A kube-scheduler extender that scores and filters nodes by what Prometheus knows of them
#[derive(Debug, Parser)]
#[command(name = "schedpatch-extender", version, after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Serve the scheduler
    Run(RunArgs),
    /// Check a configuration file
    Check(CheckArgs),
    /// Print the JSON schema of the configuration file
    Schema,
    /// Ask Prometheus once and show what every node would get, without any scheduler
    Simulate(SimulateArgs),
    /// Ask a running extender what the nodes get for a pod, and why
    Explain(ExplainArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct RunArgs {
    /// Configuration file; a change is taken up while it runs
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_EXTENDER_CONFIG")]
    pub config: PathBuf,

    /// Address for the scheduler, people and probes
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9472", env = "SCHEDPATCH_EXTENDER_LISTEN")]
    pub listen: SocketAddr,

    /// A further address for /livez, /readyz and /metrics, without TLS; none by default
    #[arg(long, value_name = "ADDRESS", env = "SCHEDPATCH_EXTENDER_PROBES")]
    pub probes: Option<SocketAddr>,

    /// Certificate of the server, in PEM form; a renewed one is taken up while it runs
    #[arg(long, value_name = "FILE", requires = "tls_key", env = "SCHEDPATCH_EXTENDER_TLS_CERTIFICATE")]
    pub tls_certificate: Option<PathBuf>,

    /// Key of the server, in PEM form
    #[arg(long, value_name = "FILE", requires = "tls_certificate", env = "SCHEDPATCH_EXTENDER_TLS_KEY")]
    pub tls_key: Option<PathBuf>,

    /// The weight that the scheduler gives this extender; only explanations need it
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000), env = "SCHEDPATCH_EXTENDER_WEIGHT")]
    pub weight: u32,

    /// Where schedpatch is installed: its own pods there are exempt
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub own_namespace: Option<String>,

    /// Run without the API server: no recently bound pods, no recovery, series mapped by node names only
    #[arg(long)]
    pub standalone: bool,

    #[command(flatten)]
    pub access: AccessArgs,

    /// How much is logged
    #[arg(long, value_name = "LEVEL", default_value = "info", value_enum, env = "SCHEDPATCH_EXTENDER_LOG_LEVEL")]
    pub log_level: LogLevel,

    /// Form of the log, on standard error
    #[arg(long, value_name = "FORM", default_value = "text", value_enum, env = "SCHEDPATCH_EXTENDER_LOG_FORMAT")]
    pub log_format: Format,
}

#[derive(Debug, clap::Args)]
pub(super) struct AccessArgs {
    /// Path of a kubeconfig; by default the pod's service account, else ~/.kube/config
    #[arg(long, value_name = "FILE", env = "KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<String>,
}

#[derive(Debug, clap::Args)]
pub(super) struct CheckArgs {
    /// Configuration file
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, clap::Args)]
pub(super) struct SimulateArgs {
    /// Configuration file
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_EXTENDER_CONFIG")]
    pub config: PathBuf,

    /// Another Prometheus than the file's, for example http://127.0.0.1:9090 through a port-forward
    #[arg(long, value_name = "URL")]
    pub prometheus: Option<String>,

    /// Namespace of the pod that is imagined
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,

    /// A label of that pod; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub label: Vec<(String, String)>,

    /// An annotation of that pod; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = pair)]
    pub annotation: Vec<(String, String)>,

    /// The weight that the scheduler would give the extender
    #[arg(long, value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=10_000))]
    pub weight: u32,

    #[command(flatten)]
    pub access: AccessArgs,

    /// Form of the output
    #[arg(long, short, value_name = "FORM", default_value = "table", value_enum)]
    pub output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct ExplainArgs {
    /// Name of the pod
    #[arg(value_name = "POD")]
    pub pod: String,

    /// Its namespace
    #[arg(long, short, value_name = "NAMESPACE", default_value = "default")]
    pub namespace: String,

    /// Where the extender serves
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:9472", env = "SCHEDPATCH_EXTENDER_LISTEN")]
    pub server: SocketAddr,

    /// The extender serves with TLS: the CA of its certificate
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_EXTENDER_TLS_CA")]
    pub ca: Option<PathBuf>,

    /// Form of the output
    #[arg(long, short, value_name = "FORM", default_value = "table", value_enum)]
    pub output: Output,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum LogLevel {
    Off,
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

fn pair(text: &str) -> Result<(String, String), String> {
    let (key, value) = text.split_once('=').ok_or_else(|| format!("{text:?} is not KEY=VALUE"))?;
    Ok((key.to_owned(), value.to_owned()))
}

impl AccessArgs {
    /// `way_out` says what to do where there is no API server.
    pub(super) async fn connect(&self, way_out: &str) -> Result<Api, String> {
        let access = Access { kubeconfig: self.kubeconfig.clone(), service_account_dir: SERVICE_ACCOUNT_DIR.into() };
        let wrong = |error: client::ConnectError| format!("{error}; {way_out}");
        let config = client::config(&access).await.map_err(wrong)?;
        Ok(Api::new(client::connect(config).map_err(wrong)?))
    }
}
