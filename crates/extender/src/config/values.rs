//! Values of the file that serde does not know: durations, ranges, fields of pods.

use std::fmt;
use std::time::Duration;

use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, Unexpected, Visitor};
use serde::{Deserialize, Deserializer};

use super::Range;

/// Where a pod has the value that a series must carry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PodField {
    /// `labels.KEY`
    Label(String),
    /// `annotations.KEY`
    Annotation(String),
    /// `namespace`
    Namespace,
    /// `name`
    Name,
}

/// Reads a string; the error comes from within, so that it has the string's own line.
struct Words<T> {
    read: fn(&str) -> Option<T>,
    expected: &'static str,
}

impl<T> Visitor<'_> for Words<T> {
    type Value = T;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.expected)
    }

    fn visit_str<E: Error>(self, text: &str) -> Result<T, E> {
        (self.read)(text).ok_or_else(|| E::invalid_value(Unexpected::Str(text), &self))
    }
}

impl<'de> Deserialize<'de> for PodField {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let expected = "a field of the pod: labels.KEY, annotations.KEY, namespace or name";
        deserializer.deserialize_str(Words { read: read_field, expected })
    }
}

fn read_field(text: &str) -> Option<PodField> {
    match text.split_once('.') {
        Some(("labels", key)) if !key.is_empty() => Some(PodField::Label(key.to_owned())),
        Some(("annotations", key)) if !key.is_empty() => Some(PodField::Annotation(key.to_owned())),
        _ if text == "namespace" => Some(PodField::Namespace),
        _ if text == "name" => Some(PodField::Name),
        _ => None,
    }
}

/// `500ms`, `30s`, `2m`, `1h`, or several of them: `1m30s`.
pub(super) fn duration<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Duration, D::Error> {
    deserializer.deserialize_str(Words { read: read_duration, expected: "a duration as 500ms, 30s, 2m or 1h" })
}

fn read_duration(text: &str) -> Option<Duration> {
    let mut rest = text;
    let mut total = Duration::ZERO;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit())?;
        let number: u64 = rest[..digits].parse().ok()?;
        let units = &rest[digits..];
        let end = units.find(|c: char| c.is_ascii_digit()).unwrap_or(units.len());
        let part = match &units[..end] {
            "ms" => Duration::from_millis(number),
            "s" => Duration::from_secs(number),
            "m" => Duration::from_secs(number.checked_mul(60)?),
            "h" => Duration::from_secs(number.checked_mul(3600)?),
            _ => return None,
        };
        total = total.checked_add(part)?;
        rest = &units[end..];
    }
    (total > Duration::ZERO && total <= Duration::from_hours(24 * 365)).then_some(total)
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Ends {
    from: f64,
    to: f64,
}

struct RangeForm;

impl<'de> Visitor<'de> for RangeForm {
    type Value = Range;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("minmax, or {from: NUMBER, to: NUMBER}")
    }

    fn visit_str<E: Error>(self, word: &str) -> Result<Range, E> {
        if word == "minmax" { Ok(Range::MinMax) } else { Err(E::invalid_value(Unexpected::Str(word), &self)) }
    }

    fn visit_map<A: MapAccess<'de>>(self, map: A) -> Result<Range, A::Error> {
        let Ends { from, to } = Ends::deserialize(MapAccessDeserializer::new(map))?;
        Ok(Range::Fixed { from, to })
    }
}

/// `minmax`, or `{from: 0, to: 1}`.
pub(super) fn range<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Range, D::Error> {
    deserializer.deserialize_any(RangeForm)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_numbers_with_units() {
        for (text, milliseconds) in [("500ms", 500), ("30s", 30_000), ("1m30s", 90_000), ("1h", 3_600_000)] {
            assert_eq!(read_duration(text), Some(Duration::from_millis(milliseconds)), "{text}");
        }
        for wrong in ["", "30", "s", "-1s", "1.5s", "0s", "1d", "99999999999999999999s", "9999999h", "1s x"] {
            assert_eq!(read_duration(wrong), None, "{wrong}");
        }
    }
}
