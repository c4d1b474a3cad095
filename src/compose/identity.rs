//! What the target decides: credentials, leader election and profiling, which its flags said and `--config` would silence.

use serde_yaml::{Mapping, Value};

use crate::edit::{Flag, last_flag};
use crate::finding::Finding;

/// How a flag's value is written in the configuration.
#[derive(Clone, Copy)]
enum Kind {
    Text,
    Bool,
    Number,
}

/// A flag, its field in the configuration, and what the scheduler does without it.
struct Carried {
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
) -> Carried {
    Carried { flag, section, field, kind, default }
}

const CLIENT: Option<&str> = Some("clientConnection");
const ELECTION: Option<&str> = Some("leaderElection");

/// Every flag whose value moves into the file. The flags stay: some releases and all scanners read them.
const CARRIED: [Carried; 13] = [
    carried("kubeconfig", CLIENT, "kubeconfig", Kind::Text, ""),
    carried("kube-api-content-type", CLIENT, "contentType", Kind::Text, "application/vnd.kubernetes.protobuf"),
    carried("kube-api-qps", CLIENT, "qps", Kind::Number, "50"),
    carried("kube-api-burst", CLIENT, "burst", Kind::Number, "100"),
    carried("leader-elect", ELECTION, "leaderElect", Kind::Bool, "true"),
    carried("leader-elect-lease-duration", ELECTION, "leaseDuration", Kind::Text, "15s"),
    carried("leader-elect-renew-deadline", ELECTION, "renewDeadline", Kind::Text, "10s"),
    carried("leader-elect-retry-period", ELECTION, "retryPeriod", Kind::Text, "2s"),
    carried("leader-elect-resource-lock", ELECTION, "resourceLock", Kind::Text, "leases"),
    carried("leader-elect-resource-name", ELECTION, "resourceName", Kind::Text, "kube-scheduler"),
    carried("leader-elect-resource-namespace", ELECTION, "resourceNamespace", Kind::Text, "kube-system"),
    carried("profiling", None, "enableProfiling", Kind::Bool, "true"),
    carried("contention-profiling", None, "enableContentionProfiling", Kind::Bool, "true"),
];

/// The part of the configuration that the target decides.
#[derive(Debug)]
pub(crate) struct Identity {
    /// The fields, as they go into the file
    pub fields: Mapping,
    /// Which flag each came from: field path and flag
    pub origins: Vec<(String, String)>,
    /// What a source said otherwise
    pub findings: Vec<Finding>,
}

/// Takes the identity from the target's flags, and out of `source` what it says about it.
pub(crate) fn take(flags: &[Flag], source: &mut Mapping) -> Result<Identity, Finding> {
    if last_flag(flags, "kubeconfig").is_none() && last_flag(flags, "master").is_none() {
        return Err(Finding::error(
            "no-credentials",
            "the scheduler has neither --kubeconfig nor --master, so with a configuration file it could not reach the API server",
            "give it --kubeconfig=FILE in its manifest",
        ));
    }
    let mut identity = Identity { fields: Mapping::new(), origins: Vec::new(), findings: Vec::new() };
    for rule in &CARRIED {
        let flag = last_flag(flags, rule.flag);
        let value = flag.map(|flag| rule.value(flag)).transpose()?;
        let said = remove(source, rule.section, rule.field);
        if let Some(said) = said {
            let stands = value.clone().or_else(|| rule.read(rule.default));
            if stands.as_ref().is_none_or(|stands| !same(stands, &said)) {
                identity.findings.push(rule.overruled(&said, flag));
            }
        }
        if let Some(value) = value {
            insert(&mut identity.fields, rule.section, rule.field, value);
            identity.origins.push((rule.path(), format!("--{} of the target", rule.flag)));
        }
    }
    for section in [CLIENT, ELECTION].into_iter().flatten() {
        drop_rest(section, source, &mut identity.findings);
    }
    Ok(identity)
}

impl Carried {
    fn path(&self) -> String {
        self.section.map_or_else(|| self.field.to_owned(), |section| format!("{section}.{}", self.field))
    }

    fn value(&self, flag: &Flag) -> Result<Value, Finding> {
        let text = match (&flag.value, self.kind) {
            (Some(text), _) => text.as_str(),
            (None, Kind::Bool) => "true",
            (None, _) => "",
        };
        self.read(text).filter(|_| !text.is_empty() && !text.contains("$(")).ok_or_else(|| {
            Finding::error(
                "flag-value",
                format!("the value {text:?} of --{} cannot be carried into a configuration file", flag.name),
                "write the value out in the manifest",
            )
            .at_line(flag.line)
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
            Kind::Number => {
                let number = text.parse::<i64>().map(Value::from);
                number.ok().or_else(|| text.parse::<f64>().ok().filter(|number| number.is_finite()).map(Value::from))
            }
        }
    }

    fn overruled(&self, said: &Value, flag: Option<&Flag>) -> Finding {
        let by = flag.map_or_else(
            || format!("the target, which runs with the default {:?}", self.default),
            |_| format!("the target's flag --{}", self.flag),
        );
        overruled(&self.path(), Some(said), &by)
    }
}

fn overruled(path: &str, said: Option<&Value>, by: &str) -> Finding {
    let said = said.and_then(|said| serde_json::to_string(said).ok()).map_or(String::new(), |said| format!(" {said}"));
    Finding::warning(
        "overruled",
        format!("the source's {path}{said} is overruled by {by}"),
        "leave the field out: sources decide scheduling, the target decides identity",
    )
}

/// Equal, also where one says 50 and the other 50.0.
fn same(a: &Value, b: &Value) -> bool {
    a == b || matches!((a.as_f64(), b.as_f64()), (Some(a), Some(b)) if (a - b).abs() < f64::EPSILON)
}

/// Fields of a section that no flag carries.
fn drop_rest(section: &'static str, source: &mut Mapping, findings: &mut Vec<Finding>) {
    let Some(rest) = source.remove(section) else { return };
    let fields = rest.as_mapping().cloned().unwrap_or_default();
    for (key, value) in &fields {
        let key = key.as_str().unwrap_or_default();
        findings.push(overruled(&format!("{section}.{key}"), Some(value), "the target, which does not say it"));
    }
}

fn remove(config: &mut Mapping, section: Option<&str>, field: &str) -> Option<Value> {
    match section {
        None => config.remove(field),
        Some(section) => config.get_mut(section)?.as_mapping_mut()?.remove(field),
    }
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
