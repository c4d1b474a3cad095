//! Strict decoding, as the scheduler does it: every key known, every value of its type.

use std::borrow::Cow;

use base64::Engine as _;
use base64::alphabet::STANDARD;
use base64::engine::{GeneralPurpose, GeneralPurposeConfig};
use serde_yaml::{Mapping, Value};
use yaml_edit::Segment;

use super::LintRule;
use super::capped::Capped;
use crate::compose::read::Config;
use crate::compose::schema::{self, Field, Type};
use crate::compose::version::Version;
use crate::finding::Finding;

/// What the scheduler's decoder would say of a file.
pub(super) struct Decoded {
    /// Why it would refuse it
    pub findings: Vec<Finding>,
    /// Whether every value is of its field's type; else what it means cannot be judged further
    pub is_typed: bool,
}

/// What the scheduler's decoder would refuse.
pub(super) fn check(config: &Config, version: Version) -> Decoded {
    let mut walk = Walk { config, version, place: Vec::new(), findings: Capped::default(), is_typed: true };
    if let Some(fields) = schema::fields(&config.version) {
        walk.entries(&config.content, fields);
    }
    Decoded { findings: walk.findings.into_vec(), is_typed: walk.is_typed }
}

struct Walk<'a> {
    config: &'a Config,
    version: Version,
    place: Vec<Segment>,
    findings: Capped,
    is_typed: bool,
}

impl Walk<'_> {
    fn value(&mut self, value: &Value, holds: Type) {
        match (holds, value) {
            // an empty duration is none: the scheduler refuses it, unlike every other null
            (Type::Duration, Value::Null) => self.wrong("a duration such as \"5s\""),
            (Type::Any, value) if !is_plain(value) => {
                self.wrong("plain data: no tags, no infinite numbers, only text as keys");
            }
            (_, Value::Null)
            | (Type::Any, _)
            | (Type::Bool, Value::Bool(_))
            | (Type::Float, Value::Number(_))
            | (Type::Text, Value::String(_)) => {}
            (Type::Int(low, high), Value::Number(_)) => match whole(value) {
                Some(number) if (low..=high).contains(&number) => {}
                _ => self.wrong("a whole number in the field's range"),
            },
            (Type::Duration, Value::String(text)) if seconds(text).is_some() => {}
            (Type::Duration, Value::Number(_)) => {
                self.wrong("a duration such as \"5s\"; only the old Policy counted nanoseconds");
            }
            (Type::Duration, _) => self.wrong("a duration such as \"5s\""),
            (Type::Bytes, Value::String(text)) if is_base64(text) => {}
            (Type::Bytes, _) => self.wrong("base64"),
            (Type::List(of), Value::Sequence(items)) => {
                for (index, item) in items.iter().enumerate() {
                    self.below(Segment::Index(index), |walk| walk.value(item, *of));
                }
            }
            (Type::Map(fields), Value::Mapping(entries)) => self.entries(entries, fields),
            (Type::Bool, _) => self.wrong("true or false"),
            (Type::Int(..) | Type::Float, _) => self.wrong("a number"),
            (Type::Text, _) => self.wrong("text: put it in quotes"),
            (Type::List(_), _) => self.wrong("a list"),
            (Type::Map(_), _) => self.wrong("a mapping"),
        }
    }

    fn entries(&mut self, entries: &Mapping, fields: &[Field]) {
        for (key, value) in entries {
            let odd = || Cow::Owned(serde_json::to_string(key).unwrap_or_default());
            let name = key.as_str().map_or_else(odd, Cow::Borrowed);
            self.below(Segment::Key(name.to_string()), |walk| walk.field(&name, value, fields));
        }
    }

    fn field(&mut self, name: &str, value: &Value, fields: &[Field]) {
        let known = |field: &&Field| self.version.is_within(field.first, field.last);
        if let Some(field) = fields.iter().filter(known).find(|field| field.name == name) {
            self.value(value, field.holds);
        } else {
            let finding = LintRule::UnknownField.at(self.config, &self.place, self.unknown(name, fields));
            self.findings.push(finding);
        }
    }

    /// The words for a key that is not known: what it may be instead.
    fn unknown(&self, name: &str, fields: &[Field]) -> String {
        if name == "metadata" && self.place.len() == 1 {
            return "a KubeSchedulerConfiguration is no object of the cluster and has no metadata".to_owned();
        }
        let message = format!("kube-scheduler {} does not know the field {}", self.version, self.path());
        if let Some(other) = fields.iter().find(|field| field.name.eq_ignore_ascii_case(name)) {
            return if other.name == name {
                format!("{message}: other releases do")
            } else {
                format!("{message}: it is spelled {}", other.name)
            };
        }
        message
    }

    fn wrong(&mut self, expected: &str) {
        let message = format!("{} must be {expected}", self.path());
        self.is_typed = false;
        self.findings.push(LintRule::WrongType.at(self.config, &self.place, message));
    }

    fn path(&self) -> String {
        self.place.iter().fold(String::new(), |path, place| match place {
            Segment::Index(index) => format!("{path}[{index}]"),
            Segment::Key(key) if path.is_empty() => key.clone(),
            Segment::Key(key) => format!("{path}.{key}"),
        })
    }

    fn below(&mut self, place: Segment, look: impl FnOnce(&mut Self)) {
        self.place.push(place);
        look(self);
        self.place.pop();
    }
}

/// Whether every reader takes a value for the same: what JSON can say.
fn is_plain(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_f64().is_none_or(f64::is_finite),
        Value::Sequence(items) => items.iter().all(is_plain),
        Value::Mapping(entries) => entries.iter().all(|(key, value)| key.is_string() && is_plain(value)),
        Value::Tagged(_) => false,
        Value::Null | Value::Bool(_) | Value::String(_) => true,
    }
}

/// A whole number, also where it is written `5.0`.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and small")]
pub(super) fn whole(value: &Value) -> Option<i64> {
    let float = || value.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < 9e15);
    value.as_i64().or_else(|| float().map(|float| float as i64))
}

/// Go counts nanoseconds in 64 bits: 292 years.
const LONGEST: f64 = 9_223_372_036.0;

/// The seconds of a duration as Go writes it (`1h30m`, `1.5s`), or `None` if it is none.
pub(crate) fn seconds(text: &str) -> Option<f64> {
    let (sign, mut rest) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if rest == "0" {
        return Some(0.0);
    }
    let units =
        [("ns", 1e-9), ("us", 1e-6), ("µs", 1e-6), ("μs", 1e-6), ("ms", 1e-3), ("s", 1.0), ("m", 60.0), ("h", 3600.0)];
    let mut total = 0.0;
    let mut parts = 0;
    while !rest.is_empty() {
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit() || c == '.').len();
        let number: f64 = rest[..digits].parse().ok()?;
        rest = &rest[digits..];
        let (unit, factor) =
            units.iter().find(|(unit, _)| rest.starts_with(unit) && !(*unit == "m" && rest.starts_with("ms")))?;
        rest = &rest[unit.len()..];
        total += number * factor;
        parts += 1;
    }
    (parts > 0 && total < LONGEST).then_some(sign * total)
}

/// As Go reads it: line breaks do not count, nor what the last character says beyond the last byte.
fn is_base64(text: &str) -> bool {
    let like_go = GeneralPurposeConfig::new().with_decode_allow_trailing_bits(true);
    GeneralPurpose::new(&STANDARD, like_go).decode(text.replace(['\n', '\r'], "")).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_those_of_go() {
        for (text, expected) in [
            ("5s", Some(5.0)),
            ("1h30m", Some(5400.0)),
            ("100ms", Some(0.1)),
            ("1.5m", Some(90.0)),
            ("300000s", Some(300_000.0)),
            ("0", Some(0.0)),
            ("-1s", Some(-1.0)),
            ("5", None),
            ("", None),
            ("s", None),
            ("5x", None),
            ("1 s", None),
            ("9999999h", None),
        ] {
            assert_eq!(seconds(text), expected, "{text}");
        }
    }
}
