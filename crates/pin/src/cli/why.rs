//! `schedpatch-pin why POD`: why a pod waits, or whether it runs where it is pinned.

use std::process::ExitCode;

use kube::core::params::ListParams;
use schedpatch_service::cli::print;

use super::Ran;
use super::args::{Args, WhyArgs};
use super::list::{agreement, pins_of};
use crate::api::{Api, ApiError};
use crate::attempt::Attempt;
use crate::decide::{Checks, Decision, Mode, decide};
use crate::facts::Facts;
use crate::fit::{Needs, Usage};
use crate::labels::PodKey;
use crate::model::{GATE, Node, OPT_IN_LABEL, Pod};
use crate::reason::{Reason, Wait};
use crate::run::nodes;

pub(super) async fn run(args: &Args, own: &WhyArgs) -> Ran {
    let labels = args.labels()?;
    let (client, config) = args.connect().await?;
    let api = Api::new(client);
    let words = |error: ApiError| error.to_string();
    let namespace = own.namespace.as_deref().unwrap_or(&config.default_namespace);
    let params = ListParams::default().fields(&format!("metadata.name={}", own.pod));
    let listed = api.list::<Pod>(&format!("/api/v1/namespaces/{namespace}/pods"), &params).await.map_err(words)?;
    let Some(pod) = listed.0.into_iter().next() else {
        return Err(format!(
            "there is no pod {namespace}/{}; its label would be {}=",
            own.pod,
            labels.write(&PodKey::of(namespace, &own.pod))
        ));
    };
    let all = api.list::<Node>(nodes().path, &nodes().list()).await.map_err(words)?.0;
    let pins = pins_of(&labels, &all);
    let labelled = pins.nodes(&PodKey::of(namespace, &own.pod));
    let name = pod.full_name();
    if !pod.spec.node_name.is_empty() {
        let said = match labelled.first() {
            None => format!("{name} runs on {} and is not pinned\n", pod.spec.node_name),
            Some(first) => match agreement(labels.name(), &labelled, first, Some(&pod)) {
                Ok(_) => format!("{name} runs on {}, where it is pinned\n", pod.spec.node_name),
                Err(why) => format!("{name} is pinned to {} but {why}\n", labelled.join(", ")),
            },
        };
        print(&said);
        return Ok(ExitCode::SUCCESS);
    }
    if pod.metadata.deletion_timestamp.is_some() || pod.is_over() {
        print(&format!("{name} is over or being deleted, and left alone\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let Some(mode) = mode_of(&pod, labels.name()) else {
        print(&format!("{name} does not ask for {}: {}\n", labels.name(), how_to_ask(&pod, labels.name())));
        return Ok(ExitCode::SUCCESS);
    };
    let by_name = all.into_iter().map(|node| (node.metadata.name.clone(), node)).collect();
    let checks = args.checks();
    let said = match decide(&pod, mode, checks, &labels, &pins, &by_name) {
        Decision::Leave => "it is left alone".to_owned(),
        Decision::Wait(wait) => wait.to_string(),
        Decision::Try(candidates) => {
            let attempt = Attempt { api: api.clone(), facts: Facts::new(api), labels, checks, leads_until: None };
            let candidates = candidates.iter().filter_map(|name| by_name.get(name));
            match closer_look(&attempt, &pod, mode, candidates).await.map_err(words)? {
                Some(wait) => wait.to_string(),
                None => {
                    "nothing keeps it: is schedpatch-pin running with --daemon, this --name and this mode?".to_owned()
                }
            }
        }
    };
    print(&format!("{name} waits: {said}\n"));
    Ok(ExitCode::SUCCESS)
}

fn mode_of(pod: &Pod, name: &str) -> Option<Mode> {
    if pod.metadata.labels.get(OPT_IN_LABEL).is_some_and(|value| value == name) && pod.has_gate(GATE) {
        return Some(Mode::Gate);
    }
    (pod.spec.scheduler_name == name).then_some(Mode::Bind)
}

fn how_to_ask(pod: &Pod, name: &str) -> String {
    let is_labelled = pod.metadata.labels.get(OPT_IN_LABEL).is_some_and(|value| value == name);
    match (is_labelled, pod.has_gate(GATE)) {
        (true, false) => "its gate is lifted already, and kube-scheduler looks for room on its node".to_owned(),
        (false, true) => format!("it has the gate {GATE} but not the label {OPT_IN_LABEL}={name}"),
        _ => format!("its schedulerName is {}", pod.spec.scheduler_name),
    }
}

/// What only the API knows: room and claims.
async fn closer_look(
    attempt: &Attempt,
    pod: &Pod,
    mode: Mode,
    nodes: impl Iterator<Item = &Node>,
) -> Result<Option<Wait>, ApiError> {
    let is_checked = mode == Mode::Bind && attempt.checks == Checks::Safe;
    let volumes = match attempt.volumes(pod, mode).await? {
        Ok(volumes) => volumes,
        Err(reason) => return Ok(Some(Wait::alone(reason))),
    };
    let mut reasons = Vec::new();
    for node in nodes {
        let name = &node.metadata.name;
        let mut reason = attempt.objection(pod, node, &volumes);
        if reason.is_none() && is_checked {
            let usage = Usage::of(&attempt.api.pods_on(name).await?);
            reason = usage.misfit(&pod.metadata.uid, &Needs::of(pod), node).map(Reason::DoesNotFit);
        }
        match reason {
            None => return Ok(None),
            Some(reason) => reasons.push((Some(name.clone()), reason)),
        }
    }
    Ok(Some(Wait(reasons)))
}
