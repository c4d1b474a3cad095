//! How an operation is written into the text: where lines go in, how far they are indented, which lines go out.

use std::ops::Range;

use super::error::{Error, ErrorKind};
use super::format::{self, Steps};
use super::op::{Leaves, Op, Value};
use super::splice::Splice;
use super::tree::{Entry, Kind, Node, Path, Segment, Tree, line_end, line_start};

/// Indentation where the file does not show its own.
const DEFAULT_STEPS: Steps = Steps { list: 0, map: 2 };

type Splices = Result<Vec<Splice>, Error>;

impl Tree<'_> {
    /// The splices that write `op`.
    pub fn write(&self, op: &Op) -> Splices {
        match op {
            Op::Add { map, entries } => self.add(map, entries),
            Op::Push { list, items } => self.push(list, items),
            Op::Set { at, text } => Ok(vec![match self.null(at) {
                Some(null) => Splice::replace(null, format!(" {text}")),
                None => Splice::replace(self.one_line_scalar(at)?, text.clone()),
            }]),
            Op::Remove { at, .. } => match at.split_last() {
                Some((last, parent)) => self.cut_children(parent, &[last]),
                None => Err(self.odd(0, "is the whole document")),
            },
        }
    }

    /// What is left when the last child of the collection at `path` goes.
    pub fn leaves(&self, path: &[Segment]) -> Leaves {
        if self.at(path).is_some_and(|node| node.flow) { Leaves::Empty } else { Leaves::Null }
    }

    fn add(&self, path: &Path, entries: &[(String, Value)]) -> Splices {
        let node = self.editable(path)?;
        let flow: Vec<_> = entries.iter().map(|(key, value)| format::flow_entry(key, value)).collect();
        if node.flow {
            let first = node.entries().first().map(|entry| entry.key.span.start);
            let last = node.entries().last().map(|entry| entry.value.span.end.max(entry.key.span.end));
            return Ok(vec![self.flow_insert(node, first, last, &flow)]);
        }
        let lines = |column, steps| -> Vec<String> {
            entries.iter().flat_map(|(key, value)| format::block_entry(key, value, column, steps)).collect()
        };
        if let Kind::Map(own) = &node.kind {
            let lines = lines(self.column_of_key(own)?, self.steps(node));
            return Ok(vec![self.below(node.content_end(self.text), &lines, path.len())?]);
        }
        let flow = format!("{{{}}}", flow.join(", "));
        self.fill(path, &flow, |column, steps| lines(column + steps.map, steps))
    }

    fn push(&self, path: &Path, items: &[Value]) -> Splices {
        let node = self.editable(path)?;
        let flow: Vec<_> = items.iter().map(format::flow).collect();
        if node.flow {
            let first = node.items().first().map(|item| item.span.start);
            let last = node.items().last().map(|item| item.span.end);
            return Ok(vec![self.flow_insert(node, first, last, &flow)]);
        }
        let lines = |column, steps| -> Vec<String> {
            items.iter().flat_map(|item| format::block_item(item, column, steps)).collect()
        };
        if let Kind::List(own) = &node.kind {
            let lines = lines(self.column_of_dash(own)?, self.steps(node));
            return Ok(vec![self.below(node.content_end(self.text), &lines, path.len())?]);
        }
        let flow = format!("[{}]", flow.join(", "));
        self.fill(path, &flow, |column, steps| lines(column + steps.list, steps))
    }

    /// Puts a collection in place of a null: lines under its key, or one line inside braces. See [`Tree::null`].
    fn fill(&self, path: &Path, flow: &str, lines: impl Fn(usize, Steps) -> Vec<String>) -> Splices {
        let (Some((entry, parent)), Some(null)) = (self.entry_at(path), self.null(path)) else {
            return Err(self.odd(0, "is not under a key"));
        };
        if parent.flow {
            return Ok(vec![Splice::replace(null, format!(" {flow}"))]);
        }
        let column = self.column(entry.key.span.start)?;
        let lines = lines(column, self.steps(parent));
        Ok(vec![self.below(null.end, &lines, path.len())?, Splice::delete(null)])
    }

    /// The range from the colon to the end of a null, as ` ~` in `key: ~`; empty where it is not spelled out.
    pub fn null(&self, path: &[Segment]) -> Option<Range<usize>> {
        let (entry, _) = self.entry_at(path)?;
        let end = entry.value.span.end;
        self.past_colon(path).filter(|colon| entry.value.is_null() && *colon <= end).map(|colon| colon..end)
    }

    /// Where the value of the key at `path` begins: just past its colon.
    pub fn past_colon(&self, path: &[Segment]) -> Option<usize> {
        let (entry, _) = self.entry_at(path)?;
        let colon = self.text[entry.key.span.end..].find(':')?;
        Some(entry.key.span.end + colon + 1)
    }

    /// Cuts children out of a collection: whole lines, or with their commas.
    pub fn cut_children(&self, parent: &[Segment], children: &[&Segment]) -> Splices {
        let parent = self.editable(parent)?;
        let index = |child: &Segment| match child {
            Segment::Index(index) => Some(*index).filter(|index| *index < parent.items().len()),
            Segment::Key(key) => parent.entries().iter().position(|entry| entry.key.text() == Some(key)),
        };
        let mut indices: Vec<usize> = children.iter().filter_map(|child| index(child)).collect();
        indices.sort_unstable();
        if indices.len() != children.len() {
            return Err(Error::new(ErrorKind::Unproven, "what is to be removed is not there"));
        }
        if parent.flow {
            Ok(flow_cuts(parent, &indices))
        } else {
            indices.iter().map(|index| self.block_cut(parent, *index)).collect()
        }
    }

    /// Cuts the line of a key whose children are cut already; what somebody put between them stays.
    pub fn cut_key(&self, path: &[Segment]) -> Result<Splice, Error> {
        let Some((last, parent)) = path.split_last() else { return Err(self.odd(0, "is the whole document")) };
        let colon = self.past_colon(path).unwrap_or_default();
        let lines = line_start(self.text, colon)..line_end(self.text, colon);
        let key_is_first = !self.text[lines.start..].trim_start_matches(' ').starts_with('-');
        if self.at(path).is_some_and(|node| !node.flow) && key_is_first && self.rest_of_line_is_free(colon) {
            return Ok(self.cut_keeping_comments(lines));
        }
        let cuts = self.cut_children(parent, &[last])?;
        cuts.into_iter().next().ok_or_else(|| Error::new(ErrorKind::Unproven, "nothing to cut"))
    }

    /// The whole lines of one child; the first key of a list item shares its line with the dash, which stays.
    fn block_cut(&self, parent: &Node<'_>, index: usize) -> Result<Splice, Error> {
        let (start, end) = if let Kind::List(items) = &parent.kind {
            (self.dash_of(&items[index]), items[index].content_end(self.text))
        } else {
            let entry = &parent.entries()[index];
            (Some(entry.key.span.start), entry.value.content_end(self.text).max(entry.key.span.end))
        };
        let start = start.ok_or_else(|| self.odd(end, "has its dash on another line"))?;
        let line = line_start(self.text, start);
        if self.text[line..start].bytes().all(|byte| byte == b' ') {
            if self.rest_of_line_is_free(end) {
                return Ok(self.cut_keeping_comments(line..line_end(self.text, end)));
            }
            return Err(self.odd(end, "is followed by something else on its line"));
        }
        match parent.entries().get(index + 1).map(|next| next.key.span.start) {
            Some(next) if index == 0 && self.text[end..next].trim().is_empty() => Ok(Splice::delete(start..next)),
            _ => Err(self.odd(start, "shares its line with something else")),
        }
    }

    /// Cuts whole lines. We write no comments, so one that stands there is somebody's: it stays, on a line of its own.
    fn cut_keeping_comments(&self, lines: Range<usize>) -> Splice {
        let indent = self.text[lines.start..].len() - self.text[lines.start..].trim_start_matches(' ').len();
        let line_break = if self.text[lines.clone()].ends_with("\r\n") { "\r\n" } else { "\n" };
        let kept = self.comments.iter().filter(|comment| lines.contains(&comment.start));
        let put = kept.fold(String::new(), |put, comment| {
            format!("{put}{:indent$}{}{line_break}", "", self.text[comment.clone()].trim_end())
        });
        Splice::replace(lines, put)
    }

    fn flow_insert(&self, node: &Node<'_>, first: Option<usize>, last: Option<usize>, text: &[String]) -> Splice {
        let open = node.span.start + 1;
        let (Some(first), Some(last)) = (first, last) else {
            return Splice::insert(open, text.join(", "), 0);
        };
        let gap = &self.text[open..first];
        let separator = if gap.contains('\n') && gap.trim().is_empty() { format!(",{gap}") } else { ", ".to_owned() };
        let put = text.iter().fold(String::new(), |put, part| put + &separator + part);
        Splice::insert(last, put, 0)
    }

    /// Whole lines below the line on which `end` is.
    fn below(&self, end: usize, lines: &[String], depth: usize) -> Result<Splice, Error> {
        let text = self.text;
        let at = if text[..end].ends_with('\n') { end } else { line_end(text, end) };
        if at != end && !self.rest_of_line_is_free(end) {
            return Err(self.odd(end, "is followed by something else on its line"));
        }
        if at == text.len() && !text.ends_with('\n') {
            let line_break = if text.contains("\r\n") { "\r\n" } else { "\n" };
            let put = lines.iter().fold(String::new(), |put, line| put + line_break + line);
            return Ok(Splice::insert(at, put, depth));
        }
        let line_break = if text[..at].ends_with("\r\n") { "\r\n" } else { "\n" };
        let put = lines.iter().fold(String::new(), |put, line| put + line + line_break);
        Ok(Splice::insert(at, put, depth))
    }

    /// Whether nothing but blanks and a comment follows on the line.
    fn rest_of_line_is_free(&self, at: usize) -> bool {
        let rest = &self.text[at..line_end(self.text, at)];
        let trimmed = rest.trim();
        trimmed.is_empty() || (trimmed.starts_with('#') && rest.starts_with([' ', '\t']))
    }

    /// The node at `path`, if nothing on the way to it is an anchor, alias, tag or merge key.
    pub fn editable(&self, path: &[Segment]) -> Result<&Node<'_>, Error> {
        for depth in 0..=path.len() {
            let Some(node) = self.at(&path[..depth]) else {
                return Err(Error::new(ErrorKind::Unproven, "what is to be changed is not there"));
            };
            if node.decorated {
                let line =
                    self.line(self.entry_at(&path[..depth]).map_or(node.span.start, |(entry, _)| entry.key.span.start));
                return Err(Error::at_line(
                    ErrorKind::Anchor,
                    line,
                    "an anchor, alias or tag is on the value that must be changed",
                ));
            }
            if let Some(merge) = node.entry("<<") {
                let line = self.line(merge.key.span.start);
                return Err(Error::at_line(
                    ErrorKind::Anchor,
                    line,
                    "a merge key (<<) is in the mapping that must be changed",
                ));
            }
        }
        self.at(path).ok_or_else(|| Error::new(ErrorKind::Unproven, "what is to be changed is not there"))
    }

    /// The range of a scalar that is written on one line.
    pub fn one_line_scalar(&self, path: &[Segment]) -> Result<Range<usize>, Error> {
        let node = self.editable(path)?;
        let span = node.span.clone();
        if node.text().is_none() || span.is_empty() || self.text[span.clone()].contains('\n') {
            return Err(self.odd(span.start, "is not a value on one line"));
        }
        Ok(span)
    }

    fn entry_at(&self, path: &[Segment]) -> Option<(&Entry<'_>, &Node<'_>)> {
        let (Segment::Key(key), parent) = path.split_last()? else { return None };
        let parent = self.at(parent)?;
        Some((parent.entry(key)?, parent))
    }

    fn column_of_key(&self, entries: &[Entry<'_>]) -> Result<usize, Error> {
        let Some(first) = entries.first() else { return Err(self.odd(0, "is an empty block")) };
        self.column(first.key.span.start)
    }

    /// The column of `at`, if only blanks and list dashes stand before it on its line.
    fn column(&self, at: usize) -> Result<usize, Error> {
        let before = &self.text[line_start(self.text, at)..at];
        if before.bytes().all(|byte| byte == b' ' || byte == b'-') {
            Ok(before.len())
        } else {
            Err(self.odd(at, "shares its line with something else"))
        }
    }

    fn column_of_dash(&self, items: &[Node<'_>]) -> Result<usize, Error> {
        let dash = items.iter().find_map(|item| self.dash_of(item));
        if let Some(item) = items.iter().find(|item| dash.is_none() && item.decorated) {
            let line = self.line(item.span.start);
            return Err(Error::at_line(
                ErrorKind::Anchor,
                line,
                "an anchor, alias or tag is before the value that must be changed",
            ));
        }
        let Some(dash) = dash else {
            return Err(self.odd(
                items.first().map_or(0, |item| item.span.start),
                "is a list whose dashes are on lines of their own",
            ));
        };
        Ok(dash - line_start(self.text, dash))
    }

    /// The offset of the dash before a list item, if only blanks stand between them and before the dash on its line.
    fn dash_of(&self, item: &Node<'_>) -> Option<usize> {
        let before = self.text[..item.span.start].trim_end_matches([' ', '\r', '\n']).strip_suffix('-')?;
        let start = line_start(self.text, before.len());
        before[start..].bytes().all(|byte| byte == b' ').then_some(before.len())
    }

    /// Indentation as the nearest relatives show it, else the file, else the default.
    fn steps(&self, node: &Node<'_>) -> Steps {
        Steps {
            list: self.list_step(node).or_else(|| self.list_step(&self.root)).unwrap_or(DEFAULT_STEPS.list),
            map: self.map_step(&self.root).unwrap_or(DEFAULT_STEPS.map),
        }
    }

    fn list_step(&self, node: &Node<'_>) -> Option<usize> {
        node.entries().iter().find_map(|entry| match &entry.value.kind {
            Kind::List(items) if !entry.value.flow && !items.is_empty() => {
                let dash = self.column_of_dash(items).ok()?;
                dash.checked_sub(self.column(entry.key.span.start).ok()?)
            }
            Kind::Map(_) => self.list_step(&entry.value),
            _ => None,
        })
    }

    fn map_step(&self, node: &Node<'_>) -> Option<usize> {
        node.entries().iter().find_map(|entry| match &entry.value.kind {
            Kind::Map(own) if !entry.value.flow => {
                let step = self.column_of_key(own).ok()?.checked_sub(self.column(entry.key.span.start).ok()?)?;
                (step > 0).then_some(step)
            }
            _ => None,
        })
    }

    fn odd(&self, at: usize, what: &str) -> Error {
        Error::at_line(ErrorKind::Shape, self.line(at), format!("what must be changed here {what}"))
    }
}

/// What to cut so that children of a flow collection go, each run of them with one of its commas.
fn flow_cuts(parent: &Node<'_>, indices: &[usize]) -> Vec<Splice> {
    let span = |index: usize| match &parent.kind {
        Kind::List(items) => items.get(index).map(|item| item.span.clone()),
        _ => {
            parent.entries().get(index).map(|entry| entry.key.span.start..entry.value.span.end.max(entry.key.span.end))
        }
    };
    let mut cuts: Vec<Splice> = Vec::new();
    let mut rest = indices;
    while let Some(first) = rest.first() {
        let length = rest.iter().zip(*first..).take_while(|(index, expected)| **index == *expected).count();
        let last = *first + length - 1;
        rest = &rest[length..];
        let (Some(own), Some(end)) = (span(*first), span(last)) else { continue };
        cuts.push(Splice::delete(match (first.checked_sub(1).and_then(span), span(last + 1)) {
            (Some(before), _) => before.end..end.end,
            (None, Some(after)) => own.start..after.start,
            (None, None) => own.start..end.end,
        }));
    }
    cuts
}
