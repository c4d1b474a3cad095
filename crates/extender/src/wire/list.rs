//! Lists of a request: bounded, so that a small body does not become much memory.

use std::fmt;
use std::marker::PhantomData;
use std::ops::Deref;

use serde::de::{Deserialize, Deserializer, Error, SeqAccess, Visitor};

/// More entries than any cluster has nodes.
pub(super) const MAX_ENTRIES: usize = 200_000;

/// Lists that get longer than this get room for many entries at once.
const FEW: usize = 16;
const MANY: usize = 4096;

/// A list of at most 200,000 entries.
#[derive(Debug)]
pub struct List<T>(pub Vec<T>);

impl<T> Default for List<T> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<T> Deref for List<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.0
    }
}

/// The error for one entry more.
pub(super) fn too_many<E: Error>() -> E {
    E::custom(format_args!("a list has more than {MAX_ENTRIES} entries"))
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for List<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries<T>(PhantomData<T>);
        impl<'de, T: Deserialize<'de>> Visitor<'de> for Entries<T> {
            type Value = List<T>;

            fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
                formatter.write_str("a list")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Self::Value, A::Error> {
                let mut entries = Vec::new();
                while let Some(entry) = list.next_element()? {
                    match entries.len() {
                        MAX_ENTRIES => return Err(too_many()),
                        // a list of nodes, then: without growing again and again
                        FEW => entries.reserve(MANY),
                        _ => {}
                    }
                    entries.push(entry);
                }
                Ok(List(entries))
            }
        }
        deserializer.deserialize_seq(Entries(PhantomData))
    }
}
