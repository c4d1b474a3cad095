//! What serde cannot see: values that contradict each other or make no sense.

use std::collections::BTreeSet;
use std::time::Duration;

use yaml_edit::{Path, path};

use super::{Config, NodeField, Policy, Prometheus, Range, WhenAllExceed};
use crate::url::Url;

/// More policies than this are rather a mistake, and each costs a query and a column.
const MAX_POLICIES: usize = 64;

/// More often than this no scrape brings anything new, and Prometheus has to work for each round.
const MIN_INTERVAL: Duration = Duration::from_secs(1);

/// Where the pods of the cluster itself are.
pub(super) const SYSTEM: &str = "kube-system";

/// The sum of weights must stay a number.
const MAX_WEIGHT: f64 = 1e6;

/// What is wrong, and at which place of the file.
#[derive(Debug)]
pub(super) struct Fault {
    pub path: Path,
    pub why: String,
}

fn fault<T>(path: Path, why: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { path, why: why.into() })
}

pub(super) fn check(config: &Config) -> Result<(), Fault> {
    prometheus(&config.prometheus)?;
    if config.policies.is_empty() {
        return fault(path!["policies"], "there is no policy; give at least one");
    }
    if config.policies.len() > MAX_POLICIES {
        return fault(
            path!["policies"],
            format!("{} policies are too many: at most {MAX_POLICIES}", config.policies.len()),
        );
    }
    let mut names = BTreeSet::new();
    for (index, one) in config.policies.iter().enumerate() {
        policy(index, one)?;
        if !names.insert(one.name.as_str()) {
            return fault(path!["policies", index, "name"], format!("two policies are called {}", one.name));
        }
    }
    if !(config.minimum_spread > 0.0 && config.minimum_spread <= 1.0) {
        return fault(path!["minimumSpread"], "minimumSpread must be above 0 and at most 1");
    }
    if !(config.herd.per_pod >= 0.0 && config.herd.per_pod <= 1.0) {
        return fault(path!["herd", "perPod"], "perPod must be from 0 to 1; herd.enabled: false switches it off");
    }
    for (index, name) in config.pods.default_policies.iter().flatten().enumerate() {
        if !names.contains(name.as_str()) {
            let known = names.iter().copied().collect::<Vec<_>>().join(", ");
            let why = format!("there is no policy {name}; the policies are: {known}");
            return fault(path!["pods", "defaultPolicies", index], why);
        }
    }
    if config.pods.policy_annotation.is_empty() {
        return fault(path!["pods", "policyAnnotation"], "policyAnnotation is empty; leave the line out");
    }
    Ok(())
}

fn prometheus(prometheus: &Prometheus) -> Result<(), Fault> {
    let url = match Url::parse(&prometheus.url) {
        Ok(url) => url,
        Err(why) => return fault(path!["prometheus", "url"], why),
    };
    if url.is_https && prometheus.ca_file.is_none() {
        return fault(path!["prometheus", "url"], "https needs caFile: the image brings no certificates of its own");
    }
    if prometheus.interval < MIN_INTERVAL {
        return fault(path!["prometheus", "interval"], "interval must be 1s or more: each round asks all queries");
    }
    let only_https = [
        ("caFile", &prometheus.ca_file),
        ("clientCertificateFile", &prometheus.client_certificate_file),
        ("clientKeyFile", &prometheus.client_key_file),
    ];
    for (name, file) in only_https {
        if !url.is_https && file.is_some() {
            return fault(path!["prometheus", name], format!("{name} is for https:// only, and the url is http://"));
        }
    }
    if prometheus.client_certificate_file.is_some() != prometheus.client_key_file.is_some() {
        return fault(path!["prometheus"], "clientCertificateFile and clientKeyFile go together: give both or none");
    }
    if prometheus.bearer_token_file.is_some() && prometheus.basic_auth_file.is_some() {
        return fault(path!["prometheus", "basicAuthFile"], "bearerTokenFile and basicAuthFile exclude each other");
    }
    Ok(())
}

fn policy(index: usize, policy: &Policy) -> Result<(), Fault> {
    let at = |field: &str| path!["policies", index, field];
    let is_name = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if policy.name.is_empty() || !policy.name.chars().all(is_name) || policy.name == "none" {
        return fault(
            at("name"),
            format!("{:?} is no name: use letters, digits, - _ . (not the word none)", policy.name),
        );
    }
    if policy.query.trim().is_empty() {
        return fault(at("query"), "the query is empty");
    }
    if policy.plain_query.is_some() && policy.workload.is_empty() {
        return fault(at("plainQuery"), "plainQuery is for policies with match; without it query is the plain one");
    }
    if policy.node.label.is_empty() {
        return fault(path!["policies", index, "node", "label"], "label is empty");
    }
    if policy.workload.contains_key(&policy.node.label) {
        let label = &policy.node.label;
        return fault(
            at("match"),
            format!("the label {label} names the node (node.label), so it cannot be matched to the pod"),
        );
    }
    if (policy.node.is == NodeField::NodeLabel) != policy.node.node_label.is_some() {
        return fault(at("node"), "is: nodeLabel and nodeLabel: KEY go together");
    }
    if !(0.0..=MAX_WEIGHT).contains(&policy.weight) {
        return fault(at("weight"), format!("weight must be 0 or more and at most {MAX_WEIGHT}"));
    }
    if policy.weight == 0.0 && !policy.refuses() {
        return fault(at("weight"), "with weight 0 and neither avoidAbove nor avoidBelow the policy does nothing");
    }
    if let Range::Fixed { from, to } = policy.range
        && !(from.is_finite() && to.is_finite() && from < to)
    {
        return fault(at("range"), "from must be smaller than to; `prefer` says which end is better");
    }
    for (name, value) in [("avoidAbove", policy.avoid_above), ("avoidBelow", policy.avoid_below)] {
        if value.is_some_and(|value| !value.is_finite()) {
            return fault(at(name), format!("{name} must be a number"));
        }
    }
    if let (Some(above), Some(below)) = (policy.avoid_above, policy.avoid_below)
        && above < below
    {
        return fault(at("avoidAbove"), "avoidAbove is smaller than avoidBelow: every value would be refused");
    }
    Ok(())
}

/// What is allowed, and probably not meant.
pub fn warnings(config: &Config) -> Vec<String> {
    let mut warnings = Vec::new();
    let (exempt, asked) = (&config.pods.exempt_namespaces, &config.pods.namespaces);
    let has_system = |names: &[String]| names.iter().any(|name| name == SYSTEM);
    if !has_system(exempt) && (asked.is_empty() || has_system(asked)) {
        warnings.push(format!(
            "pods.exemptNamespaces replaces its default and has no {SYSTEM}: pods of the cluster itself may have to wait for a metric"
        ));
    }
    for policy in &config.policies {
        if policy.stale_after < config.prometheus.interval * 2 {
            warnings.push(format!(
                "{}: staleAfter ({:?}) is less than two intervals ({:?}): one slow query makes the policy neutral",
                policy.name, policy.stale_after, config.prometheus.interval
            ));
        }
        if policy.when_all_exceed == WhenAllExceed::Reject && policy.refuses() && !config.recovery.enabled {
            warnings.push(format!(
                "{}: whenAllExceed: reject without recovery: pods wait until something else wakes them",
                policy.name
            ));
        }
    }
    warnings
}
