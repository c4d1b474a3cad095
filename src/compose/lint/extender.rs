//! Extenders: what stops the scheduler from starting, what stops scheduling, and what leaks.

use std::collections::BTreeMap;

use serde_yaml::Value;
use yaml_edit::Segment;

use super::capped::Capped;
use super::decode::{seconds, whole};
use super::{LintContext, LintRule, has_parent, key};
use crate::compose::read::Config;
use crate::finding::Finding;
use crate::url;

/// The scheduler's own default; what waits longer holds up every pod.
const SLOW_SECONDS: f64 = 5.0;

/// How PEM files begin, as base64.
const PEM_AS_BASE64: &str = "LS0tLS1CRUdJTi";

/// What an extender is called for.
const VERBS: [&str; 4] = ["filterVerb", "prioritizeVerb", "preemptVerb", "bindVerb"];

/// From this release on nodes that came back from an extender count as empty (kubernetes/kubernetes#141781).
const FORGETS_PODS: u32 = 33;

struct Extender<'a> {
    config: &'a Config,
    index: usize,
    value: &'a Value,
    tls: Option<&'a Value>,
}

/// Every extender of a file.
fn extenders(config: &Config) -> impl Iterator<Item = Extender<'_>> {
    let items = config.content.get("extenders").and_then(Value::as_sequence);
    items.into_iter().flatten().enumerate().map(move |(index, value)| {
        let tls = value.get("tlsConfig");
        Extender { config, index, value, tls }
    })
}

impl Extender<'_> {
    fn text(&self, name: &str) -> &str {
        self.value.get(name).and_then(Value::as_str).unwrap_or_default()
    }

    fn flag(&self, name: &str) -> bool {
        self.value.get(name).and_then(Value::as_bool).unwrap_or(false)
    }

    fn managed(&self) -> Vec<&str> {
        let items = self.value.get("managedResources").and_then(Value::as_sequence).into_iter().flatten();
        items.map(|item| item.get("name").and_then(Value::as_str).unwrap_or_default()).collect()
    }

    fn tls(&self, name: &str) -> bool {
        let value = self.tls.and_then(|tls| tls.get(name));
        value.is_some_and(|value| !value.is_null() && value.as_str() != Some(""))
    }

    fn name(&self) -> String {
        match self.text("urlPrefix") {
            "" => format!("the extender number {}", self.index + 1),
            url => format!("the extender {}", url::shown(url)),
        }
    }

    fn is_insecure(&self) -> bool {
        let insecure = self.tls.and_then(|tls| tls.get("insecure"));
        insecure.and_then(Value::as_bool).unwrap_or(false)
    }

    /// The place of a field, or of the extender if the field is not there.
    fn place(&self, fields: &[&str]) -> Vec<Segment> {
        let place = [key("extenders"), Segment::Index(self.index)];
        place.into_iter().chain(fields.iter().map(|field| key(field))).collect()
    }

    fn finding(&self, rule: LintRule, fields: &[&str], message: impl Into<String>) -> Finding {
        let message = format!("{}: {}", self.name(), message.into());
        rule.at(self.config, &self.place(fields), message)
    }
}

/// What one file shows.
pub(super) fn check(config: &Config, judge: LintContext<'_>) -> Vec<Finding> {
    let mut findings = Capped::default();
    findings.extend(extenders(config).flat_map(|extender| check_one(&extender, judge)));
    findings.into_vec()
}

fn check_one(extender: &Extender<'_>, judge: LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let weight = extender.value.get("weight").and_then(whole).unwrap_or(0);
    if !extender.text("prioritizeVerb").is_empty() && weight <= 0 {
        findings.push(extender.finding(
            LintRule::ExtenderWeight,
            &["prioritizeVerb"],
            "it has a prioritizeVerb but no weight above 0, so the scheduler would not start",
        ));
    }
    let managed = extender.managed();
    if !extender.flag("ignorable") && managed.is_empty() {
        findings.push(extender.finding(
            LintRule::BlockingExtender,
            &[],
            "while it is down no pod of the cluster is scheduled, its own included",
        ));
    }
    for (index, name) in managed.iter().enumerate().filter(|(_, name)| !is_extended_resource(name)) {
        let mut place = extender.place(&["managedResources"]);
        place.push(Segment::Index(index));
        let message = format!("{}: {name:?} is no name of an extended resource", extender.name());
        findings.push(LintRule::ManagedResourceName.at(extender.config, &place, message));
    }
    for secret in ["keyData", "certData"].into_iter().filter(|secret| extender.tls(secret)) {
        findings.push(extender.finding(
            LintRule::KeyData,
            &["tlsConfig", secret],
            format!("tlsConfig.{secret} can be read by everyone who may read the scheduler's /configz"),
        ));
    }
    let returns_nodes = !extender.text("filterVerb").is_empty() && !extender.flag("nodeCacheCapable");
    if returns_nodes && judge.version.is_at_least(FORGETS_PODS) {
        let message = format!(
            "it filters without nodeCacheCapable: true, so kube-scheduler {} scores every node as if no pod ran there",
            judge.version
        );
        let is_said = extender.value.get("nodeCacheCapable").is_some();
        let field = if is_said { "nodeCacheCapable" } else { "filterVerb" };
        findings.push(extender.finding(LintRule::NodeCache, &[field], message));
    }
    findings.extend(check_files(extender, judge));
    if extender.is_insecure() && (extender.tls("caFile") || extender.tls("caData")) {
        let message = "it names a CA and is insecure at once, so the scheduler would not start";
        findings.push(extender.finding(LintRule::InsecureWithCa, &["tlsConfig", "insecure"], message));
    }
    findings.extend(check_address(extender, judge));
    findings
}

/// Whether the scheduler can read the files that it needs to speak TLS.
fn check_files(extender: &Extender<'_>, judge: LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    let tls = |name: &str| extender.tls.and_then(|tls| tls.get(name)).and_then(Value::as_str);
    for name in ["certFile", "keyFile", "caFile"] {
        let Some(path) = tls(name).filter(|path| !path.is_empty()) else { continue };
        if has_parent(path) {
            let message = format!("the path {path} of {name} holds ..");
            findings.push(extender.finding(LintRule::ParentPath, &["tlsConfig", name], message));
        } else if !judge.sees(path) {
            let message = format!("the scheduler's container does not see {path}");
            findings.push(extender.finding(LintRule::NotVisible, &["tlsConfig", name], message));
        } else if judge.beside(path).is_some_and(|content| !contains(content, pem_of(name).as_bytes())) {
            let message = format!("{path} holds no {}, so the scheduler would not start", pem_of(name));
            findings.push(extender.finding(LintRule::NotPem, &["tlsConfig", name], message));
        }
    }
    if tls("caData").is_some_and(|data| !data.is_empty() && !data.starts_with(PEM_AS_BASE64)) {
        let message = "caData is not the base64 of a PEM file, so the scheduler would not start";
        findings.push(extender.finding(LintRule::NotPem, &["tlsConfig", "caData"], message));
    }
    findings
}

/// What the PEM file of a field holds.
fn pem_of(field: &str) -> &'static str {
    if field == "keyFile" { "PRIVATE KEY-----" } else { "-----BEGIN CERTIFICATE-----" }
}

fn contains(content: &[u8], part: &[u8]) -> bool {
    content.windows(part.len()).any(|window| window == part)
}

/// What the extender's address and patience show.
fn check_address(extender: &Extender<'_>, judge: LintContext<'_>) -> Vec<Finding> {
    let mut findings = Vec::new();
    if seconds(extender.text("httpTimeout")).is_some_and(|seconds| seconds > SLOW_SECONDS) {
        let message = format!("it may keep every pod waiting for {}", extender.text("httpTimeout"));
        findings.push(extender.finding(LintRule::SlowExtender, &["httpTimeout"], message));
    }
    let (url, https) = (extender.text("urlPrefix"), extender.flag("enableHTTPS"));
    let is_called = VERBS.iter().any(|verb| !extender.text(verb).is_empty());
    if let Some(fault) = url::fault(url).filter(|_| is_called) {
        let message = format!("its urlPrefix {fault}, so the scheduler cannot call it");
        findings.push(extender.finding(LintRule::ExtenderUrl, &["urlPrefix"], message));
    }
    if url::has_credentials(url) {
        let message = "its urlPrefix holds a user name or password, which everyone sees who may read the ConfigMap or the scheduler's /configz";
        findings.push(extender.finding(LintRule::UrlCredentials, &["urlPrefix"], message));
    }
    let trusts_any = !extender.tls("caFile") && !extender.tls("caData");
    if https && trusts_any && !extender.is_insecure() {
        findings.push(extender.finding(
            LintRule::HttpsWithoutCa,
            &["enableHTTPS"],
            "no CA is named, so the scheduler would trust any certificate",
        ));
    }
    if url.to_ascii_lowercase().starts_with("https://") && !https && trusts_any && !extender.is_insecure() {
        let message = "its URL is https without enableHTTPS and without a CA, so its certificate must be signed by a CA of the scheduler's image";
        findings.push(extender.finding(LintRule::HttpsNotEnabled, &["urlPrefix"], message));
    }
    let uses_cluster_dns = !judge.spec.host_network || judge.dns_policy() == Some("ClusterFirstWithHostNet");
    if let Some(host) = url::host(url).filter(|host| is_cluster_name(host) && !uses_cluster_dns) {
        let message =
            format!("{host} is a name of the cluster's DNS, which the scheduler on the host's network does not ask");
        findings.push(extender.finding(LintRule::ClusterName, &["urlPrefix"], message));
    }
    findings
}

/// What shows only in all files together: things that one extender alone may have. The same extender twice is one.
pub(super) fn check_all(configs: &[&Config]) -> Vec<Finding> {
    let mut findings = Capped::default();
    let all: Vec<_> = configs.iter().flat_map(|config| extenders(config)).collect();
    let mut binder: Option<&Extender<'_>> = None;
    let mut managers: BTreeMap<&str, &Extender<'_>> = BTreeMap::new();
    for extender in &all {
        findings.extend(check_managed(extender, &mut managers));
        if extender.text("bindVerb").is_empty() {
            continue;
        }
        match binder {
            Some(first) if first.value == extender.value => {}
            Some(first) => {
                let message = format!("it binds pods, and so does {} in {}", first.name(), first.config.file);
                findings.push(extender.finding(LintRule::SeveralBindVerbs, &["bindVerb"], message));
            }
            None => binder = Some(extender),
        }
    }
    findings.into_vec()
}

/// The first resource of an extender that it names twice, or that another one manages.
fn check_managed<'a>(
    extender: &'a Extender<'a>,
    managers: &mut BTreeMap<&'a str, &'a Extender<'a>>,
) -> Option<Finding> {
    // compared once, not for every resource that the two share
    let mut is_twin = None;
    for name in extender.managed() {
        let message = match managers.get(name) {
            None => {
                managers.insert(name, extender);
                continue;
            }
            Some(first) if std::ptr::eq(*first, extender) => format!("{name} appears twice in its managedResources"),
            Some(first) if *is_twin.get_or_insert_with(|| first.value == extender.value) => continue,
            Some(first) => format!("{name} is managed by {} in {} already", first.name(), first.config.file),
        };
        return Some(extender.finding(LintRule::ManagedResourceTwice, &["managedResources"], message));
    }
    None
}

/// `service.namespace.svc…`, or a bare word that only search domains of the cluster complete.
fn is_cluster_name(host: &str) -> bool {
    let bare = !host.contains('.') && host != "localhost" && !host.starts_with('[');
    bare || host.split('.').any(|part| part == "svc")
}

/// A domain of its own, a slash and a name; not what Kubernetes keeps for itself.
fn is_extended_resource(name: &str) -> bool {
    let Some((domain, rest)) = name.split_once('/') else { return false };
    let label = |text: &str, more: &[u8]| {
        text.bytes().all(|b| b.is_ascii_alphanumeric() || more.contains(&b))
            && text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric())
    };
    let subdomain = domain.split('.').all(|part| label(part, b"-")) && !domain.bytes().any(|b| b.is_ascii_uppercase());
    // the quota's own name for it, requests.NAME, must fit into a qualified name too
    let fits = domain.len() + "requests.".len() <= 253 && rest.len() <= 63;
    !name.contains("kubernetes.io/") && !name.starts_with("requests.") && subdomain && fits && label(rest, b"-_.")
}
