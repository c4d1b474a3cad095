//! Flags and variables.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};
use kube::{Client, Config};
use schedpatch_service::cli::Output;
use schedpatch_service::client::{self, Access, SERVICE_ACCOUNT_DIR};
use schedpatch_service::log::Format;

use crate::decide::{Checks, Mode};
use crate::labels::Labels;
use crate::run::Settings;

const EXAMPLES: &str = "\
Examples:
  Place what can be placed now, and end:
    schedpatch-pin --name test

  Keep placing:
    schedpatch-pin --name test --daemon

  Pin a pod, and see what became of it:
    kubectl label node NODE rf.scheduler.test.default/web-0=
    schedpatch-pin --name test why web-0

Exit codes: 0 done, 1 a request failed (`list`: pins and pods do not agree), 2 wrong usage.";

/// Keeps pods on the nodes that hold their data
///
/// A pod with `schedulerName: NAME` waits until a node carries the label `rf.scheduler.NAME.NAMESPACE/POD`, and is then
/// bound to that node. Without --daemon one pass is made.
#[derive(Debug, Parser)]
#[command(name = "schedpatch-pin", version, after_help = EXAMPLES)]
pub(super) struct Args {
    #[command(subcommand)]
    pub command: Option<Command>,

    /// Name of the scheduler: what pods have in schedulerName
    #[arg(long, global = true, value_name = "NAME", default_value = "rfcustom", env = "SCHED_NAME")]
    pub name: String,

    /// Keep running
    #[arg(long, short)]
    pub daemon: bool,

    /// Log more: -vvv debug, -vvvv trace; -v and -vv are accepted and change nothing
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,

    /// Form of the log, on standard error
    #[arg(long, value_name = "FORM", default_value = "text", value_enum, env = "SCHED_LOG_FORMAT")]
    pub log_format: Format,

    /// Path of a kubeconfig; by default the pod's service account, else ~/.kube/config
    #[arg(long, global = true, value_name = "FILE", env = "KUBECONFIG", hide_env_values = true)]
    pub kubeconfig: Option<String>,

    /// Directory with the service account's token and CA
    #[arg(long, global = true, value_name = "DIR", default_value = SERVICE_ACCOUNT_DIR, env = "SCHED_INCLUSTER_BASE_PATH")]
    pub incluster_base_path: PathBuf,

    /// Seconds between two looks at what no watch shows, and between lists where watching is not allowed
    #[arg(long, value_name = "SECONDS", default_value = "10", env = "SCHED_DELAY", value_parser = seconds)]
    pub delay: Duration,

    /// Port of the Prometheus metrics, on any path
    #[arg(long, value_name = "PORT", default_value_t = 8000, env = "SCHED_PROMETHEUS_PORT")]
    pub prometheus_port: u16,

    /// `false` switches the Prometheus metrics off
    #[arg(long, value_name = "BOOL", default_value = "true", env = "SCHED_PROMETHEUS")]
    pub prometheus: String,

    /// Address of /livez, /readyz and /metrics, for example 0.0.0.0:8081; none by default
    #[arg(long, value_name = "ADDRESS", env = "SCHED_PROBES")]
    pub probes: Option<SocketAddr>,

    /// Which pods are placed
    #[arg(long, value_name = "MODE", default_value = "bind", value_enum, env = "SCHED_MODE")]
    pub mode: ModeArg,

    /// What is checked before a pod is placed
    #[arg(long, global = true, value_name = "CHECKS", default_value = "safe", value_enum, env = "SCHED_CHECKS")]
    pub checks: ChecksArg,

    /// Only labels below node-restriction.kubernetes.io count, which no kubelet can set
    #[arg(long, global = true, env = "SCHED_RESTRICTED_LABELS")]
    pub restricted_labels: bool,

    /// Of several replicas only one acts, by a Lease
    #[arg(long, env = "SCHED_LEADER_ELECT")]
    pub leader_elect: bool,

    /// Namespace of the Lease; by default the service account's
    #[arg(long, value_name = "NAMESPACE", env = "POD_NAMESPACE")]
    pub lease_namespace: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Show all pins, their pods, and what does not agree
    List(ListArgs),
    /// Pin the pods of a StatefulSet to the nodes where they run now
    Import(ImportArgs),
    /// Say why a pod waits, or whether it runs where it is pinned
    Why(WhyArgs),
}

#[derive(Debug, clap::Args)]
pub(super) struct ListArgs {
    /// Form of the output
    #[arg(long, short, value_name = "FORM", default_value = "table", value_enum)]
    pub output: Output,
}

#[derive(Debug, clap::Args)]
pub(super) struct ImportArgs {
    /// Name of the StatefulSet
    #[arg(value_name = "STATEFULSET")]
    pub statefulset: String,

    /// Its namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,

    /// Write the labels; without it they are only shown
    #[arg(long)]
    pub apply: bool,
}

#[derive(Debug, clap::Args)]
pub(super) struct WhyArgs {
    /// Name of the pod
    #[arg(value_name = "POD")]
    pub pod: String,

    /// Its namespace
    #[arg(long, short, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ModeArg {
    /// Pods with our schedulerName are bound
    Bind,
    /// Pods with the label schedpatch.io/pin=NAME and the gate schedpatch.io/pin get an affinity; kube-scheduler binds them
    Gate,
    /// Both
    Both,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum ChecksArg {
    /// The node is Ready, uncordoned, tolerated, matched, and has room; no claim waits for a consumer
    Safe,
    /// Only the label
    None,
}

impl Args {
    pub(super) fn labels(&self) -> Result<Labels, String> {
        Labels::new(&self.name, self.restricted_labels).map_err(|why| format!("--name: {why}"))
    }

    pub(super) fn checks(&self) -> Checks {
        match self.checks {
            ChecksArg::Safe => Checks::Safe,
            ChecksArg::None => Checks::None,
        }
    }

    pub(super) fn settings(&self) -> Result<Settings, String> {
        let modes = match self.mode {
            ModeArg::Bind => vec![Mode::Bind],
            ModeArg::Gate => vec![Mode::Gate],
            ModeArg::Both => vec![Mode::Bind, Mode::Gate],
        };
        Ok(Settings { labels: self.labels()?, checks: self.checks(), modes, delay: self.delay })
    }

    pub(super) async fn connect(&self) -> Result<(Client, Config), String> {
        let access =
            Access { kubeconfig: self.kubeconfig.clone(), service_account_dir: self.incluster_base_path.clone() };
        let wrong = |error: client::ConnectError| {
            format!("{error}; give --kubeconfig FILE, or run in a pod with a service account")
        };
        let config = client::config(&access).await.map_err(wrong)?;
        Ok((client::connect(config.clone()).map_err(wrong)?, config))
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let wrong = || format!("{text:?} is not a number of seconds, at least 0.1");
    let seconds: f64 = text.parse().map_err(|_| wrong())?;
    if seconds < 0.1 {
        return Err(wrong());
    }
    Duration::try_from_secs_f64(seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_flags_of_the_contract_are_accepted() {
        let parse = |words: &[&str]| Args::try_parse_from([&["schedpatch-pin"], words].concat());
        assert_eq!(parse(&["--name", "test"]).expect("one pass").name, "test");
        let args = parse(&["--name", "test", "--daemon", "-vv"]).expect("the daemon");
        assert!(args.daemon && args.verbose == 2 && args.command.is_none());
        assert!(parse(&["-d", "-vvvv"]).expect("short flags").daemon);
        assert_eq!(parse(&["why", "web-0", "--name", "test"]).expect("flags after commands").name, "test");
        assert!(parse(&["--nonsense"]).is_err());
    }

    #[test]
    fn delays_are_seconds_with_or_without_a_fraction() {
        assert_eq!(seconds("10"), Ok(Duration::from_secs(10)));
        assert_eq!(seconds("0.5"), Ok(Duration::from_millis(500)));
        for wrong in ["", "x", "-1", "0", "1e400", "NaN"] {
            assert!(seconds(wrong).is_err(), "{wrong}");
        }
    }
}
