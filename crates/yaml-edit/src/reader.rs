//! Builds the tree from the parser's events, and refuses what could be read in two ways: several documents, duplicate
//! keys, directives, aliases that multiply.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use granit_parser::{Event, Parser, Span, StructureStyle};

use super::error::{Error, ErrorKind};
use super::tree::{Entry, Kind, Node, Tree, line_of};

/// A mapping with more keys than this is checked for duplicates by hashing instead of by comparing all pairs.
const SMALL_MAPPING: usize = 12;

/// Aliases may stand for no more text than this, all together: more is a bomb, not a document.
const MAX_EXPANSION: usize = 10 * 1024 * 1024;

impl<'a> Tree<'a> {
    /// Reads a text of exactly one document.
    pub fn read(text: &'a str) -> Result<Self, Error> {
        Self::build(Builder::new(text))
    }

    /// The same without the comments, which only an editor needs.
    pub fn read_uncommented(text: &'a str) -> Result<Self, Error> {
        Self::build(Builder { keeps_comments: false, ..Builder::new(text) })
    }

    /// Reads the first document the way a careless reader would: only to know what it is, never to edit it.
    pub fn glance(text: &'a str) -> Option<Self> {
        let text = text.strip_prefix('\u{feff}').unwrap_or(text);
        Self::build(Builder { careless: true, keeps_comments: false, ..Builder::new(text) }).ok()
    }

    fn build(mut builder: Builder<'a>) -> Result<Self, Error> {
        let options = granit_parser::options! {
            emit_comments: builder.keeps_comments,
            // a file may hold as many comments in a row as it likes: they cost no more than their own text
            max_buffered_comment_events: usize::MAX,
        };
        for event in Parser::new_from_str_with_options(builder.text, options) {
            let (event, span) = event.map_err(|error| {
                let message = format!("cannot be read as YAML: {}", error.info());
                Error::at_line(ErrorKind::NotYaml, error.marker().line(), message)
            })?;
            if builder.careless && builder.root.is_some() {
                break;
            }
            builder.take(event, span)?;
        }
        match builder.root {
            Some(root) => Ok(Self { text: builder.text, root, comments: builder.comments }),
            None => Err(Error::at_line(ErrorKind::Empty, 1, "the file is empty")),
        }
    }
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
    keeps_comments: bool,
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
            keeps_comments: true,
            comments: Vec::new(),
            documents: 0,
            careless: false,
        }
    }

    fn take(&mut self, event: Event<'a>, span: Span) -> Result<(), Error> {
        let range = span.byte_range().unwrap_or_default();
        match event {
            Event::DocumentStart(_, version) => {
                self.documents += 1;
                if self.documents > 1 {
                    let message = "a second document begins here; only the first would be read";
                    return Err(self.refuse(ErrorKind::SeveralDocuments, range.start, message));
                }
                if version.is_some() {
                    return Err(self.refuse(ErrorKind::Directive, 0, "has a %YAML directive"));
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
                    return Err(self.refuse(
                        ErrorKind::Anchor,
                        range.start,
                        "aliases expand to more than 10 MiB of text",
                    ));
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
            Event::SequenceEnd | Event::MappingEnd => self.end(range)?,
            _ => {}
        }
        Ok(())
    }

    fn begin(&mut self, range: Range<usize>, style: StructureStyle, decorated: bool, kind: Kind<'a>) {
        let span = range.start..range.start;
        self.open.push((Node { span, flow: style == StructureStyle::Flow, decorated, kind }, None));
    }

    fn end(&mut self, range: Range<usize>) -> Result<(), Error> {
        if let Some((anchor, before)) = self.anchors_open.pop().filter(|(anchor, _)| *anchor != 0) {
            let start = self.open.last().map_or(0, |(node, _)| node.span.start);
            self.anchors.insert(anchor, range.end.saturating_sub(start) + self.expansion - before);
        }
        if let Some((mut node, _)) = self.open.pop() {
            if node.flow {
                node.span.end = range.end;
            }
            // a vector begins with room for four, and most collections are small and many
            match &mut node.kind {
                Kind::List(items) => items.shrink_to_fit(),
                Kind::Map(entries) => entries.shrink_to_fit(),
                Kind::Scalar { .. } | Kind::Alias => {}
            }
            if !self.careless {
                self.no_duplicate_keys(&node)?;
            }
            self.close(node);
        }
        Ok(())
    }

    /// Hands a finished node to the collection that holds it.
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

    fn no_duplicate_keys(&self, node: &Node<'a>) -> Result<(), Error> {
        let entries = node.entries();
        if let Some(entry) = entries.iter().find(|entry| matches!(entry.key.kind, Kind::List(_) | Kind::Map(_))) {
            let message = "a list or mapping is used as a key, which most YAML readers cannot read";
            return Err(self.refuse(ErrorKind::NotYaml, entry.key.span.start, message));
        }
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
                let message =
                    format!("the key {:?} appears twice in one mapping", entry.key.text().unwrap_or_default());
                Err(self.refuse(ErrorKind::DuplicateKey, entry.key.span.start, message))
            }
            None => Ok(()),
        }
    }

    fn refuse(&self, kind: ErrorKind, offset: usize, message: impl Into<String>) -> Error {
        Error::at_line(kind, line_of(self.text, offset), message)
    }
}

/// The offset just past the `:` that follows a key which ends at `at`.
fn after_colon(text: &str, at: usize) -> Option<usize> {
    let rest = &text[at..];
    let blanks = rest.len() - rest.trim_start_matches([' ', '\t']).len();
    rest[blanks..].starts_with(':').then_some(at + blanks + 1)
}
