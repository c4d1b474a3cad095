//! A document as plain data, as `serde_yaml` reads it, and what an edit means on that data.
//!
//! This is the judge of every edit, so it shares no code with the editor: another parser (libyaml's lineage, like most
//! programs'), no byte offsets, no text. Order of keys counts, because an edit that reorders is not the one that was meant.

use std::fmt;

use serde::de::{Deserialize, Deserializer, EnumAccess, MapAccess, SeqAccess, VariantAccess, Visitor};

use super::op::{Op, Value};
use super::tree::Segment;

/// A YAML value. Numbers keep their bits, so that not-a-number equals itself.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    Null,
    Bool(bool),
    Int(i128),
    Float(u64),
    Text(String),
    List(Vec<Self>),
    Map(Vec<(Self, Self)>),
    Tagged(String, Box<Self>),
}

impl Data {
    /// Reads a text, or says why it is no YAML.
    pub fn read(text: &str) -> Result<Self, serde_yaml::Error> {
        serde_yaml::from_str(text)
    }

    fn at_mut(&mut self, path: &[Segment]) -> Option<&mut Self> {
        path.iter().try_fold(self, |data, seg| match (seg, data) {
            (Segment::Key(key), Self::Map(entries)) => {
                entries.iter_mut().find(|(name, _)| name.is(key)).map(|(_, value)| value)
            }
            (Segment::Index(index), Self::List(items)) => items.get_mut(*index),
            _ => None,
        })
    }

    fn is(&self, text: &str) -> bool {
        matches!(self, Self::Text(own) if own == text)
    }

    /// Does to the data what `op` does to the text. `None`: the data have no such place.
    pub fn apply(&mut self, op: &Op) -> Option<()> {
        match op {
            Op::Add { map, entries } => {
                let place = self.at_mut(map)?;
                if *place == Self::Null {
                    *place = Self::Map(Vec::new());
                }
                let Self::Map(own) = place else { return None };
                for (key, value) in entries {
                    own.push((Self::Text(key.clone()), value.into()));
                }
            }
            Op::Push { list, items } => {
                let place = self.at_mut(list)?;
                if *place == Self::Null {
                    *place = Self::List(Vec::new());
                }
                let Self::List(own) = place else { return None };
                own.extend(items.iter().map(Self::from));
            }
            Op::Set { at, text } => *self.at_mut(at)? = Self::read(text).ok()?,
            Op::Remove { at, leaves } => {
                let (last, parent) = at.split_last()?;
                let place = self.at_mut(parent)?;
                match (last, &mut *place) {
                    (Segment::Key(key), Self::Map(entries)) => {
                        let index = entries.iter().position(|(name, _)| name.is(key))?;
                        entries.remove(index);
                    }
                    (Segment::Index(index), Self::List(items)) if *index < items.len() => {
                        items.remove(*index);
                    }
                    _ => return None,
                }
                if leaves.is_null_when_empty() && place.is_empty() {
                    *place = Self::Null;
                }
            }
        }
        Some(())
    }

    fn is_empty(&self) -> bool {
        match self {
            Self::List(items) => items.is_empty(),
            Self::Map(entries) => entries.is_empty(),
            _ => false,
        }
    }
}

impl From<&Value> for Data {
    fn from(value: &Value) -> Self {
        match value {
            Value::Text(text) | Value::Quoted(text) => Self::Text(text.clone()),
            Value::Bool(value) => Self::Bool(*value),
            Value::Number(value) => Self::Int((*value).into()),
            Value::List(items) => Self::List(items.iter().map(Self::from).collect()),
            Value::Map(entries) => {
                Self::Map(entries.iter().map(|(key, value)| (Self::Text(key.clone()), value.into())).collect())
            }
        }
    }
}

impl<'de> Deserialize<'de> for Data {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(DataVisitor)
    }
}

struct DataVisitor;

impl<'de> Visitor<'de> for DataVisitor {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any YAML value")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_none<E>(self) -> Result<Data, E> {
        Ok(Data::Null)
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        Data::deserialize(deserializer)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Data, E> {
        Ok(Data::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Data, E> {
        Ok(Data::Int(value.into()))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Data, E> {
        Ok(Data::Int(value.into()))
    }

    fn visit_i128<E>(self, value: i128) -> Result<Data, E> {
        Ok(Data::Int(value))
    }

    fn visit_u128<E>(self, value: u128) -> Result<Data, E> {
        Ok(i128::try_from(value).map_or_else(|_| Data::Text(value.to_string()), Data::Int))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Data, E> {
        Ok(Data::Float(value.to_bits()))
    }

    fn visit_str<E>(self, value: &str) -> Result<Data, E> {
        Ok(Data::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Data, E> {
        Ok(Data::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = access.next_element()? {
            items.push(item);
        }
        Ok(Data::List(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut access: A) -> Result<Data, A::Error> {
        let mut entries = Vec::new();
        while let Some(entry) = access.next_entry()? {
            entries.push(entry);
        }
        Ok(Data::Map(entries))
    }

    fn visit_enum<A: EnumAccess<'de>>(self, access: A) -> Result<Data, A::Error> {
        let (tag, content) = access.variant::<String>()?;
        Ok(Data::Tagged(tag, Box::new(content.newtype_variant()?)))
    }
}
