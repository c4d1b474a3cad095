//! The values of a plainly written document, without reading its text a second time.
//!
//! Plain is what all YAML readers read alike: block style, every scalar on one line, nothing that YAML is feared for. All
//! else is left to `serde_yaml`, the reader of the scheduler's own lineage; so the only cost of being careful is time.

use std::borrow::Cow;

use granit_parser::ScalarStyle;
use serde_yaml::{Mapping, Number, Value};

use super::guard::odd_line_break;
use super::tree::{Entry, Kind, Node, Tree};

/// Deeper than any configuration, and less than any reader's limit.
const MAX_DEPTH: usize = 64;
/// Longer than any key, and less than any reader's limit.
const MAX_KEY: usize = 256;

/// The values of a document, exactly as `serde_yaml` would read them (`tests/edit/readers_agree.rs`); `None` if it is not plainly
/// written.
pub fn values(tree: Tree<'_>) -> Option<Value> {
    let Tree { text, root, .. } = tree;
    let line_begins_with = |mark: char| text.match_indices(mark).any(|(at, _)| at == 0 || text[..at].ends_with('\n'));
    let is_feared = text.contains('\t')
        || text.contains('\u{feff}')
        || line_begins_with('%') // a directive
        || line_begins_with('.') // perhaps the end of a document
        || odd_line_break(text).is_some();
    if is_feared { None } else { value(text, root, 0) }
}

fn value(text: &str, node: Node<'_>, depth: usize) -> Option<Value> {
    if node.decorated || depth > MAX_DEPTH {
        return None;
    }
    match node.kind {
        Kind::Scalar { value, style } => scalar(value, style, &text[node.span]),
        Kind::List(items) if !node.flow || items.is_empty() => {
            items.into_iter().map(|item| value(text, item, depth + 1)).collect::<Option<_>>().map(Value::Sequence)
        }
        Kind::Map(entries) if !node.flow || entries.is_empty() => {
            let mut mapping = Mapping::with_capacity(entries.len());
            for Entry { key, value: content } in entries {
                if !(1..=MAX_KEY).contains(&key.span.len()) || !text[key.span.end..].starts_with(':') {
                    return None;
                }
                let twice = mapping.insert(value(text, key, depth + 1)?, value(text, content, depth + 1)?);
                if twice.is_some() {
                    return None;
                }
            }
            Some(Value::Mapping(mapping))
        }
        Kind::List(_) | Kind::Map(_) | Kind::Alias => None,
    }
}

fn scalar(value: Cow<'_, str>, style: ScalarStyle, written: &str) -> Option<Value> {
    if written.contains('\n') {
        return None;
    }
    match style {
        ScalarStyle::Plain => bare(value),
        ScalarStyle::SingleQuoted => Some(Value::String(value.into_owned())),
        ScalarStyle::DoubleQuoted if !written.contains('\\') => Some(Value::String(value.into_owned())),
        _ => None,
    }
}

/// A word without quotes: null, a boolean, a number or text.
fn bare(word: Cow<'_, str>) -> Option<Value> {
    match word.as_ref() {
        "" | "~" | "null" | "Null" | "NULL" => return Some(Value::Null),
        "true" | "True" | "TRUE" => return Some(Value::Bool(true)),
        "false" | "False" | "FALSE" => return Some(Value::Bool(false)),
        _ => {}
    }
    if word.starts_with(|first: char| first.is_ascii_digit() || "+-.".contains(first)) {
        if let Ok(number) = word.parse::<Number>() {
            return Some(Value::Number(number));
        }
        if is_huge(&word) {
            return None;
        }
    }
    Some(Value::String(word.into_owned()))
}

/// A whole number of so many digits that 64 bits may not hold it, which `serde_yaml` refuses.
fn is_huge(word: &str) -> bool {
    let digits = word.trim_start_matches(['+', '-']);
    digits.len() > 16 && digits.bytes().all(|byte| byte.is_ascii_hexdigit() || b"xo".contains(&byte))
}
