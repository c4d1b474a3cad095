//! Prometheus' answer to an instant query, read series by series: nothing of it is kept but what the caller takes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::wire::Text;

/// A query that gives more series than this is rather a mistake; the rest would only cost memory.
pub const MAX_SERIES: usize = 500_000;

/// Why an answer cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SeriesError {
    /// Prometheus refused the query
    #[error("Prometheus refuses the query: {0}")]
    Refused(String),
    /// The query gives something else than a vector
    #[error("the query gives a {0}; it must give an instant vector: one value for each series")]
    NotAVector(String),
    /// Series times nodes
    #[error(
        "the values of all policies would take more than {0} MiB; aggregate the query, or leave out workloads that do not matter"
    )]
    TooMany(usize),
    /// It is no answer of Prometheus
    #[error("this is not an answer of Prometheus: {0}")]
    NotAnAnswer(String),
}

/// Takes a series: values of the labels that were asked for, in their order, and the value (NaN if it has none).
pub type Take<'t> = dyn FnMut(&[Option<Text<'_>>], f64) + 't;

/// Reads an answer. `labels` are those whose values `take` gets.
pub fn read(body: &[u8], labels: &[&str], take: &mut Take<'_>) -> Result<(), SeriesError> {
    let mut outcome = Outcome::default();
    let mut reader = serde_json::Deserializer::from_slice(body);
    let read = reader.deserialize_map(Answer { labels, take, outcome: &mut outcome });
    if let Some(error) = outcome.error.filter(|_| outcome.status != "success") {
        return Err(SeriesError::Refused(error));
    }
    read.and_then(|()| reader.end()).map_err(|error| SeriesError::NotAnAnswer(error.to_string()))?;
    match outcome.kind {
        _ if outcome.status != "success" => Err(SeriesError::NotAnAnswer("it has no status: success".to_owned())),
        Some(kind) if kind == "vector" => Ok(()),
        Some(kind) => Err(SeriesError::NotAVector(kind)),
        None => Err(SeriesError::NotAnAnswer("it has no data.resultType".to_owned())),
    }
}

#[derive(Default)]
struct Outcome {
    status: String,
    error: Option<String>,
    kind: Option<String>,
}

/// The whole answer, or its `data`: both are objects whose fields are told apart by their names.
struct Answer<'a, 't> {
    labels: &'a [&'a str],
    take: &'a mut Take<'t>,
    outcome: &'a mut Outcome,
}

impl<'de> Visitor<'de> for Answer<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object with status and data")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "status" => self.outcome.status = map.next_value()?,
                "error" => self.outcome.error = Some(map.next_value()?),
                "resultType" => self.outcome.kind = Some(map.next_value()?),
                "data" => {
                    map.next_value_seed(Answer { labels: self.labels, take: self.take, outcome: self.outcome })?;
                }
                "result" => map.next_value_seed(List { labels: self.labels, take: self.take })?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

impl<'de> DeserializeSeed<'de> for Answer<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

struct List<'a, 't> {
    labels: &'a [&'a str],
    take: &'a mut Take<'t>,
}

impl<'de> DeserializeSeed<'de> for List<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for List<'_, '_> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let mut found: Vec<Option<Text<'de>>> = vec![None; self.labels.len()];
        let mut number = 0;
        loop {
            found.fill(None);
            let mut value = f64::NAN;
            let series = Series { labels: self.labels, found: &mut found, value: &mut value };
            if list.next_element_seed(series)?.is_none() {
                return Ok(());
            }
            number += 1;
            if number > MAX_SERIES {
                return Err(A::Error::custom(format!("it has more than {MAX_SERIES} series; aggregate them")));
            }
            (self.take)(&found, value);
        }
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }
}

/// One series, or its `metric`.
struct Series<'a, 'f, 'de> {
    labels: &'a [&'a str],
    found: &'f mut [Option<Text<'de>>],
    value: &'f mut f64,
}

impl<'de> DeserializeSeed<'de> for Series<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Series<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a series with metric and value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match &*key {
                "metric" => map.next_value_seed(Labels { labels: self.labels, found: self.found })?,
                "value" => {
                    let (_, text): (IgnoredAny, Cow<'de, str>) = map.next_value()?;
                    *self.value = text.parse().unwrap_or(f64::NAN);
                }
                // a native histogram, for example
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }

    // a scalar's time and value; its kind is refused afterwards
    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }
}

struct Labels<'a, 'f, 'de> {
    labels: &'a [&'a str],
    found: &'f mut [Option<Text<'de>>],
}

impl<'de> DeserializeSeed<'de> for Labels<'_, '_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Labels<'_, '_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some(key) = map.next_key::<Text<'de>>()? {
            match self.labels.iter().position(|label| *label == &*key) {
                // an empty label is the same as none
                Some(at) => self.found[at] = Some(map.next_value()?).filter(|value: &Text<'_>| !value.is_empty()),
                None => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Found = Vec<(Option<String>, Option<String>, f64)>;

    fn all(body: &str) -> Result<Found, SeriesError> {
        let mut found = Vec::new();
        read(body.as_bytes(), &["node", "app"], &mut |labels, value| {
            let text = |at: usize| labels[at].as_ref().map(ToString::to_string);
            found.push((text(0), text(1), value));
        })?;
        Ok(found)
    }

    #[test]
    fn series_come_with_the_labels_that_are_asked_for() {
        let body = r#"{"status":"success","data":{"resultType":"vector","result":[
            {"metric":{"__name__":"x","node":"a","app":"web"},"value":[1435781451.781,"1.5"]},
            {"metric":{"node":"b","app":""},"value":[1435781451.781,"NaN"]},
            {"metric":{},"histogram":[1435781451.781,{"count":"1"}]},
            {"metric":{"node":"c"},"value":[1,"+Inf"]}]},"warnings":["w"]}"#;
        let found = all(body).expect("an answer");
        assert_eq!(found[0], (Some("a".to_owned()), Some("web".to_owned()), 1.5));
        assert!(found[1].1.is_none() && found[1].2.is_nan() && found[2].0.is_none() && found[2].2.is_nan());
        assert!(found[3].2.is_infinite());
    }

    #[test]
    fn other_answers_are_errors_in_plain_words() {
        let scalar = r#"{"status":"success","data":{"resultType":"scalar","result":[1435781451.781,"1"]}}"#;
        assert_eq!(all(scalar), Err(SeriesError::NotAVector("scalar".to_owned())));
        let matrix =
            r#"{"status":"success","data":{"resultType":"matrix","result":[{"metric":{},"values":[[1,"2"]]}]}}"#;
        assert_eq!(all(matrix), Err(SeriesError::NotAVector("matrix".to_owned())));
        let refused = r#"{"status":"error","errorType":"bad_data","error":"parse error at char 5","data":null}"#;
        assert_eq!(all(refused), Err(SeriesError::Refused("parse error at char 5".to_owned())));
        for wrong in [
            "",
            "<html>",
            "{}",
            "[]",
            r#"{"status":"success"}"#,
            r#"{"status":"success","data":{"resultType":"vector","result":[{"value":1}]}}"#,
        ] {
            assert!(matches!(all(wrong), Err(SeriesError::NotAnAnswer(_))), "{wrong}");
        }
    }
}
