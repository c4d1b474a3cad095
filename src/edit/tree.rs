//! The document as a tree of nodes that know where they stand in the text.
//!
//! Owns reading: events of the parser become nodes with byte ranges, and what could be read in two ways
//! (several documents, duplicate keys, directives) is refused here, with its line. Changes nothing.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Parser, ScalarStyle, Span, StructureStyle};

use super::refusal::{Refusal, Rule};

/// A mapping with more keys than this is checked for duplicates by hashing instead of by comparing all pairs.
const SMALL_MAPPING: usize = 12;

/// Aliases may stand for no more text than this, all together: more is a bomb, not a manifest.
const MAX_EXPANSION: usize = 10 * 1024 * 1024;

/// One step from a node to a child of it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Seg {
    Key(String),
    Index(usize),
}

/// The way from the root to a node.
pub(crate) type Path = Vec<Seg>;

/// What a node is.
#[derive(Debug)]
pub(crate) enum Kind<'a> {
    Scalar { value: Cow<'a, str>, style: ScalarStyle },
    Alias,
    List(Vec<Node<'a>>),
    Map(Vec<Entry<'a>>),
}

/// A key and its value.
#[derive(Debug)]
pub(crate) struct Entry<'a> {
    pub key: Node<'a>,
    pub value: Node<'a>,
}

/// A node and its place in the text.
#[derive(Debug)]
pub(crate) struct Node<'a> {
    /// Byte range of the text; for block collections it begins at the first child and `end` is not meaningful.
    pub span: Range<usize>,
    /// Written as `[…]` or `{…}`.
    pub flow: bool,
    /// Carries an anchor or a tag.
    pub decorated: bool,
    pub kind: Kind<'a>,
}

impl<'a> Node<'a> {
    pub fn text(&self) -> Option<&str> {
        match &self.kind {
            Kind::Scalar { value, .. } => Some(value),
            _ => None,
        }
    }

    pub fn entries(&self) -> &[Entry<'a>] {
        match &self.kind {
            Kind::Map(entries) => entries,
            _ => &[],
        }
    }

    pub fn items(&self) -> &[Self] {
        match &self.kind {
            Kind::List(items) => items,
            _ => &[],
        }
    }

    pub fn entry(&self, key: &str) -> Option<&Entry<'a>> {
        self.entries().iter().find(|entry| entry.key.text() == Some(key))
    }

    pub fn get(&self, key: &str) -> Option<&Self> {
        self.entry(key).map(|entry| &entry.value)
    }

    /// A value that is not written at all, as in `annotations:`.
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
pub(crate) struct Tree<'a> {
    pub text: &'a str,
    pub root: Node<'a>,
    /// Where comments stand, in the order of the text.
    pub comments: Vec<Range<usize>>,
}

impl<'a> Tree<'a> {
    /// Reads a text of exactly one document.
    pub fn read(text: &'a str) -> Result<Self, Refusal> {
        Self::build(Builder::new(text))
    }

    /// Reads the first document the way a careless reader would: only to know what it is, never to edit it.
    pub fn glance(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self::build(Builder { careless: true, ..Builder::new(text) }).ok()
    }

    fn build(mut builder: Builder<'a>) -> Result<Self, Refusal> {
        for event in Parser::new_from_str(builder.text) {
            let (event, span) = event.map_err(|error| {
                let message = format!("cannot be read as YAML: {}", error.info());
                Refusal::at_line(Rule::NotYaml, error.marker().line(), message)
            })?;
            if builder.careless && builder.root.is_some() {
                break;
            }
            builder.take(event, span)?;
        }
        match builder.root {
            Some(root) => Ok(Self { text: builder.text, root, comments: builder.comments }),
            None => Err(Refusal::at_line(Rule::NotAPod, 1, "the file is empty")),
        }
    }

    pub fn at(&self, path: &[Seg]) -> Option<&Node<'a>> {
        path.iter().try_fold(&self.root, |node, seg| match seg {
            Seg::Key(key) => node.get(key),
            Seg::Index(index) => node.items().get(*index),
        })
    }

    /// The line (from 1) that a byte offset is on.
    pub fn line(&self, offset: usize) -> usize {
        line_of(self.text, offset)
    }
}

/// The line (from 1) that a byte offset is on.
pub(crate) fn line_of(text: &str, offset: usize) -> usize {
    text[..offset.min(text.len())].matches('\n').count() + 1
}

/// Offset of the first byte of the line that `at` is on.
pub(crate) fn line_start(text: &str, at: usize) -> usize {
    text[..at].rfind('\n').map_or(0, |newline| newline + 1)
}

/// Offset just past the line break of the line that `at` is on, or the end of the text.
pub(crate) fn line_end(text: &str, at: usize) -> usize {
    text[at..].find('\n').map_or(text.len(), |newline| at + newline + 1)
}

/// The first bare word for which `is` holds, and its line; or why the text should not be given to another reader: no
/// YAML, too deep, keys or documents twice, aliases that multiply.
pub(crate) fn find_bare(text: &str, is: fn(&str) -> bool) -> Result<Option<(String, usize)>, Refusal> {
    let tree = match Tree::read(text) {
        Ok(tree) => tree,
        Err(Refusal { rule: Rule::NotAPod, .. }) => return Ok(None),
        Err(refusal) => return Err(refusal),
    };
    let mut pending = vec![&tree.root];
    while let Some(node) = pending.pop() {
        match &node.kind {
            Kind::Scalar { value, style: ScalarStyle::Plain }
                if !node.decorated && !node.is_unwritten() && is(value) =>
            {
                return Ok(Some((value.to_string(), tree.line(node.span.start))));
            }
            Kind::Scalar { .. } | Kind::Alias => {}
            Kind::List(items) => pending.extend(items.iter().rev()),
            Kind::Map(entries) => pending.extend(entries.iter().rev().flat_map(|entry| [&entry.value, &entry.key])),
        }
    }
    Ok(None)
}

/// The line of every place in a YAML text: for a key its own line, not that of its value.
pub(crate) fn lines_of_places(text: &str) -> HashMap<Path, usize> {
    let mut lines = HashMap::new();
    let Ok(tree) = Tree::read(text) else { return lines };
    let (mut line, mut counted) = (1, 0);
    let mut pending: Vec<(Path, &Node<'_>)> = vec![(Path::new(), &tree.root)];
    while let Some((path, node)) = pending.pop() {
        let child = |seg: Seg| path.iter().cloned().chain([seg]).collect::<Path>();
        for (index, item) in node.items().iter().enumerate().rev() {
            pending.push((child(Seg::Index(index)), item));
        }
        for entry in node.entries().iter().rev() {
            let key = entry.key.text().unwrap_or_default().to_owned();
            pending.push((child(Seg::Key(key.clone())), &entry.value));
            pending.push((child(Seg::Key(key)), &entry.key));
        }
        // the key comes before its value and has the same path: it is the one that counts
        if let std::collections::hash_map::Entry::Vacant(place) = lines.entry(path) {
            let start = node.span.start.max(counted);
            line += text[counted..start].matches('\n').count();
            counted = start;
            place.insert(line);
        }
    }
    lines
}

struct Builder<'a> {
    text: &'a str,
    /// Collections that are not closed yet, each with its pending key and what aliases stood for when it was opened
    open: Vec<(Node<'a>, Option<Node<'a>>)>,
    /// Anchor and expansion so far of each open collection
    anchors_open: Vec<(usize, usize)>,
    /// How much text each anchor stands for
    anchors: HashMap<usize, usize>,
    /// How much text all aliases so far stand for
    expansion: usize,
    root: Option<Node<'a>>,
    comments: Vec<Range<usize>>,
    documents: usize,
    /// Whether duplicate keys are let pass
    careless: bool,
}

impl<'a> Builder<'a> {
    fn new(text: &'a str) -> Self {
        Self {
            text,
            open: Vec::new(),
            anchors_open: Vec::new(),
            anchors: HashMap::new(),
            expansion: 0,
            root: None,
            comments: Vec::new(),
            documents: 0,
            careless: false,
        }
    }

    fn take(&mut self, event: Event<'a>, span: Span) -> Result<(), Refusal> {
        let range = span.byte_range().unwrap_or_default();
        match event {
            Event::DocumentStart(_, version) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document begins here; only the first would be read";
                    return Err(self.refuse(Rule::SeveralDocuments, range.start, message));
                }
                if version.is_some() {
                    return Err(self.refuse(Rule::Directive, 0, "has a %YAML directive"));
                }
            }
            Event::Scalar(value, style, anchor, tag) => {
                if anchor != 0 {
                    self.anchors.insert(anchor, range.len());
                }
                self.close(Node {
                    span: range,
                    flow: false,
                    decorated: anchor != 0 || tag.is_some(),
                    kind: Kind::Scalar { value, style },
                });
            }
            Event::Comment(..) => self.comments.push(range),
            Event::Alias(anchor) => {
                self.expansion += self.anchors.get(&anchor).copied().unwrap_or(0);
                if self.expansion > MAX_EXPANSION {
                    return Err(self.refuse(Rule::Anchor, range.start, "aliases stand for more than 10 MiB of text"));
                }
                self.close(Node { span: range, flow: false, decorated: true, kind: Kind::Alias });
            }
            Event::SequenceStart(style, anchor, tag) => {
                self.anchors_open.push((anchor, self.expansion));
                self.begin(range, style, anchor != 0 || tag.is_some(), Kind::List(Vec::new()));
            }
            Event::MappingStart(style, anchor, tag) => {
                self.anchors_open.push((anchor, self.expansion));
                self.begin(range, style, anchor != 0 || tag.is_some(), Kind::Map(Vec::new()));
            }
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some((anchor, before)) = self.anchors_open.pop().filter(|(anchor, _)| *anchor != 0) {
                    let start = self.open.last().map_or(0, |(node, _)| node.span.start);
                    self.anchors.insert(anchor, range.end.saturating_sub(start) + self.expansion - before);
                }
                if let Some((mut node, _)) = self.open.pop() {
                    if node.flow {
                        node.span.end = range.end;
                    }
                    if !self.careless {
                        self.no_duplicate_keys(&node)?;
                    }
                    self.close(node);
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, range: Range<usize>, style: StructureStyle, decorated: bool, kind: Kind<'a>) {
        let span = range.start..range.start;
        self.open.push((Node { span, flow: style == StructureStyle::Flow, decorated, kind }, None));
    }

    /// Hands a finished node to the collection it stands in.
    fn close(&mut self, mut node: Node<'a>) {
        let Some((parent, pending_key)) = self.open.last_mut() else {
            self.root = Some(node);
            return;
        };
        match &mut parent.kind {
            Kind::List(items) => items.push(node),
            Kind::Map(entries) => match pending_key.take() {
                None => *pending_key = Some(node),
                Some(key) => {
                    if node.is_unwritten() {
                        let colon = after_colon(self.text, key.span.end).unwrap_or(node.span.start);
                        node.span = colon..colon;
                    }
                    entries.push(Entry { key, value: node });
                }
            },
            Kind::Scalar { .. } | Kind::Alias => {}
        }
    }

    fn no_duplicate_keys(&self, node: &Node<'a>) -> Result<(), Refusal> {
        let entries = node.entries();
        let duplicate = if entries.len() <= SMALL_MAPPING {
            entries.iter().enumerate().find(|(index, entry)| {
                let key = entry.key.text();
                key.is_some() && entries[..*index].iter().any(|earlier| earlier.key.text() == key)
            })
        } else {
            let mut seen = HashSet::with_capacity(entries.len());
            entries.iter().enumerate().find(|(_, entry)| entry.key.text().is_some_and(|key| !seen.insert(key)))
        };
        match duplicate {
            Some((_, entry)) => {
                let message = format!("the key {:?} stands twice in one mapping", entry.key.text().unwrap_or_default());
                Err(self.refuse(Rule::DuplicateKey, entry.key.span.start, message))
            }
            None => Ok(()),
        }
    }

    fn refuse(&self, rule: Rule, offset: usize, message: impl Into<String>) -> Refusal {
        Refusal::at_line(rule, line_of(self.text, offset), message)
    }
}

/// The offset just past the `:` that follows a key which ends at `at`.
fn after_colon(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    rest[blanks..].starts_with(':').then_some(at + blanks + 1)
}
