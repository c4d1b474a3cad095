//! `schedpatch-extender simulate`: scores against a live Prometheus, without any scheduler.

use std::process::ExitCode;
use std::sync::Arc;

use kube::core::params::ListParams;
use schedpatch_service::cli::Output;
use schedpatch_service::feed::Change;
use serde_json::json;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::args::SimulateArgs;
use super::{Ran, print};
use crate::config::{self, Prometheus};
use crate::explain::explain;
use crate::mapping::Node;
use crate::nodes::{self, Nodes};
use crate::poll::Poller;
use crate::select::{Selection, select};
use crate::snapshot::Snapshot;
use crate::state::State;
use crate::wire::Pod;

pub(super) async fn run(args: &SimulateArgs) -> Ran {
    let mut config = config::load(&args.config).map_err(|error| error.to_string())?;
    if let Some(url) = &args.prometheus {
        crate::url::Url::parse(url).map_err(|why| format!("--prometheus: {why}"))?;
        config.prometheus = Prometheus { url: url.clone(), ..config.prometheus };
    }
    let config = Arc::new(config);
    let known = Arc::new(Nodes::default());
    if config.needs_nodes() || args.access.kubeconfig.is_some() {
        let api = args.access.connect("give --kubeconfig FILE").await?;
        let params: ListParams = nodes::query().list();
        let (all, _) = api.list::<Node>(nodes::query().path, &params).await.map_err(|error| error.to_string())?;
        known.keep_labels(config.node_labels());
        known.take(Change::Reset(all));
    }
    let state = Arc::new(State::new(Snapshot::empty(Arc::clone(&config)), None, args.weight));
    let (woken, _waiting) = mpsc::unbounded_channel();
    let (_configs, receiver) = watch::channel(Arc::clone(&config));
    let poller = Poller { state: Arc::clone(&state), nodes: Arc::clone(&known), config: receiver, woken };
    poller.round(&config).await;
    for failure in state.failures().values() {
        eprintln!("schedpatch-extender: {failure}");
    }
    let pairs = |all: &[(String, String)]| -> serde_json::Map<String, serde_json::Value> {
        all.iter().map(|(key, value)| (key.clone(), json!(value))).collect()
    };
    let pod = json!({ "metadata": {
        "name": "simulated", "namespace": args.namespace, "labels": pairs(&args.label), "annotations": pairs(&args.annotation),
    } })
    .to_string();
    let pod: Pod<'_> = serde_json::from_str(&pod).map_err(|error| error.to_string())?;
    let choice = match select(&config, None, &pod) {
        Selection::Chosen(choice) => choice,
        Selection::Exempt(why) => {
            print(&format!("such a pod is exempt ({}): every node passes and none gets points\n", why.name()));
            return Ok(ExitCode::SUCCESS);
        }
    };
    let snapshot = state.snapshot();
    let names = known.names();
    let names = if names.is_empty() { snapshot.index.names().iter().map(ToString::to_string).collect() } else { names };
    let explained = explain(&snapshot, &choice, &names, None, (args.weight, &state.misfits), Instant::now());
    match args.output {
        Output::Table => print(&explained.text()),
        Output::Json => print(&format!("{:#}\n", explained.json())),
    }
    let is_whole = state.failures().is_empty();
    Ok(if is_whole { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}
