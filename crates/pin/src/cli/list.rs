//! `schedpatch-pin list`: pins, pods, where they run, what does not agree.

use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;

use kube::core::params::ListParams;
use schedpatch_service::cli::{Output, print, table};
use serde_json::json;

use super::Ran;
use super::args::{Args, ListArgs};
use crate::api::Api;
use crate::decide::Pins;
use crate::labels::{Labels, PodKey};
use crate::model::{Node, OPT_IN_LABEL, Pod};
use crate::run::nodes;

pub(super) async fn run(args: &Args, own: &ListArgs) -> Ran {
    let labels = args.labels()?;
    let api = Api::new(args.connect().await?.0);
    let nodes = api.list::<Node>(nodes().path, &nodes().list()).await.map_err(|error| error.to_string())?.0;
    let pins = pins_of(&labels, &nodes);
    let namespaces: BTreeSet<&str> = pins.all().map(|(pod, _, _)| pod.namespace.as_str()).collect();
    let mut pods = BTreeMap::new();
    for namespace in namespaces {
        let path = format!("/api/v1/namespaces/{namespace}/pods");
        let listed = api.list::<Pod>(&path, &ListParams::default()).await.map_err(|error| error.to_string())?.0;
        pods.extend(listed.into_iter().map(|pod| (PodKey::of(&pod.metadata.namespace, &pod.metadata.name), pod)));
    }
    let rows: Vec<Row> = pins
        .all()
        .map(|(pod, rank, node)| Row {
            pod: pod.clone(),
            node: node.to_owned(),
            value: rank.value().to_owned(),
            runs_on: pods.get(pod).map(|pod| pod.spec.node_name.clone()).unwrap_or_default(),
            agreement: agreement(labels.name(), &pins.nodes(pod), node, pods.get(pod)),
        })
        .collect();
    match own.output {
        Output::Table => print(&as_table(&rows)),
        Output::Json => print(&as_json(&rows)),
    }
    Ok(if rows.iter().all(|row| row.agreement.is_ok()) { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

struct Row {
    pod: PodKey,
    node: String,
    value: String,
    runs_on: String,
    agreement: Result<&'static str, String>,
}

/// All pins of these nodes.
pub(super) fn pins_of(labels: &Labels, nodes: &[Node]) -> Pins {
    let mut pins = Pins::default();
    for node in nodes {
        pins.set(&node.metadata.name, &BTreeMap::new(), &labels.pins(&node.metadata.labels));
    }
    pins
}

/// Whether a pin and its pod agree, in words.
pub(super) fn agreement(name: &str, nodes: &[String], node: &str, pod: Option<&Pod>) -> Result<&'static str, String> {
    let Some(pod) = pod else { return Ok("no such pod") };
    let is_opted_in =
        pod.spec.scheduler_name == name || pod.metadata.labels.get(OPT_IN_LABEL).is_some_and(|value| value == name);
    if !is_opted_in {
        return Err(format!("the pod does not ask for {name}: its schedulerName is {}", pod.spec.scheduler_name));
    }
    match pod.spec.node_name.as_str() {
        "" => Err("the pod waits: schedpatch-pin why".to_owned()),
        bound if bound == node => Ok("runs there"),
        bound if nodes.iter().any(|other| other == bound) => Ok("runs on another node that is labelled"),
        bound => Err(format!("runs on {bound}; the label acts on the next pod of this name")),
    }
}

fn as_table(rows: &[Row]) -> String {
    let head = ["NAMESPACE", "POD", "NODE", "VALUE", "RUNS ON", "AGREES"].map(str::to_owned).to_vec();
    let cells = rows.iter().map(|row| {
        let (sign, words) = match &row.agreement {
            Ok(words) => ("yes", (*words).to_owned()),
            Err(words) => ("NO", words.clone()),
        };
        let pod = &row.pod;
        vec![
            pod.namespace.clone(),
            pod.label_name.clone(),
            row.node.clone(),
            row.value.clone(),
            row.runs_on.clone(),
            format!("{sign}: {words}"),
        ]
    });
    table(&std::iter::once(head).chain(cells).collect::<Vec<_>>())
}

fn as_json(rows: &[Row]) -> String {
    let rows: Vec<_> = rows
        .iter()
        .map(|row| {
            let (agrees, words) = match &row.agreement {
                Ok(words) => (true, (*words).to_owned()),
                Err(words) => (false, words.clone()),
            };
            json!({ "namespace": row.pod.namespace, "pod": row.pod.label_name, "node": row.node, "value": row.value,
                "runsOn": row.runs_on, "agrees": agrees, "message": words })
        })
        .collect();
    format!("{:#}\n", json!(rows))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(scheduler: &str, node: &str) -> Pod {
        serde_json::from_value(json!({ "spec": { "schedulerName": scheduler, "nodeName": node } })).expect("a pod")
    }

    #[test]
    fn a_pin_agrees_with_a_pod_that_runs_on_a_labelled_node_or_is_not_there() {
        let nodes = ["a".to_owned(), "b".to_owned()];
        assert!(agreement("test", &nodes, "a", None).is_ok());
        assert!(agreement("test", &nodes, "a", Some(&pod("test", "a"))).is_ok());
        assert!(agreement("test", &nodes, "a", Some(&pod("test", "b"))).is_ok());
        for (pod, words) in
            [(pod("test", "c"), "runs on c"), (pod("test", ""), "waits"), (pod("other", "a"), "does not ask")]
        {
            let why = agreement("test", &nodes, "a", Some(&pod)).expect_err(words);
            assert!(why.contains(words), "{why}");
        }
    }
}
