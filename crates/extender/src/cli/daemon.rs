//! `schedpatch-extender run`.

use std::process::ExitCode;

use schedpatch_service::log::{self, Level};
use schedpatch_service::shutdown;

use super::Ran;
use super::args::{LogLevel, RunArgs};
use crate::run::{Settings, run as serve};

const WAY_OUT: &str = "give --kubeconfig FILE, run in a pod with a service account, or run with --standalone";

pub(super) async fn run(args: &RunArgs) -> Ran {
    let level = match args.log_level {
        LogLevel::Off => Level::OFF,
        LogLevel::Error => Level::ERROR,
        LogLevel::Warn => Level::WARN,
        LogLevel::Info => Level::INFO,
        LogLevel::Debug => Level::DEBUG,
        LogLevel::Trace => Level::TRACE,
    };
    log::start("schedpatch_extender", level, args.log_format);
    let stop = shutdown::signalled().map_err(|error| format!("cannot catch signals: {error}"))?;
    let api = if args.standalone { None } else { Some(args.access.connect(WAY_OUT).await?) };
    tracing::info!(version = env!("CARGO_PKG_VERSION"), config = %args.config.display(), "schedpatch-extender starts");
    let settings = Settings {
        config: args.config.clone(),
        listen: args.listen,
        probes: args.probes,
        tls: args.tls_certificate.clone().zip(args.tls_key.clone()),
        own_namespace: args.own_namespace.clone(),
        weight: args.weight,
    };
    serve(settings, api, stop).await.map_err(|error| error.to_string())?;
    tracing::info!("schedpatch-extender ends");
    Ok(ExitCode::SUCCESS)
}
