//! What an edit means, apart from how it is written: a handful of operations on named places.

use super::tree::Path;

/// A value to write.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// Bare where that is safe
    Text(String),
    /// In quotes whatever it looks like: a string may look like a number
    Quoted(String),
    /// `true` or `false`
    Bool(bool),
    /// A whole number
    Number(u32),
    /// A list
    List(Vec<Self>),
    /// A mapping, in this order
    Map(Vec<(String, Self)>),
}

impl Value {
    /// A text, bare where that is safe.
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }

    /// A mapping.
    pub fn map<K: Into<String>>(entries: impl IntoIterator<Item = (K, Self)>) -> Self {
        Self::Map(entries.into_iter().map(|(key, value)| (key.into(), value)).collect())
    }
}

/// What is left of a collection whose last child goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Leaves {
    /// A flow collection stays as `[]` or `{}`
    Empty,
    /// A block collection cannot be written empty: its key stays without a value
    Null,
}

impl Leaves {
    pub(crate) fn is_null_when_empty(self) -> bool {
        self == Self::Null
    }
}

/// One operation. Paths are those of the document at the moment the operation is its turn.
#[derive(Clone, Debug, PartialEq)]
pub enum Op {
    /// New keys at the end of a mapping, or in place of a null
    Add {
        /// The mapping
        map: Path,
        /// Keys and values
        entries: Vec<(String, Value)>,
    },
    /// New items at the end of a list, or in place of a null
    Push {
        /// The list
        list: Path,
        /// What is added
        items: Vec<Value>,
    },
    /// Another scalar in place of one
    Set {
        /// The scalar
        at: Path,
        /// The exact text to write, with its quotes ([`crate::write_scalar`])
        text: String,
    },
    /// An entry or an item less
    Remove {
        /// The entry or item
        at: Path,
        /// What stays of its collection when that is empty then
        leaves: Leaves,
    },
}
