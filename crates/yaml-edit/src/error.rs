//! Why a text is not edited.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The text is no YAML
    NotYaml,
    /// The text holds no document
    Empty,
    /// A key appears twice in one mapping
    DuplicateKey,
    /// A tab is where YAML counts columns
    Tab,
    /// The text holds more than one document
    SeveralDocuments,
    /// The text is a template
    Template,
    /// An anchor, alias, tag or merge key is on something that must be changed, or aliases multiply
    Anchor,
    /// The text holds a byte order mark
    ByteOrderMark,
    /// The text has a `%` directive
    Directive,
    /// A character ends a line for one reader and not for another
    LineSeparator,
    /// Something that must be changed is written in a form that cannot be changed safely
    Shape,
    /// Two readers do not agree about the text
    ReadersDisagree,
    /// The edit was made, but reading it back did not give exactly what was meant
    Unproven,
}

/// Why a text cannot be read or edited: what, where, and in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{}{message}", .line.map_or(String::new(), |line| format!("line {line}: ")))]
pub struct Error {
    /// What is wrong
    pub kind: ErrorKind,
    /// Where, counted from 1
    pub line: Option<usize>,
    /// In words
    pub message: String,
}

impl Error {
    /// About the whole text.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, line: None, message: message.into() }
    }

    /// About a line, counted from 1.
    pub fn at_line(kind: ErrorKind, line: usize, message: impl Into<String>) -> Self {
        Self { kind, line: Some(line), message: message.into() }
    }
}
