//! What the target decides: credentials, leader election and profiling.
//!
//! It said so with flags, which a configuration file would silence, or in the configuration file that it already has.

use serde_yaml::{Mapping, Value};
use yaml_edit::Segment;

use super::read::Config;
use super::{Origin, Version, lint};
use crate::finding::Finding;
use crate::target::{Flag, last_flag};

/// How a flag's value is written in the configuration.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    Duration,
    /// As much as 32 bits hold
    Whole,
    Float,
}

/// A flag, its field in the configuration, and what the scheduler does without it.
struct FlagMapping {
    flag: &'static str,
    section: Option<&'static str>,
    field: &'static str,
    kind: Kind,
    default: &'static str,
}

const fn carried(
    flag: &'static str,
    section: Option<&'static str>,
    field: &'static str,
    kind: Kind,
    default: &'static str,
) -> FlagMapping {
    FlagMapping { flag, section, field, kind, default }
}

const CLIENT: Option<&str> = Some("clientConnection");
const ELECTION: Option<&str> = Some("leaderElection");

/// Older names of `--leader-elect-resource-name` and `-namespace`, which 1.28 dropped. Unlike their successors they do
/// nothing beside a configuration file, in any release.
const LOCK_NAME: &str = "lock-object-name";
const LOCK_NAMESPACE: &str = "lock-object-namespace";

/// Every flag whose value moves into the file. The flags stay: some releases and all scanners read them. Of two flags
/// for one field the first counts, as in the scheduler.
const CARRIED: [FlagMapping; 15] = [
    carried("kubeconfig", CLIENT, "kubeconfig", Kind::Text, ""),
    carried("kube-api-content-type", CLIENT, "contentType", Kind::Text, "application/vnd.kubernetes.protobuf"),
    carried("kube-api-qps", CLIENT, "qps", Kind::Float, "50"),
    carried("kube-api-burst", CLIENT, "burst", Kind::Whole, "100"),
    carried("leader-elect", ELECTION, "leaderElect", Kind::Bool, "true"),
    carried("leader-elect-lease-duration", ELECTION, "leaseDuration", Kind::Duration, "15s"),
    carried("leader-elect-renew-deadline", ELECTION, "renewDeadline", Kind::Duration, "10s"),
    carried("leader-elect-retry-period", ELECTION, "retryPeriod", Kind::Duration, "2s"),
    carried("leader-elect-resource-lock", ELECTION, "resourceLock", Kind::Text, "leases"),
    carried("leader-elect-resource-name", ELECTION, "resourceName", Kind::Text, "kube-scheduler"),
    carried("leader-elect-resource-namespace", ELECTION, "resourceNamespace", Kind::Text, "kube-system"),
    carried(LOCK_NAME, ELECTION, "resourceName", Kind::Text, "kube-scheduler"),
    carried(LOCK_NAMESPACE, ELECTION, "resourceNamespace", Kind::Text, "kube-system"),
    carried("profiling", None, "enableProfiling", Kind::Bool, "true"),
    carried("contention-profiling", None, "enableContentionProfiling", Kind::Bool, "true"),
];

/// The top-level fields of a configuration that are identity.
const FIELDS: [&str; 4] = ["clientConnection", "leaderElection", "enableProfiling", "enableContentionProfiling"];

/// The part of the configuration that the target decides.
#[derive(Debug, Default)]
pub(crate) struct Identity {
    /// The fields, as they go into the file
    pub fields: Mapping,
    /// Which flag or file each came from
    pub origins: Vec<Origin>,
}

impl Identity {
    /// From the configuration file that the target already has, and from its flags where that is silent: the scheduler
    /// ignores them beside a file, but they say what was meant.
    pub fn of_target(base: Option<&mut Config>, flags: &[Flag], wished: &[(String, String)]) -> Result<Self, Finding> {
        let mut identity = Self::default();
        let has_base = base.is_some();
        if let Some(base) = base {
            for field in FIELDS {
                if let Some(value) = base.content.shift_remove(field).filter(|value| !value.is_null()) {
                    identity.origins.push(Origin { part: field.to_owned(), from: base.file.clone() });
                    identity.fields.insert(field.into(), value);
                }
            }
        } else if last_flag(flags, "kubeconfig").is_none() && last_flag(flags, "master").is_none() {
            return Err(Finding::error(
                "no-credentials",
                "the scheduler has neither --kubeconfig nor --master, so with a configuration file it could not reach the API server",
                "give it --kubeconfig=FILE in its manifest",
            ));
        }
        for rule in &CARRIED {
            let silent = identity.get(rule.section, rule.field).is_none();
            let said = |flag: &&Flag| flag.value.as_deref() != Some("");
            // another lease than the one that the scheduler holds now would make two leaders
            let without_effect = has_base && matches!(rule.flag, LOCK_NAME | LOCK_NAMESPACE);
            if let Some(flag) = last_flag(flags, rule.flag).filter(said).filter(|_| silent && !without_effect) {
                insert(&mut identity.fields, rule.section, rule.field, rule.value(flag)?);
                let from = format!("--{} of the target", rule.flag);
                identity.origins.push(Origin { part: path(rule.section, rule.field), from });
            }
            // a flag beside a configuration file does nothing, so a wish must go into the file
            if let Some((name, text)) = wished.iter().rev().find(|(name, _)| name == rule.flag) {
                let value = rule.read(text).ok_or_else(|| {
                    let message = format!("{text:?} is no value for {name}");
                    Finding::error("flag-value", message, "correct --scheduler-arg").in_file("the command line")
                })?;
                insert(&mut identity.fields, rule.section, rule.field, value);
                let part = path(rule.section, rule.field);
                identity.origins.retain(|origin| origin.part != part);
                identity.origins.push(Origin { part, from: "--scheduler-arg".to_owned() });
            }
        }
        Ok(identity)
    }

    /// Beside a configuration file 1.22 ignores `--port=0` and opens its plain port on every address. The file cannot say 0, which
    /// 1.22 refuses, so the port is open on the loopback only.
    pub fn hide_plain_port(&mut self, version: Version, flags: &[Flag]) {
        let is_closed = last_flag(flags, "port").is_some_and(|flag| flag.value.as_deref() == Some("0"));
        if is_closed && version.opens_plain_port() {
            for field in ["healthzBindAddress", "metricsBindAddress"] {
                self.fields.insert(field.into(), Value::from("127.0.0.1:10251"));
                self.origins.push(Origin { part: field.to_owned(), from: "--port of the target".to_owned() });
            }
        }
    }

    /// Where the scheduler's credentials are, and which flag or file says so.
    pub fn kubeconfig(&self) -> Option<(&str, &str)> {
        let path = self.get(CLIENT, "kubeconfig").and_then(Value::as_str).filter(|path| !path.is_empty())?;
        let own = self.origins.iter().find(|origin| origin.part == "clientConnection.kubeconfig");
        let origin = own.or_else(|| self.origins.iter().find(|origin| Some(origin.part.as_str()) == CLIENT))?;
        Some((path, &origin.from))
    }

    /// Takes out of a source what it says about identity, and tells what of it is overruled.
    pub fn overrule(&self, source: &mut Config) -> Vec<Finding> {
        let mut findings = Vec::new();
        for field in FIELDS {
            let Some(said) = source.content.shift_remove(field) else { continue };
            match said {
                Value::Mapping(fields) => {
                    for (key, said) in &fields {
                        let key = key.as_str().unwrap_or_default();
                        findings.extend(self.overruled(source, Some(field), key, said));
                    }
                }
                said => findings.extend(self.overruled(source, None, field, &said)),
            }
        }
        findings
    }

    fn overruled(&self, source: &Config, section: Option<&str>, field: &str, said: &Value) -> Option<Finding> {
        let rule = CARRIED.iter().find(|rule| rule.section == section && rule.field == field);
        if rule.is_none() && field != "acceptContentTypes" {
            return None; // no field at all, which the lint tells
        }
        let default = || rule.and_then(|rule| rule.read(rule.default));
        let stands = self.get(section, field).cloned().or_else(default);
        if said.is_null() || said.as_str() == Some("") || stands.as_ref().is_some_and(|stands| same(stands, said)) {
            return None;
        }
        let path = path(section, field);
        let from = self.origins.iter().find(|origin| origin.part == path || Some(origin.part.as_str()) == section);
        let by =
            from.map_or_else(|| "the target, which runs with the default".to_owned(), |origin| origin.from.clone());
        let place: Vec<_> = section.into_iter().chain([field]).map(|key| Segment::Key(key.to_owned())).collect();
        let way_out = "leave the field out: sources decide scheduling, the target decides identity";
        let finding = Finding::warning("overruled", format!("{path} is overruled by {by}"), way_out);
        Some(finding.in_file(source.file.clone()).at_line(source.line(&place)))
    }

    fn get(&self, section: Option<&str>, field: &str) -> Option<&Value> {
        match section {
            None => self.fields.get(field),
            Some(section) => self.fields.get(section)?.get(field),
        }
    }
}

impl FlagMapping {
    fn value(&self, flag: &Flag) -> Result<Value, Finding> {
        let text = match (&flag.value, self.kind) {
            (Some(text), _) => text.as_str(),
            (None, Kind::Bool) => "true",
            (None, _) => "",
        };
        self.read(text).filter(|_| !text.is_empty() && !text.contains("$(")).ok_or_else(|| {
            let message = format!("the value {text:?} of --{} cannot be carried into a configuration file", flag.name);
            Finding::error("flag-value", message, "write the value out in the manifest").at_line(flag.line)
        })
    }

    fn read(&self, text: &str) -> Option<Value> {
        match self.kind {
            Kind::Text => Some(Value::String(text.to_owned())),
            // as Go's strconv.ParseBool, which pflag uses
            Kind::Bool => match text {
                "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(Value::Bool(true)),
                "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(Value::Bool(false)),
                _ => None,
            },
            Kind::Duration => lint::seconds(text).map(|_| Value::from(text)),
            Kind::Whole => text.parse::<i32>().ok().map(Value::from),
            Kind::Float => {
                let whole = text.parse::<i32>().ok().map(Value::from);
                let float = || text.parse::<f32>().ok().filter(|float| float.is_finite());
                whole.or_else(|| float().and_then(|_| text.parse::<f64>().ok()).map(Value::from))
            }
        }
    }
}

fn path(section: Option<&str>, field: &str) -> String {
    section.map_or_else(|| field.to_owned(), |section| format!("{section}.{field}"))
}

/// Equal, also where one says 50 and the other 50.0, or one 60s and the other 1m0s.
pub(crate) fn same(a: &Value, b: &Value) -> bool {
    let seconds = |value: &Value| value.as_str().and_then(lint::seconds);
    a == b
        || seconds(a).is_some_and(|own| seconds(b) == Some(own))
        || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if (a - b).abs() < f64::EPSILON)
}

fn insert(config: &mut Mapping, section: Option<&str>, field: &str, value: Value) {
    match section {
        None => {
            config.insert(field.into(), value);
        }
        Some(section) => {
            let part = config.entry(section.into()).or_insert_with(|| Value::Mapping(Mapping::new()));
            if let Some(part) = part.as_mapping_mut() {
                part.insert(field.into(), value);
            }
        }
    }
}
