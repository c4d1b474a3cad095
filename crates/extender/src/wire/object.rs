//! Objects whose keys are accepted in any case and whose unknown fields are skipped.

use std::fmt;

use serde::de::{Deserialize, Deserializer, Error as _, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;

use super::list::{MAX_ENTRIES, too_many};
use super::{Pairs, Text};

/// Reads a struct from an object: `object!(Struct { "key" => field })`. A null leaves the field at its default.
macro_rules! object {
    ($name:ident { $($key:literal => $field:ident),+ $(,)? }) => {
        impl<'de> serde::Deserialize<'de> for $name<'de> {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                struct Fields;
                impl<'de> serde::de::Visitor<'de> for Fields {
                    type Value = $name<'de>;

                    fn expecting(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        formatter.write_str(concat!("an object of the form ", stringify!($name)))
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                        let mut object = $name::default();
                        while let Some(key) = map.next_key::<$crate::wire::Text<'de>>()? {
                            $(if key.eq_ignore_ascii_case($key) {
                                if let Some(value) = map.next_value::<Option<_>>()? {
                                    object.$field = value;
                                }
                                continue;
                            })+
                            map.next_value::<serde::de::IgnoredAny>()?;
                        }
                        Ok(object)
                    }
                }
                deserializer.deserialize_map(Fields)
            }
        }
    };
}
pub(super) use object;

impl<'de> Deserialize<'de> for Pairs<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;
        impl<'de> Visitor<'de> for Entries {
            type Value = Pairs<'de>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("an object of strings")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::new();
                while let Some(pair) = map.next_entry()? {
                    if pairs.len() == MAX_ENTRIES {
                        return Err(too_many());
                    }
                    pairs.push(pair);
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Entries)
    }
}

/// `metadata.name` of an object. Reading stops there, which is near the beginning: the rest was skipped once already.
pub(super) fn name_of(object: &RawValue) -> Option<Text<'_>> {
    let mut found = None;
    let mut reader = serde_json::Deserializer::from_str(object.get());
    // the error is how the visitor stops
    let _ = reader.deserialize_map(Search { keys: &["metadata", "name"], found: &mut found });
    found
}

/// Follows keys to a string and stops there.
struct Search<'f, 'de> {
    keys: &'static [&'static str],
    found: &'f mut Option<Text<'de>>,
}

impl<'de> Visitor<'de> for Search<'_, 'de> {
    type Value = ();

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let Some((first, rest)) = self.keys.split_first() else { return Ok(()) };
        while let Some(key) = map.next_key::<Text<'de>>()? {
            if !key.eq_ignore_ascii_case(first) {
                map.next_value::<IgnoredAny>()?;
            } else if rest.is_empty() {
                *self.found = Some(map.next_value()?);
                return Err(A::Error::custom("found"));
            } else {
                map.next_value_seed(Search { keys: rest, found: &mut *self.found })?;
            }
        }
        Ok(())
    }
}

impl<'de> serde::de::DeserializeSeed<'de> for Search<'_, 'de> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}
