//! Labels of a Node, in one piece of memory: a list of 5,000 nodes has 100,000 of them, and few are ever asked for.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, Visitor};

/// Ends a key, or a value. No label can hold it.
const END: char = '\u{1f}';

/// Labels: each key and each value, one after the other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Labels(String);

impl Labels {
    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&str> {
        let mut parts = self.0.split(END);
        while let (Some(own), Some(value)) = (parts.next(), parts.next()) {
            if own == key {
                return Some(value);
            }
        }
        None
    }
}

struct Pairs;

impl<'de> Visitor<'de> for Pairs {
    type Value = Labels;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object of labels")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Labels, A::Error> {
        let mut all = String::new();
        while let Some((key, value)) = map.next_entry::<String, String>()? {
            if key.contains(END) || value.contains(END) {
                continue;
            }
            for part in [key, value] {
                all.push_str(&part);
                all.push(END);
            }
        }
        all.shrink_to_fit();
        Ok(Labels(all))
    }

    fn visit_unit<E>(self) -> Result<Labels, E> {
        Ok(Labels::default())
    }
}

impl<'de> Deserialize<'de> for Labels {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Pairs)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_found_by_their_whole_key() {
        let labels: Labels = serde_json::from_str(r#"{"a":"1","ab":"","c":"a","d\u001f":"x"}"#).expect("labels");
        assert_eq!((labels.get("a"), labels.get("ab"), labels.get("c")), (Some("1"), Some(""), Some("a")));
        assert_eq!((labels.get(""), labels.get("1"), labels.get("d")), (None, None, None));
        assert_eq!(serde_json::from_str::<Labels>("null").expect("none"), Labels::default());
        let from_value: Labels = serde_json::from_value(serde_json::json!({"k": "v"})).expect("as in a watch");
        assert_eq!(from_value.get("k"), Some("v"));
    }
}
