//! The document as a tree of nodes that know their byte ranges in the text.
//!
//! Owns the nodes, their byte ranges and the way to them; `reader` builds it, `layout` writes by it.

use std::borrow::Cow;
use std::ops::Range;

use granit_parser::ScalarStyle;

/// One step from a node to a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Segment {
    /// To the value of a key
    Key(String),
    /// To an item of a list
    Index(usize),
}

impl From<&str> for Segment {
    fn from(key: &str) -> Self {
        Self::Key(key.to_owned())
    }
}

impl From<String> for Segment {
    fn from(key: String) -> Self {
        Self::Key(key)
    }
}

impl From<usize> for Segment {
    fn from(index: usize) -> Self {
        Self::Index(index)
    }
}

/// The way from the root to a node.
pub type Path = Vec<Segment>;

/// What a node is.
#[derive(Debug)]
pub enum Kind<'a> {
    /// A word, number, boolean, null or text
    Scalar {
        /// Without quotes and escapes
        value: Cow<'a, str>,
        /// How it is written
        style: ScalarStyle,
    },
    /// `*name`
    Alias,
    /// A list
    List(Vec<Node<'a>>),
    /// A mapping, in the order of the text
    Map(Vec<Entry<'a>>),
}

/// A key and its value.
#[derive(Debug)]
pub struct Entry<'a> {
    /// The key
    pub key: Node<'a>,
    /// Its value
    pub value: Node<'a>,
}

/// A node and its place in the text.
#[derive(Debug)]
pub struct Node<'a> {
    /// Byte range of the text; for block collections it begins at the first child and `end` is not meaningful
    pub span: Range<usize>,
    /// Whether it is written as `[…]` or `{…}`
    pub flow: bool,
    /// Whether it carries an anchor or a tag
    pub decorated: bool,
    /// What it is
    pub kind: Kind<'a>,
}

impl<'a> Node<'a> {
    /// The text of a scalar; a null has none.
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { value, .. } if !self.is_null() => Some(value),
            _ => None,
        }
    }

    /// The entries of a mapping; none of anything else.
    pub fn entries(&self) -> &[Entry<'a>] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    /// The items of a list; none of anything else.
    pub fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries().iter().find(|entry| entry.key.text() == Some(key))
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// A value that is not written at all, as in `key:`.
    pub fn is_unwritten(&self) -> bool {
        self.span.is_empty() && matches!(self.kind, Kind::Scalar { style: ScalarStyle::Plain, .. })
    }

    /// Null, in any spelling.
    pub fn is_null(&self) -> bool {
        match &self.kind {
            Kind::Scalar { value, style: ScalarStyle::Plain } => {
                self.is_unwritten() || matches!(value.as_ref(), "~" | "null" | "Null" | "NULL")
            }
            _ => false,
        }
    }

    /// Where the last content byte of this node ends. Blank lines after a block scalar count only where it keeps them (`|+`).
    pub fn content_end(&self, text: &str) -> usize {
        match &self.kind {
            Kind::Scalar { style: ScalarStyle::Literal | ScalarStyle::Folded, .. } => {
                let body = &text[self.span.clone()];
                if keeps_blank_lines(&text[..line_start(text, self.span.start)]) {
                    self.span.start + body.trim_end_matches(' ').len()
                } else {
                    self.span.start + body.trim_end().len()
                }
            }
            Kind::List(items) if !self.flow => items.last().map_or(self.span.end, |item| item.content_end(text)),
            Kind::Map(entries) if !self.flow => {
                entries.last().map_or(self.span.end, |entry| entry.value.content_end(text))
            }
            _ => self.span.end,
        }
    }
}

/// Whether the header of a block scalar (`key: |+ # why`), which ends the text before it, keeps trailing blank lines.
fn keeps_blank_lines(before: &str) -> bool {
    let header = before.trim_end().lines().next_back().unwrap_or_default();
    header.split_whitespace().any(|part| part.starts_with(['|', '>']) && part.contains('+'))
}

/// A whole document.
#[derive(Debug)]
pub struct Tree<'a> {
    /// All of it
    pub text: &'a str,
    /// Its only document
    pub root: Node<'a>,
    /// Where comments are, in the order of the text
    pub comments: Vec<Range<usize>>,
}

impl<'a> Tree<'a> {
    /// The node at a place.
    pub fn at(&self, path: &[Segment]) -> Option<&Node<'a>> {
        path.iter().try_fold(&self.root, |node, seg| match seg {
            Segment::Key(key) => node.get(key),
            Segment::Index(index) => node.items().get(*index),
        })
    }

    /// The line (from 1) that a byte offset is on.
    pub fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }
}

/// The line (from 1) that a byte offset is on.
pub fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Offset of the first byte of the line that `at` is on.
pub fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Offset just past the line break of the line that `at` is on, or the end of the text.
pub fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}
