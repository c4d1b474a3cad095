//! What is refused by looking at the text as a whole, before and after it is read as YAML.

use std::ops::Range;

use granit_parser::ScalarStyle;

use super::error::{Error, ErrorKind};
use super::tree::{Kind, Node, Tree, line_of};

/// Opening marks of the template languages in use: Go and Jinja, Jinja blocks, ERB.
const TEMPLATE_MARKS: [&str; 3] = ["{{", "{%", "<%"];

/// Refuses texts that no reader should get to see.
pub fn check_text(text: &str) -> Result<(), Error> {
    if let Some(at) = text.find('\u{feff}') {
        return Err(Error::at_line(ErrorKind::ByteOrderMark, line_of(text, at), "there is a byte order mark here"));
    }
    let head = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    if let Some((index, _)) = head.filter(|(_, line)| line.starts_with('%')) {
        return Err(Error::at_line(ErrorKind::Directive, index + 1, "the file begins with a % directive"));
    }
    if let Some(at) = odd_line_break(text) {
        let message = "a line break that not every YAML reader takes for one (a bare CR, U+0085, U+2028 or U+2029)";
        return Err(Error::at_line(ErrorKind::LineSeparator, line_of(text, at), message));
    }
    Ok(())
}

/// The first line break that not every reader takes for one.
pub fn odd_line_break(text: &str) -> Option<usize> {
    if text.is_ascii() && !text.contains('\r') {
        return None;
    }
    let bytes = text.as_bytes();
    bytes.iter().enumerate().find_map(|(at, byte)| {
        let odd = match byte {
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            0xc2 => bytes.get(at + 1) == Some(&0x85),
            0xe2 => matches!(bytes.get(at + 1..at + 3), Some([0x80, 0xa8 | 0xa9])),
            _ => false,
        };
        odd.then_some(at)
    })
}

/// A text that could not be read: that it is a template, or has a tab at that place, is the better reason.
pub fn explain_unreadable(text: &str, error: Error) -> Error {
    let is_template = |line: &str| !line.trim_start().starts_with('#') && has_template_mark(line);
    if let Some(index) = text.lines().position(is_template) {
        return template(index + 1);
    }
    let indented_by_tab = |line: &usize| {
        let text = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        text.trim_start_matches(' ').starts_with('\t')
    };
    // a reader names the line where the value began, which may be the one before
    let suspects = error.line.map_or(0..=0, |line| line..=line + 1);
    suspects.into_iter().find(indented_by_tab).map_or(error, tab)
}

impl Tree<'_> {
    /// Refuses a template that happens to read as YAML. Marks in comments do not count, nor those in quoted strings below
    /// `text_below`, where people keep all kinds of text.
    pub fn no_template(&self, text_below: Option<&Node<'_>>) -> Result<(), Error> {
        if !has_template_mark(self.text) {
            return Ok(());
        }
        let mut strings = Vec::new();
        text_below.inspect(|node| scalar_spans(node, |style| style != ScalarStyle::Plain, &mut strings));
        let marks = TEMPLATE_MARKS.iter().flat_map(|mark| self.text.match_indices(mark).map(|(at, _)| at));
        match marks.filter(|at| !within(&self.comments, *at) && !within(&strings, *at)).min() {
            Some(at) => Err(template(self.line(at))),
            None => Ok(()),
        }
    }

    /// Refuses a tab between values; one in a string or a comment is nobody's business.
    pub fn no_tab(&self) -> Result<(), Error> {
        if !self.text.contains('\t') {
            return Ok(());
        }
        let mut strings = Vec::new();
        scalar_spans(&self.root, |_| true, &mut strings);
        let mut tabs = self.text.match_indices('\t').map(|(at, _)| at);
        match tabs.find(|at| !within(&self.comments, *at) && !within(&strings, *at)) {
            Some(at) => Err(tab(self.line(at))),
            None => Ok(()),
        }
    }
}

/// Whether a text holds an opening mark of a template language anywhere.
pub fn has_template_mark(text: &str) -> bool {
    TEMPLATE_MARKS.iter().any(|mark| text.contains(mark))
}

fn tab(line: usize) -> Error {
    Error::at_line(ErrorKind::Tab, line, "there is a tab between values, where YAML wants spaces")
}

fn template(line: usize) -> Error {
    Error::at_line(ErrorKind::Template, line, "the file is a template: it holds {{, {% or <%")
}

/// Whether one of the ranges, which are in order, holds `at`.
fn within(ranges: &[Range<usize>], at: usize) -> bool {
    let next = ranges.partition_point(|range| range.start <= at);
    next > 0 && ranges[next - 1].contains(&at)
}

/// Where the scalars of the wanted styles stand, in the order of the text.
fn scalar_spans(node: &Node<'_>, wanted: fn(ScalarStyle) -> bool, out: &mut Vec<Range<usize>>) {
    match &node.kind {
        Kind::Scalar { style, .. } if wanted(*style) => out.push(node.span.clone()),
        Kind::Scalar { .. } | Kind::Alias => {}
        Kind::List(items) => items.iter().for_each(|item| scalar_spans(item, wanted, out)),
        Kind::Map(entries) => entries.iter().for_each(|entry| {
            scalar_spans(&entry.key, wanted, out);
            scalar_spans(&entry.value, wanted, out);
        }),
    }
}
