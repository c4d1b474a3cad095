//! Which policies count for a pod.

use schedpatch_service::log::shortened;

use crate::config::{Config, PodField};
use crate::wire::Pod;

/// The label that all pods of schedpatch carry.
const PART_OF: (&str, &str) = ("app.kubernetes.io/part-of", "schedpatch");
/// Between the values of a key; no label can hold it.
const SEPARATOR: char = '\u{1f}';
/// So many names of an annotation are read: twice as many as there can be policies.
const MAX_NAMES: usize = 128;
/// So many unknown names are kept, each up to so many bytes: enough to find the mistake.
const MAX_UNKNOWN: (usize, usize) = (8, 64);
/// A workload's key may have this many bytes. Annotations may have 256 KiB, and waiting pods keep their key.
const MAX_KEY_BYTES: usize = 1024;

/// Why no policy counts for a pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Exemption {
    /// It is of schedpatch itself, which must not wait for itself
    Own,
    /// It belongs to a DaemonSet, which has chosen its node
    DaemonSet,
    /// Its namespace is exempt or not among those that are named
    Namespace,
    /// It lacks a label
    Labels,
    /// Its annotation says `none`
    Annotation,
}

impl Exemption {
    /// In one word, for metrics.
    pub fn name(self) -> &'static str {
        match self {
            Self::Own => "own",
            Self::DaemonSet => "daemonset",
            Self::Namespace => "namespace",
            Self::Labels => "labels",
            Self::Annotation => "annotation",
        }
    }
}

/// What counts for a pod.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// Nothing
    Exempt(Exemption),
    /// These policies
    Chosen(Choice),
}

/// Policies, and for those with `match` the workload that the pod belongs to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Choice {
    /// A bit for each policy, in the order of the file
    pub mask: u64,
    /// By policy: the pod's values, if it has all of them; empty if no policy has `match`
    pub keys: Vec<Option<String>>,
    /// Names in the annotation that no policy has, some of them
    pub unknown: Vec<String>,
}

impl Choice {
    /// Whether a policy counts.
    pub fn holds(&self, policy: usize) -> bool {
        self.mask >> policy & 1 == 1
    }

    /// The pod's workload as a policy sees it.
    pub fn key(&self, policy: usize) -> Option<&str> {
        self.keys.get(policy)?.as_deref()
    }
}

/// Values of several labels as one key.
pub fn join_key<'a>(values: impl Iterator<Item = &'a str>) -> String {
    let mut key = String::new();
    for (number, value) in values.enumerate() {
        if number > 0 {
            key.push(SEPARATOR);
        }
        key.push_str(value);
    }
    key
}

/// Decides which policies count for a pod. `own_namespace` is where schedpatch is installed.
pub fn select(config: &Config, own_namespace: Option<&str>, pod: &Pod<'_>) -> Selection {
    let meta = &pod.metadata;
    let namespace: &str = &meta.namespace;
    if own_namespace == Some(namespace) && meta.labels.get(PART_OF.0) == Some(PART_OF.1) {
        return Selection::Exempt(Exemption::Own);
    }
    if meta.owner_references.iter().any(|owner| owner.controller && &*owner.kind == "DaemonSet") {
        return Selection::Exempt(Exemption::DaemonSet);
    }
    let pods = &config.pods;
    let is_listed = |list: &[String]| list.iter().any(|one| one == namespace);
    if is_listed(&pods.exempt_namespaces) || !(pods.namespaces.is_empty() || is_listed(&pods.namespaces)) {
        return Selection::Exempt(Exemption::Namespace);
    }
    if !pods.labels.iter().all(|(key, value)| meta.labels.get(key) == Some(value)) {
        return Selection::Exempt(Exemption::Labels);
    }
    let mut choice = Choice::default();
    match (meta.annotations.get(&pods.policy_annotation), &pods.default_policies) {
        (Some(text), _) if text.trim() == "none" => return Selection::Exempt(Exemption::Annotation),
        (Some(text), _) => take(config, text.split(',').map(str::trim).filter(|name| !name.is_empty()), &mut choice),
        (None, Some(names)) => take(config, names.iter().map(String::as_str), &mut choice),
        (None, None) => choice.mask = u64::MAX >> (64 - config.policies.len().clamp(1, 64)),
    }
    if config.policies.iter().any(|policy| !policy.workload.is_empty()) {
        let keys = config.policies.iter().map(|policy| {
            let fields = policy.workload.values().map(|field| value(pod, field));
            let values: Option<Vec<&str>> = fields.collect();
            let key = values.filter(|values| !values.is_empty()).map(|values| join_key(values.into_iter()));
            key.filter(|key| key.len() <= MAX_KEY_BYTES)
        });
        choice.keys = keys.collect();
    }
    Selection::Chosen(choice)
}

fn take<'a>(config: &Config, names: impl Iterator<Item = &'a str>, choice: &mut Choice) {
    for name in names.take(MAX_NAMES) {
        match config.policies.iter().position(|policy| policy.name == name) {
            Some(policy) => choice.mask |= 1 << policy,
            None if choice.unknown.len() < MAX_UNKNOWN.0 => choice.unknown.push(shortened(name, MAX_UNKNOWN.1)),
            None => {}
        }
    }
}

fn value<'a>(pod: &'a Pod<'_>, field: &PodField) -> Option<&'a str> {
    let meta = &pod.metadata;
    match field {
        PodField::Label(key) => meta.labels.get(key),
        PodField::Annotation(key) => meta.annotations.get(key),
        PodField::Namespace => Some(&meta.namespace),
        PodField::Name => Some(&meta.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::parse;

    fn config(more: &str) -> Config {
        let policies = "policies:\n- {name: a, query: a, prefer: lower}\n- {name: b, query: b, prefer: lower, match: {app: labels.app, ns: namespace}}\n";
        let text = format!("prometheus: {{url: 'http://p'}}\n{policies}{more}");
        parse("test.yaml".as_ref(), &text).expect("it is valid")
    }

    fn chosen(more: &str, pod: &str) -> Selection {
        let pod: Pod<'_> = serde_json::from_str(pod).expect("a pod");
        select(&config(more), Some("schedpatch"), &pod)
    }

    #[test]
    fn pods_that_must_not_wait_are_exempt() {
        let exempt = |more: &str, pod: &str| match chosen(more, pod) {
            Selection::Exempt(why) => Some(why.name()),
            Selection::Chosen(_) => None,
        };
        let own = r#"{"metadata":{"namespace":"schedpatch","labels":{"app.kubernetes.io/part-of":"schedpatch"}}}"#;
        assert_eq!(exempt("", own), Some("own"));
        assert_eq!(exempt("", &own.replace("e\":\"schedpatch", "e\":\"other")), None);
        let daemon = r#"{"metadata":{"namespace":"x","ownerReferences":[{"kind":"DaemonSet","controller":true}]}}"#;
        assert_eq!(exempt("", daemon), Some("daemonset"));
        assert_eq!(exempt("", r#"{"metadata":{"namespace":"kube-system"}}"#), Some("namespace"));
        assert_eq!(exempt("pods: {exemptNamespaces: []}", r#"{"metadata":{"namespace":"kube-system"}}"#), None);
        assert_eq!(exempt("pods: {namespaces: [x]}", r#"{"metadata":{"namespace":"y"}}"#), Some("namespace"));
        assert_eq!(exempt("pods: {labels: {a: b}}", r#"{"metadata":{"labels":{"a":"c"}}}"#), Some("labels"));
        let none = r#"{"metadata":{"annotations":{"schedpatch.io/extender-policies":" none "}}}"#;
        assert_eq!(exempt("", none), Some("annotation"));
    }

    #[test]
    fn annotations_choose_policies_and_match_takes_the_pods_values() {
        let Selection::Chosen(all) = chosen("", r#"{"metadata":{"namespace":"n","labels":{"app":"x"}}}"#) else {
            panic!("it is not exempt")
        };
        assert_eq!((all.mask, all.key(0), all.key(1)), (0b11, None, Some("x\u{1f}n")));
        let pod = r#"{"metadata":{"namespace":"n","annotations":{"schedpatch.io/extender-policies":"b, zz"}}}"#;
        let Selection::Chosen(one) = chosen("", pod) else { panic!("it is not exempt") };
        assert!(one.holds(1) && !one.holds(0) && one.key(1).is_none());
        assert_eq!(one.unknown, ["zz"]);
        let many = format!("{}{},a", "x,".repeat(100), "y".repeat(1000));
        let pod = format!(r#"{{"metadata":{{"annotations":{{"schedpatch.io/extender-policies":"{many}"}}}}}}"#);
        let Selection::Chosen(many) = chosen("", &pod) else { panic!("it is not exempt") };
        assert_eq!((many.mask, many.unknown.len()), (1, MAX_UNKNOWN.0), "waiting pods keep little");
        let pod = format!(r#"{{"metadata":{{"namespace":"n","labels":{{"app":"{}"}}}}}}"#, "x".repeat(100_000));
        let Selection::Chosen(long) = chosen("", &pod) else { panic!("it is not exempt") };
        assert_eq!(long.key(1), None, "no series has such a label");
        let Selection::Chosen(default) = chosen("pods: {defaultPolicies: [a]}", "{}") else { panic!("not exempt") };
        assert_eq!(default.mask, 1);
    }
}
