//! `schedpatch-pin import STATEFULSET`: the present placement as labels.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::ExitCode;

use kube::core::params::ListParams;
use schedpatch_service::cli::print;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::Ran;
use super::args::{Args, ImportArgs};
use super::list::pins_of;
use crate::api::Api;
use crate::decide::Pins;
use crate::labels::{Labels, PodKey};
use crate::model::{Node, Pod};
use crate::run::nodes;

/// What of a StatefulSet is read.
#[derive(Debug, Deserialize)]
struct StatefulSet {
    spec: Spec,
}

#[derive(Debug, Deserialize)]
struct Spec {
    selector: Selector,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Selector {
    #[serde(default)]
    match_labels: BTreeMap<String, String>,
}

/// What to do about one pod.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    /// Label this node
    Label(String),
    /// It is pinned where it runs
    Nothing,
    /// It cannot be imported, and why
    Refuse(String),
}

pub(super) async fn run(args: &Args, own: &ImportArgs) -> Ran {
    let labels = args.labels()?;
    let (client, config) = args.connect().await?;
    let api = Api::new(client);
    let words = |error: crate::api::ApiError| error.to_string();
    let namespace = own.namespace.as_deref().unwrap_or(&config.default_namespace);
    let set: StatefulSet = api
        .get(&format!("/apis/apps/v1/namespaces/{namespace}/statefulsets"), &own.statefulset)
        .await
        .map_err(words)?;
    let selector: Vec<String> =
        set.spec.selector.match_labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().labels(&selector.join(","));
    let pods: Vec<Pod> = api.list(&format!("/api/v1/namespaces/{namespace}/pods"), &params).await.map_err(words)?.0;
    let nodes: Vec<Node> = api.list(nodes().path, &nodes().list()).await.map_err(words)?.0;
    let pins = pins_of(&labels, &nodes);
    let mut refused = 0;
    let mut by_node: BTreeMap<String, Map<String, Value>> = BTreeMap::new();
    for pod in pods.iter().filter(|pod| is_member(&own.statefulset, &pod.metadata.name)) {
        let key = PodKey::of(&pod.metadata.namespace, &pod.metadata.name);
        match step(&labels, &pins, &key, &pod.spec.node_name) {
            Step::Nothing => print(&format!("{}: pinned to {} already\n", pod.metadata.name, pod.spec.node_name)),
            Step::Refuse(why) => {
                refused += 1;
                print(&format!("{}: left out: {why}\n", pod.metadata.name));
            }
            Step::Label(label) => {
                by_node.entry(pod.spec.node_name.clone()).or_default().insert(label, Value::from(""));
            }
        }
    }
    for (node, labels) in &by_node {
        let mut line = format!("kubectl label node {node}");
        for label in labels.keys() {
            let _ = write!(line, " {label}=");
        }
        print(&(line + "\n"));
        if own.apply {
            api.label_node(node, &Value::Object(labels.clone())).await.map_err(|error| format!("{node}: {error}"))?;
        }
    }
    let count: usize = by_node.values().map(Map::len).sum();
    let what = if own.apply { "labels written" } else { "labels to write; nothing was changed, --apply writes them" };
    print(&format!("{count} {what}\n"));
    Ok(if refused == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Whether a pod is one of the set: its name, a dash and a number.
fn is_member(set: &str, pod: &str) -> bool {
    let number = pod.strip_prefix(set).and_then(|rest| rest.strip_prefix('-'));
    number.is_some_and(|number| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit()))
}

fn step(labels: &Labels, pins: &Pins, pod: &PodKey, runs_on: &str) -> Step {
    let pinned = pins.nodes(pod);
    if runs_on.is_empty() {
        return Step::Refuse("it runs nowhere yet".to_owned());
    }
    match pinned.first() {
        None => Step::Label(labels.write(pod)),
        Some(first) if first == runs_on => Step::Nothing,
        Some(_) => Step::Refuse(format!(
            "it runs on {runs_on}, but is pinned to {}; remove those labels first",
            pinned.join(", ")
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn present_placement_becomes_a_label_and_an_existing_pin_is_never_contradicted() {
        let labels = Labels::new("test", false).expect("a good name");
        let pod = PodKey::of("db", "pg-0");
        let mut pins = Pins::default();
        assert_eq!(step(&labels, &pins, &pod, "a"), Step::Label("rf.scheduler.test.db/pg-0".to_owned()));
        assert!(matches!(step(&labels, &pins, &pod, ""), Step::Refuse(_)));
        let pinned = BTreeMap::from([("rf.scheduler.test.db/pg-0".to_owned(), String::new())]);
        pins.set("a", &BTreeMap::new(), &labels.pins(&pinned));
        assert_eq!(step(&labels, &pins, &pod, "a"), Step::Nothing);
        assert!(matches!(step(&labels, &pins, &pod, "b"), Step::Refuse(_)));
    }

    #[test]
    fn only_the_pods_of_the_set_itself_are_taken() {
        assert!(is_member("pg", "pg-0") && is_member("pg", "pg-12"));
        assert!(!is_member("pg", "pg-") && !is_member("pg", "pg-a-0") && !is_member("pg", "other-0"));
    }
}
