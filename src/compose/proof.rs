//! The judge of the composed file: a reader that shares no code with the writer must find in it exactly what was meant.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_yaml::{Number, Value};

/// Whether a JSON text says exactly this: every value, in its order, and nothing else.
pub(crate) fn says(text: &[u8], meant: &Value) -> bool {
    let mut reader = serde_json::Deserializer::from_slice(text);
    Meant(meant).deserialize(&mut reader).and_then(|()| reader.end()).is_ok()
}

/// Compares while reading, so that nothing is built only to be compared.
struct Meant<'a>(&'a Value);

impl Meant<'_> {
    fn number(&self) -> Option<&Number> {
        if let Value::Number(number) = self.0 { Some(number) } else { None }
    }
}

fn so<E: Error>(same: bool) -> Result<(), E> {
    if same { Ok(()) } else { Err(E::custom("not what was meant")) }
}

impl<'de> DeserializeSeed<'de> for Meant<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, reader: D) -> Result<(), D::Error> {
        reader.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Meant<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was meant")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        so(matches!(self.0, Value::Null))
    }

    fn visit_bool<E: Error>(self, read: bool) -> Result<(), E> {
        so(matches!(self.0, Value::Bool(meant) if *meant == read))
    }

    fn visit_u64<E: Error>(self, read: u64) -> Result<(), E> {
        so(self.number().and_then(Number::as_u64) == Some(read))
    }

    fn visit_i64<E: Error>(self, read: i64) -> Result<(), E> {
        so(self.number().and_then(Number::as_i64) == Some(read))
    }

    fn visit_f64<E: Error>(self, read: f64) -> Result<(), E> {
        let meant = self.number().filter(|number| number.is_f64()).and_then(Number::as_f64);
        so(meant.is_some_and(|meant| meant.to_bits() == read.to_bits()))
    }

    fn visit_str<E: Error>(self, read: &str) -> Result<(), E> {
        so(matches!(self.0, Value::String(meant) if meant == read))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut read: A) -> Result<(), A::Error> {
        let Value::Sequence(meant) = self.0 else { return so(false) };
        for item in meant {
            let found = read.next_element_seed(Meant(item))?;
            so(found.is_some())?;
        }
        let more = read.next_element::<IgnoredAny>()?;
        so(more.is_none())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut read: A) -> Result<(), A::Error> {
        let Value::Mapping(meant) = self.0 else { return so(false) };
        for (key, value) in meant {
            let found = read.next_key_seed(Meant(key))?;
            so(found.is_some())?;
            read.next_value_seed(Meant(value))?;
        }
        let more = read.next_key::<IgnoredAny>()?;
        so(more.is_none())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MEANT: &str = r#"{"a": [1, -2, 2.5, "x", null, true, {}, []], "b": {"c": "d"}}"#;

    #[test]
    fn a_text_is_proven_only_if_it_says_exactly_what_was_meant() {
        let meant: Value = serde_yaml::from_str(MEANT).unwrap();
        assert!(says(MEANT.as_bytes(), &meant));
        for (from, to) in [
            ("1,", "1.0,"),
            ("1,", "\"1\","),
            ("1,", ""),
            ("-2", "2"),
            ("2.5", "2.25"),
            ("\"x\"", "\"y\""),
            ("null", "false"),
            ("true", "null"),
            ("true", "\"true\""),
            ("{}", "[]"),
            ("[]", "[[]]"),
            ("[]", "{}"),
            ("\"a\"", "\"A\""),
            ("\"d\"}", "\"d\", \"e\": 1}"),
            ("\"c\": \"d\"", ""),
            ("}}", "}} x"),
            ("}}", "}"),
        ] {
            let other = MEANT.replacen(from, to, 1);
            assert!(other != MEANT && !says(other.as_bytes(), &meant), "{other}");
        }
        let turned = r#"{"b": {"c": "d"}, "a": [1, -2, 2.5, "x", null, true, {}, []]}"#;
        assert!(!says(turned.as_bytes(), &meant), "another order");
    }

    #[test]
    fn what_json_cannot_say_is_not_proven() {
        for text in ["a: .inf", "a: .nan", "a: !t b", "1: a", "~: a", "? [a]\n: b"] {
            let value: Value = serde_yaml::from_str(text).unwrap();
            assert!(!says(&super::super::render::render(&value), &value), "{text}");
        }
    }
}
