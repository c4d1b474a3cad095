//! What is refused by looking at the text as a whole, before and after it is read as YAML.

use std::ops::Range;

use granit_parser::ScalarStyle;

use super::refusal::{Refusal, Rule};
use super::tree::{Kind, Node, Tree, line_of};

/// Opening marks of the template languages in use: Go and Jinja, Jinja blocks, ERB.
const TEMPLATE_MARKS: [&str; 3] = ["{{", "{%", "<%"];

/// Refuses texts that no reader should get to see.
pub(crate) fn before_reading(text: &str) -> Result<(), Refusal> {
    let first = text.trim_start().bytes().next();
    if let Some(at) = text.find('\u{feff}') {
        return Err(Refusal::at_line(Rule::ByteOrderMark, line_of(text, at), "there is a byte order mark here"));
    }
    let head = text.lines().enumerate().find(|(_, line)| !line.trim().is_empty() && !line.starts_with('#'));
    if let Some((index, _)) = head.filter(|(_, line)| line.starts_with('%')) {
        return Err(Refusal::at_line(Rule::Directive, index + 1, "the file begins with a % directive"));
    }
    if first == Some(b'{') && !TEMPLATE_MARKS.iter().any(|mark| text.contains(mark)) {
        return Err(Refusal::at_line(Rule::Json, 1, "the manifest is written as JSON"));
    }
    if let Some(at) = odd_line_break(text) {
        let message = "a line break that not every YAML reader takes for one (a bare CR, U+0085, U+2028 or U+2029)";
        return Err(Refusal::at_line(Rule::LineSeparator, line_of(text, at), message));
    }
    Ok(())
}

/// The first line break that not every reader takes for one.
pub(crate) fn odd_line_break(text: &str) -> Option<usize> {
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
pub(crate) fn explain_unreadable(text: &str, refusal: Refusal) -> Refusal {
    let is_template =
        |line: &str| !line.trim_start().starts_with('#') && TEMPLATE_MARKS.iter().any(|mark| line.contains(mark));
    if let Some(index) = text.lines().position(is_template) {
        return template(index + 1);
    }
    let indented_by_tab = |line: &usize| {
        let text = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        text.trim_start_matches(' ').starts_with('\t')
    };
    // a reader names the line where the value began, which may be the one before
    let suspects = refusal.line.map_or(0..=0, |line| line..=line + 1);
    suspects.into_iter().find(indented_by_tab).map_or(refusal, tab)
}

/// Refuses what only the tree shows: tabs between tokens, and templates that happen to read as YAML.
pub(crate) fn after_reading(tree: &Tree<'_>) -> Result<(), Refusal> {
    let text = tree.text;
    if TEMPLATE_MARKS.iter().any(|mark| text.contains(mark)) {
        let annotations = tree.root.get("metadata").and_then(|metadata| metadata.get("annotations"));
        let mut strings = Vec::new();
        annotations.inspect(|node| scalar_spans(node, |style| style != ScalarStyle::Plain, &mut strings));
        let marks = TEMPLATE_MARKS.iter().flat_map(|mark| text.match_indices(mark).map(|(at, _)| at));
        if let Some(at) = marks.filter(|at| !within(&tree.comments, *at) && !within(&strings, *at)).min() {
            return Err(template(tree.line(at)));
        }
    }
    if text.contains('\t') {
        let mut strings = Vec::new();
        scalar_spans(&tree.root, |_| true, &mut strings);
        let mut tabs = text.match_indices('\t').map(|(at, _)| at);
        if let Some(at) = tabs.find(|at| !within(&tree.comments, *at) && !within(&strings, *at)) {
            return Err(tab(tree.line(at)));
        }
    }
    Ok(())
}

fn tab(line: usize) -> Refusal {
    Refusal::at_line(Rule::Tab, line, "there is a tab between values, where YAML wants spaces")
}

fn template(line: usize) -> Refusal {
    Refusal::at_line(Rule::Template, line, "the file is a template: it holds {{, {% or <%")
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

/// Refuses a value that a person or a script still has to fill in.
pub(crate) fn no_placeholder(tree: &Tree<'_>, node: &Node<'_>) -> Result<(), Refusal> {
    let Some(value) = node.text() else { return Ok(()) };
    let wrapped = |open: &str, close: &str| {
        value.split_once(open).and_then(|(_, rest)| rest.split_once(close)).map(|(name, _)| name)
    };
    let is_name = |name: &&str| !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_lowercase());
    let any =
        [("${", "}"), ("<", ">")].iter().any(|(open, close)| wrapped(open, close).is_some_and(|name| !name.is_empty()));
    if any
        || [("__", "__"), ("@@", "@@")].iter().any(|(open, close)| wrapped(open, close).as_ref().is_some_and(is_name))
    {
        let message = format!("{value:?} holds a placeholder");
        return Err(Refusal::at_line(Rule::Template, tree.line(node.span.start), message));
    }
    Ok(())
}

/// Refuses an image that no registry can serve, such as `SCHEDULER`: repositories are written in lower case.
pub(crate) fn no_placeholder_image(tree: &Tree<'_>, node: &Node<'_>) -> Result<(), Refusal> {
    no_placeholder(tree, node)?;
    if node.is_null() {
        return Ok(());
    }
    let image = node.text().unwrap_or_default();
    let name = image.split('@').next().unwrap_or_default();
    let (host, repository) = name.split_once('/').map_or(("", name), |(host, rest)| (host, rest));
    let repository = repository.rsplit_once(':').map_or(repository, |(path, _)| path);
    let bad = |part: &str, upper: bool| {
        part.chars()
            .any(|c| !(c.is_ascii_alphanumeric() || "._-/:[]".contains(c)) || (!upper && c.is_ascii_uppercase()))
    };
    if repository.is_empty() || bad(host, true) || bad(repository, false) {
        let message = format!("{image:?} is no image that can be pulled: a placeholder?");
        return Err(Refusal::at_line(Rule::Template, tree.line(node.span.start), message));
    }
    Ok(())
}
