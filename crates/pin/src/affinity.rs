//! Whether a node matches what a pod demands of it: selector, required affinity, taints.

use k8s_openapi::api::core::v1::{NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint, Toleration};

use crate::model::{Node, Pod};

/// The key of the pod's own selector, or the affinity, that the node does not match.
pub fn mismatch(pod: &Pod, node: &Node) -> Option<String> {
    let labels = &node.metadata.labels;
    if let Some((key, value)) = pod.spec.node_selector.iter().find(|(key, value)| labels.get(*key) != Some(value)) {
        return Some(format!("the pod's nodeSelector wants {key}={value}"));
    }
    let required = pod.spec.affinity.as_ref()?.node_affinity.as_ref()?.required.as_ref()?;
    (!selects(required, node)).then(|| "the pod's required node affinity does not match it".to_owned())
}

/// Whether a selector, of a pod or of a volume, selects the node.
pub fn selects(selector: &NodeSelector, node: &Node) -> bool {
    selector.node_selector_terms.iter().any(|term| matches(term, node))
}

/// A taint that keeps the pod away.
pub fn intolerable<'node>(pod: &Pod, node: &'node Node) -> Option<&'node Taint> {
    let counts = |taint: &&Taint| matches!(taint.effect.as_str(), "NoSchedule" | "NoExecute");
    let is_tolerated = |taint: &Taint| pod.spec.tolerations.iter().any(|toleration| tolerates(toleration, taint));
    node.spec.taints.iter().filter(counts).find(|taint| !is_tolerated(taint))
}

fn tolerates(toleration: &Toleration, taint: &Taint) -> bool {
    let is_effect = toleration.effect.as_deref().is_none_or(|effect| effect.is_empty() || effect == taint.effect);
    let key = toleration.key.as_deref().unwrap_or_default();
    let is_value = match toleration.operator.as_deref() {
        Some("Exists") => true,
        None | Some("" | "Equal") => {
            !key.is_empty()
                && toleration.value.as_deref().unwrap_or_default() == taint.value.as_deref().unwrap_or_default()
        }
        Some(_) => false,
    };
    is_effect && is_value && (key.is_empty() || key == taint.key)
}

/// A term without any requirement matches nothing, as in the scheduler.
fn matches(term: &NodeSelectorTerm, node: &Node) -> bool {
    let by_label = term.match_expressions.iter().flatten();
    let by_field = term.match_fields.iter().flatten();
    let is_empty = by_label.clone().next().is_none() && by_field.clone().next().is_none();
    let label = |requirement: &NodeSelectorRequirement| {
        holds(requirement, node.metadata.labels.get(&requirement.key).map(String::as_str))
    };
    let field = |requirement: &NodeSelectorRequirement| {
        requirement.key == "metadata.name" && holds(requirement, Some(node.metadata.name.as_str()))
    };
    !is_empty && by_label.clone().all(label) && by_field.clone().all(field)
}

fn holds(requirement: &NodeSelectorRequirement, value: Option<&str>) -> bool {
    let wanted = requirement.values.as_deref().unwrap_or_default();
    let is_among = value.is_some_and(|value| wanted.iter().any(|one| one == value));
    let compare = |is_wanted: fn(i64, i64) -> bool| {
        let value = value.and_then(|value| value.parse().ok());
        let limit = wanted.first().and_then(|limit| limit.parse().ok());
        value.zip(limit).is_some_and(|(value, limit)| is_wanted(value, limit))
    };
    match requirement.operator.as_str() {
        "In" => is_among,
        "NotIn" => !is_among,
        "Exists" => value.is_some(),
        "DoesNotExist" => value.is_none(),
        "Gt" => compare(|value, limit| value > limit),
        "Lt" => compare(|value, limit| value < limit),
        _ => false,
    }
}

#[cfg(test)]
#[allow(clippy::needless_pass_by_value, reason = "json! reads better without a reference")]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn pod(spec: Value) -> Pod {
        serde_json::from_value(json!({ "spec": spec })).expect("a pod")
    }

    fn node() -> Node {
        let taints = json!([{ "key": "db", "value": "pg", "effect": "NoSchedule" }, { "key": "slow", "effect": "PreferNoSchedule" }]);
        serde_json::from_value(json!({ "metadata": { "name": "n1", "labels": { "disk": "ssd", "gen": "7" } }, "spec": { "taints": taints } }))
            .expect("a node")
    }

    fn required(terms: Value) -> Pod {
        pod(
            json!({ "affinity": { "nodeAffinity": { "requiredDuringSchedulingIgnoredDuringExecution": { "nodeSelectorTerms": terms } } } }),
        )
    }

    #[test]
    fn selector_and_required_affinity_are_matched_as_the_scheduler_does() {
        assert_eq!(mismatch(&pod(json!({ "nodeSelector": { "disk": "ssd" } })), &node()), None);
        assert!(mismatch(&pod(json!({ "nodeSelector": { "disk": "hdd" } })), &node()).is_some());
        let expression = |key: &str, operator: &str, values: Value| json!([{ "matchExpressions": [{ "key": key, "operator": operator, "values": values }] }]);
        for (key, operator, values, expected) in [
            ("disk", "In", json!(["ssd"]), true),
            ("disk", "NotIn", json!(["ssd"]), false),
            ("zone", "NotIn", json!(["a"]), true),
            ("disk", "Exists", json!([]), true),
            ("disk", "DoesNotExist", json!([]), false),
            ("gen", "Gt", json!(["6"]), true),
            ("gen", "Lt", json!(["6"]), false),
            ("zone", "Gt", json!(["6"]), false),
        ] {
            let matched = mismatch(&required(expression(key, operator, values)), &node()).is_none();
            assert_eq!(matched, expected, "{key} {operator}");
        }
        let field = json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["n1"] }] }]);
        assert_eq!(mismatch(&required(field), &node()), None);
        assert!(mismatch(&required(json!([{}])), &node()).is_some(), "an empty term matches nothing");
    }

    #[test]
    fn taints_keep_pods_away_unless_they_are_tolerated() {
        assert_eq!(intolerable(&pod(json!({})), &node()).map(|taint| taint.key.as_str()), Some("db"));
        for toleration in [
            json!({ "operator": "Exists" }),
            json!({ "key": "db", "operator": "Exists" }),
            json!({ "key": "db", "value": "pg" }),
            json!({ "key": "db", "value": "pg", "effect": "NoSchedule" }),
        ] {
            assert!(intolerable(&pod(json!({ "tolerations": [toleration] })), &node()).is_none(), "{toleration}");
        }
        for toleration in
            [json!({ "key": "db", "value": "my" }), json!({ "key": "db", "operator": "Exists", "effect": "NoExecute" })]
        {
            assert!(intolerable(&pod(json!({ "tolerations": [toleration] })), &node()).is_some(), "{toleration}");
        }
    }
}
