//! Gate mode: one patch that adds an affinity to the node and lifts the gate.

use serde_json::{Value, json};

use crate::model::{GATE, Pod};

const REQUIRED: &str = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";

/// A JSON patch that sends the pod to the node and lifts our gate. It fails if the pod changed since it was read.
///
/// While a pod is gated, the API server lets its required node affinity only become narrower, so the node is added to every
/// term that is there.
pub fn patch(pod: &Pod, node: &str) -> Option<Value> {
    let gate = pod.spec.scheduling_gates.iter().position(|gate| gate.name == GATE)?;
    let requirement = json!({ "key": "metadata.name", "operator": "In", "values": [node] });
    let selector = json!({ "nodeSelectorTerms": [{ "matchFields": [requirement] }] });
    let required = json!({ "requiredDuringSchedulingIgnoredDuringExecution": selector });
    let add = |path: String, value: &Value| json!({ "op": "add", "path": path, "value": value });
    let mut operations = vec![
        json!({ "op": "test", "path": "/metadata/uid", "value": pod.metadata.uid }),
        json!({ "op": "test", "path": "/metadata/resourceVersion", "value": pod.metadata.resource_version }),
    ];
    match &pod.spec.affinity {
        None => operations.push(add("/spec/affinity".to_owned(), &json!({ "nodeAffinity": required }))),
        Some(affinity) => match &affinity.node_affinity {
            None => operations.push(add("/spec/affinity/nodeAffinity".to_owned(), &required)),
            Some(to_nodes) => match &to_nodes.required {
                None => operations.push(add(REQUIRED.to_owned(), &selector)),
                Some(terms) => {
                    for (number, term) in terms.node_selector_terms.iter().enumerate() {
                        let fields = format!("{REQUIRED}/nodeSelectorTerms/{number}/matchFields");
                        operations.push(match term.match_fields {
                            Some(_) => add(format!("{fields}/-"), &requirement),
                            None => add(fields, &json!([requirement])),
                        });
                    }
                }
            },
        },
    }
    operations.push(json!({ "op": "test", "path": format!("/spec/schedulingGates/{gate}/name"), "value": GATE }));
    operations.push(json!({ "op": "remove", "path": format!("/spec/schedulingGates/{gate}") }));
    Some(Value::Array(operations))
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "json! reads better without a reference")]
mod tests {
    use super::*;

    fn added(spec: Value) -> Vec<(String, Value)> {
        let pod = json!({ "metadata": { "uid": "u", "resourceVersion": "7" }, "spec": spec });
        let pod: Pod = serde_json::from_value(pod).expect("a pod");
        let patch = patch(&pod, "n1").expect("it is gated");
        let operations = patch.as_array().expect("a list").iter();
        let added = operations.filter(|operation| operation["op"] == "add");
        added
            .map(|operation| (operation["path"].as_str().expect("a path").to_owned(), operation["value"].clone()))
            .collect()
    }

    fn gates() -> Value {
        json!([{ "name": "other" }, { "name": GATE }])
    }

    #[test]
    fn affinity_that_is_there_is_narrowed_and_never_replaced() {
        let required = "/spec/affinity/nodeAffinity/requiredDuringSchedulingIgnoredDuringExecution";
        assert_eq!(added(json!({ "schedulingGates": gates() }))[0].0, "/spec/affinity");
        let apart = json!({ "schedulingGates": gates(), "affinity": { "podAntiAffinity": {} } });
        assert_eq!(added(apart)[0].0, "/spec/affinity/nodeAffinity");
        let preferred = json!({ "schedulingGates": gates(), "affinity": { "nodeAffinity": { "preferredDuringSchedulingIgnoredDuringExecution": [] } } });
        assert_eq!(added(preferred)[0].0, required);
        let terms = json!([{ "matchExpressions": [{ "key": "a", "operator": "Exists" }] },
            { "matchFields": [{ "key": "metadata.name", "operator": "NotIn", "values": ["x"] }] }]);
        let terms = json!({ "schedulingGates": gates(), "affinity": { "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } });
        let paths: Vec<String> = added(terms).into_iter().map(|(path, _)| path).collect();
        assert_eq!(
            paths,
            [
                format!("{required}/nodeSelectorTerms/0/matchFields"),
                format!("{required}/nodeSelectorTerms/1/matchFields/-")
            ]
        );
    }

    #[test]
    fn only_our_gate_is_lifted() {
        let pod: Pod = serde_json::from_value(json!({ "spec": { "schedulingGates": gates() } })).expect("a pod");
        let patch = patch(&pod, "n1").expect("it is gated");
        let last = patch.as_array().and_then(|operations| operations.last()).expect("an operation");
        assert_eq!(last, &json!({ "op": "remove", "path": "/spec/schedulingGates/1" }));
        assert!(super::patch(&Pod::default(), "n1").is_none(), "without our gate there is nothing to lift");
    }
}
