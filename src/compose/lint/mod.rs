//! What is wrong, or unwise, with a configuration: found before anything is touched.

mod capped;
mod decode;
mod extender;
mod plugins;
mod profile;
mod values;

use decode::Decoded;
use yaml_edit::Segment;

use crate::finding::{Finding, Level, rules};

use super::read::Config;
use super::version::Version;
use super::{DIR_VARIABLE, Others};
use crate::settings::SchedulerOverrides;
use crate::target::{SchedulerSpec, last_flag};

rules! {
    /// A rule of the lint. Errors can be insisted on with `--accept RULE`.
    LintRule {
        /// A key that the scheduler does not know; its strict decoder refuses the whole file.
        UnknownField = "unknown-field", "correct or remove the field; if your release of Kubernetes is newer than this program and knows it, insist with --accept unknown-field";
        /// A value of another type than the field has.
        WrongType = "wrong-type", "write the value in the field's own type";
        /// A number or duration out of the range that the scheduler accepts.
        OutOfRange = "out-of-range", "write a value in the range";
        /// `prioritizeVerb` without a `weight` above 0: the scheduler does not start.
        ExtenderWeight = "extender-weight", "add weight: 1, or take prioritizeVerb out";
        /// More than one extender that binds: the scheduler does not start.
        SeveralBindVerbs = "several-bind-verbs", "leave bindVerb to one extender";
        /// A managed resource that two extenders name, or one twice: the scheduler does not start.
        ManagedResourceTwice = "managed-resource-twice", "let one extender manage the resource";
        /// The name of a managed resource is none of an extended resource.
        ManagedResourceName = "managed-resource-name", "write a name with a domain of your own, such as example.com/gpu";
        /// An extender that can stop all scheduling: neither `ignorable` nor limited to some pods by `managedResources`.
        BlockingExtender = "blocking-extender", "add ignorable: true, or managedResources so that only pods which ask for them wait for it; if every pod shall wait, insist with --accept blocking-extender";
        /// A `urlPrefix` that the scheduler cannot call: it starts, and skips the extender for every pod, or schedules none.
        ExtenderUrl = "extender-url", "write the whole URL, such as http://127.0.0.1:8889";
        /// A private key or certificate in the configuration, which anyone may read who may read /configz.
        KeyData = "key-data", "put it into a file of the source and name that: certFile: $(SCHEDPATCH_DIR)/tls.crt, keyFile: $(SCHEDPATCH_DIR)/tls.key";
        /// A profile without a name beside others, or two of one name in one file.
        ProfileName = "profile-name", "give every profile a schedulerName of its own";
        /// A plugin that this release of the scheduler does not have.
        UnknownPlugin = "unknown-plugin", "correct the name; for a scheduler image with plugins of its own insist with --accept unknown-plugin";
        /// A plugin that is enabled or configured twice at one place: the scheduler does not start.
        PluginTwice = "plugin-twice", "leave one of the two";
        /// Arguments for a plugin that no profile has: the scheduler starts, and they do nothing.
        UnusedPluginConfig = "unused-plugin-config", "correct the name, or take the entry out; for a plugin that the image enables by itself insist with --accept unused-plugin-config";
        /// A profile without exactly one queueSort plugin, the same in all profiles, or without a bind plugin.
        PluginSet = "plugin-set", "enable one queueSort plugin, the same in every profile (and disable PrioritySort with it), and at least one bind plugin";
        /// A CA together with `insecure: true`: the scheduler does not start.
        InsecureWithCa = "insecure-with-ca", "leave insecure out: the CA is there to check the certificate";
        /// A file that the scheduler shall read is not mounted into its container.
        NotVisible = "not-visible", "put the file into the source and name it $(SCHEDPATCH_DIR)/NAME, or mount it with --scheduler-mount PATH";
        /// A path with `..` in it, which may lead out of what the scheduler's container is meant to see.
        ParentPath = "parent-path", "write the path without ..";
        /// A CA, certificate or key that is no PEM: the scheduler does not start.
        NotPem = "not-pem", "put a PEM file there (it begins with -----BEGIN)";
        /// An extender that may keep the scheduling loop waiting for more than 5 seconds, for every pod.
        SlowExtender = "slow-extender", "set httpTimeout to a few seconds: while it waits no other pod is scheduled";
        /// `enableHTTPS` without a CA: the scheduler then trusts any certificate.
        HttpsWithoutCa = "https-without-ca", "name the CA: tlsConfig.caFile: $(SCHEDPATCH_DIR)/ca.crt";
        /// An https URL without `enableHTTPS` and without a CA: the certificate is checked against the CAs of the scheduler's image.
        HttpsNotEnabled = "https-not-enabled", "name the CA: tlsConfig.caFile: $(SCHEDPATCH_DIR)/ca.crt (enableHTTPS: true without a CA would trust any certificate)";
        /// A user name or password in `urlPrefix`.
        UrlCredentials = "url-credentials", "let the extender check a client certificate instead: tlsConfig.certFile and keyFile; else keep few people able to read the ConfigMap and the scheduler's /configz";
        /// An extender that filters without `nodeCacheCapable: true`: from 1.33 on the scheduler's scoring by resources then sees every node as empty.
        NodeCache = "node-cache", "set nodeCacheCapable: true if the extender can answer with names of nodes (NodeNames); else ask its makers for that";
        /// A name of the cluster's DNS in a pod that does not use it.
        ClusterName = "cluster-name", "use an IP address or 127.0.0.1, or give the scheduler's pod the cluster's DNS: --scheduler-dns-policy ClusterFirstWithHostNet";
    }
}

impl LintRule {
    /// How bad it is.
    pub fn level(self) -> Level {
        match self {
            Self::SlowExtender
            | Self::HttpsWithoutCa
            | Self::HttpsNotEnabled
            | Self::UrlCredentials
            | Self::NodeCache
            | Self::ClusterName => Level::Warning,
            _ => Level::Error,
        }
    }

    fn at(self, config: &Config, place: &[Segment], message: impl Into<String>) -> Finding {
        let finding = Finding { level: self.level(), ..Finding::error(self.name(), message, self.way_out()) };
        finding.in_file(config.file.clone()).at_line(config.line(place))
    }
}

/// Images that hold the plugins of Kubernetes and no others.
const UPSTREAM_IMAGES: [&str; 2] = ["registry.k8s.io/kube-scheduler", "k8s.gcr.io/kube-scheduler"];

/// What of the scheduler a file is judged against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LintContext<'a> {
    pub version: Version,
    pub spec: &'a SchedulerSpec,
    /// What flags wish of it
    pub overrides: &'a SchedulerOverrides,
    /// Names of the files beside the configuration
    pub beside: &'a Others,
}

impl LintContext<'_> {
    /// The DNS policy that the scheduler's pod will have.
    fn dns_policy(&self) -> Option<&str> {
        self.overrides.dns_policy.as_deref().or(self.spec.dns_policy.as_deref())
    }

    /// The content of a file beside the configuration.
    fn beside(&self, path: &str) -> Option<&[u8]> {
        let name = path.strip_prefix(DIR_VARIABLE)?.strip_prefix('/')?;
        self.beside.get(name).map(|(content, _)| content.as_slice())
    }

    /// The image that was asked for, where it may have plugins of its own.
    fn foreign_image(&self) -> Option<&str> {
        let image = self.overrides.image.as_deref()?;
        let name = image.split('@').next().unwrap_or_default();
        let is_upstream =
            |own: &&str| name.strip_prefix(*own).is_some_and(|rest| rest.is_empty() || rest.starts_with(':'));
        (!UPSTREAM_IMAGES.iter().any(is_upstream)).then_some(image)
    }

    /// Whether the scheduler's container will see a file.
    fn sees(&self, path: &str) -> bool {
        if path.starts_with(DIR_VARIABLE) {
            return self.beside(path).is_some();
        }
        let wished = |mount: &String| {
            path.strip_prefix(mount.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.spec.host_path(path).is_some() || self.overrides.mounts.iter().any(wished)
    }
}

/// All that the sources show, and the target's own configuration as far as it matters.
pub(crate) fn everything(base: Option<&Config>, sources: &[Config], judge: LintContext<'_>) -> Vec<Finding> {
    let mut findings: Vec<_> = sources.iter().flat_map(|config| one_file(config, judge)).collect();
    // its own scheduler runs with the base; another one may not
    if judge.overrides.image.is_some() {
        findings.extend(base.into_iter().flat_map(|base| starts_with(base, judge)));
    }
    let all: Vec<_> = base.into_iter().chain(sources).collect();
    findings.extend(extender::check_all(&all));
    findings.extend(values::check_all(&all));
    findings.extend(profile::check_unused(sources, &all, judge));
    findings
}

/// All that one file shows.
fn one_file(config: &Config, judge: LintContext<'_>) -> Vec<Finding> {
    let Decoded { mut findings, is_typed } = decode::check(config, judge.version);
    if is_typed {
        findings.extend(values::check(config, judge));
        findings.extend(profile::check(config, judge));
        findings.extend(extender::check(config, judge));
    }
    findings
}

/// What would keep another scheduler from starting with the configuration that the target has. What it means for
/// scheduling is the target's own will.
fn starts_with(config: &Config, judge: LintContext<'_>) -> Vec<Finding> {
    let Decoded { mut findings, .. } = decode::check(config, judge.version);
    findings.extend(values::check(config, judge));
    findings.extend(profile::check(config, judge));
    findings
}

pub(crate) use decode::seconds;
pub(crate) use plugins::is_upstream;
pub(crate) use profile::check_merged as merged_profiles;

/// Whether the scheduler can read its credentials. `from` is the flag or file that names them.
pub(crate) fn kubeconfig(path: &str, from: &str, base: Option<&Config>, judge: LintContext<'_>) -> Option<Finding> {
    let (message, rule) = if has_parent(path) {
        (format!("the path of the scheduler's kubeconfig {path} holds .."), LintRule::ParentPath)
    } else if !judge.sees(path) {
        (format!("no mount of the scheduler's container holds its kubeconfig {path}"), LintRule::NotVisible)
    } else {
        return None;
    };
    let mount = "mount the file into the scheduler's container, or correct";
    let error = |what: &str| Finding::error(rule.name(), message.clone(), format!("{mount} {what}"));
    Some(match base.filter(|base| base.file == from) {
        Some(base) => error("clientConnection.kubeconfig in this file")
            .in_file(from)
            .at_line(base.line(&[key("clientConnection"), key("kubeconfig")])),
        None if from == "--scheduler-arg" => error("--scheduler-arg kubeconfig").in_file("the command line"),
        None => {
            let line = last_flag(&judge.spec.flags, "kubeconfig").and_then(|flag| flag.line);
            error("--kubeconfig in its manifest").at_line(line)
        }
    })
}

/// Whether a path leads to the parent of a directory in it.
fn has_parent(path: &str) -> bool {
    path.split('/').any(|part| part == "..")
}

/// Turns errors into warnings that a person insists on.
pub(crate) fn accept(findings: Vec<Finding>, accepted: &[String]) -> Vec<Finding> {
    let insisted = |finding: Finding| {
        if finding.level == Level::Error && accepted.iter().any(|rule| rule == finding.rule) {
            let way_out = format!("accepted with --accept {}", finding.rule);
            return Finding { level: Level::Warning, way_out, ..finding };
        }
        finding
    };
    findings.into_iter().map(insisted).collect()
}

fn key(name: &str) -> Segment {
    Segment::Key(name.to_owned())
}
