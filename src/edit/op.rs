//! What an edit means, apart from how it is written: a handful of operations on named places.

use super::tree::Path;

/// A value that we write.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// Bare where that is safe.
    Text(String),
    /// In quotes whatever it looks like: annotations are strings, and a revision may look like a number.
    Quoted(String),
    Bool(bool),
    List(Vec<Self>),
    Map(Vec<(&'static str, Self)>),
}

impl Value {
    pub fn text(text: impl Into<String>) -> Self {
        Self::Text(text.into())
    }
}

/// What is left of a collection whose last child goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Leaves {
    /// A flow collection stays as `[]` or `{}`.
    Empty,
    /// A block collection cannot be written empty: its key stays without a value.
    Null,
}

impl Leaves {
    pub fn is_null_when_empty(self) -> bool {
        self == Self::Null
    }
}

/// One operation. Paths are those of the document at the moment the operation is its turn.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Op {
    /// New keys at the end of a mapping, or in place of a null.
    Add { map: Path, entries: Vec<(&'static str, Value)> },
    /// New items at the end of a list, or in place of a null.
    Push { list: Path, items: Vec<Value> },
    /// Another scalar, given as the exact text that stands for it.
    Set { at: Path, text: String },
    /// An entry or an item less.
    Remove { at: Path, leaves: Leaves },
}
