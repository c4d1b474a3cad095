//! No command: one pass, or the daemon.

use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;

use schedpatch_service::log::{self, Level};
use schedpatch_service::shutdown;

use super::Ran;
use super::args::Args;
use crate::counters::Counters;
use crate::lead::Candidate;
use crate::run::{Daemon, pass};

pub(super) async fn run(args: &Args) -> Ran {
    let level = match args.verbose {
        0..=2 => Level::INFO,
        3 => Level::DEBUG,
        _ => Level::TRACE,
    };
    log::start("schedpatch_pin", level, args.log_format);
    let settings = args.settings()?;
    let counters = Counters::new(settings.labels.name());
    let (client, config) = args.connect().await?;
    if !args.daemon {
        let failed = pass(client, &settings, counters).await.map_err(|error| error.to_string())?;
        return Ok(if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE });
    }
    let stop = shutdown::signalled().map_err(|error| format!("cannot catch signals: {error}"))?;
    let identity = identity();
    let candidate = args.leader_elect.then(|| {
        let namespace = args.lease_namespace.as_deref().unwrap_or(&config.default_namespace);
        Candidate::new(client.clone(), namespace, &format!("schedpatch-pin-{}", args.name), &identity)
    });
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        name = args.name,
        mode = ?args.mode,
        checks = ?args.checks,
        leader_elect = args.leader_elect,
        "schedpatch-pin starts"
    );
    let daemon = Daemon::new(client, settings, candidate, &identity, counters);
    if !args.prometheus.eq_ignore_ascii_case("false") {
        let address = SocketAddr::from((Ipv4Addr::UNSPECIFIED, args.prometheus_port));
        let wrong = |error| {
            format!("cannot serve metrics on {address}: {error}; set SCHED_PROMETHEUS_PORT, or SCHED_PROMETHEUS=false")
        };
        daemon.serve_metrics(address).await.map_err(wrong)?;
    }
    if let Some(address) = args.probes {
        let wrong = |error| format!("cannot serve probes on {address}: {error}; give another address with --probes");
        daemon.serve_probes(address).await.map_err(wrong)?;
    }
    daemon.run(stop).await;
    tracing::info!("schedpatch-pin ends");
    Ok(ExitCode::SUCCESS)
}

/// A name for this process that no other has.
#[expect(clippy::disallowed_methods, reason = "a pod's host name is in its environment")]
fn identity() -> String {
    let read = |file: &str| std::fs::read_to_string(file).ok().map(|text| text.trim().to_owned());
    let host = std::env::var("HOSTNAME").ok().or_else(|| read("/proc/sys/kernel/hostname"));
    let unique = read("/proc/sys/kernel/random/uuid").unwrap_or_else(|| std::process::id().to_string());
    format!("{}_{unique}", host.unwrap_or_else(|| "host".to_owned()))
}
