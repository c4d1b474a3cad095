//! The values of a plainly written document, without reading its text a second time.
//!
//! Plain is what all YAML readers read alike: block style or JSON, every scalar on one line, nothing that YAML is feared for.
//! All else is left to `serde_yaml`, the reader of the scheduler's own lineage; so the only cost of being careful is time.

use std::borrow::Cow;

use granit_parser::ScalarStyle;
use serde_yaml::{Mapping, Number, Value};

use super::guard::odd_line_break;
use super::tree::{Entry, Kind, Node, Tree};

/// Deeper than any configuration, and less than any reader's limit.
const MAX_DEPTH: usize = 64;
/// Longer than any key, and less than any reader's limit.
const MAX_KEY: usize = 256;

/// How a whole document is written.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Indented lines
    Block,
    /// Brackets, quoted strings and numbers, as in JSON
    Json,
}

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
    let form = if root.flow { Form::Json } else { Form::Block };
    if is_feared { None } else { value(text, root, form, 0) }
}

fn value(text: &str, node: Node<'_>, form: Form, depth: usize) -> Option<Value> {
    if node.decorated || depth > MAX_DEPTH {
        return None;
    }
    // in JSON a list or mapping has brackets of its own: in YAML `["a": 1]` is a list with a mapping in it
    let is_written = |open: char, close: char| match form {
        Form::Block => !node.flow,
        Form::Json => {
            node.flow && text.get(node.span.clone()).is_some_and(|own| own.starts_with(open) && own.ends_with(close))
        }
    };
    match node.kind {
        Kind::Scalar { value, style } => scalar(value, style, form, &text[node.span]),
        Kind::List(items) if is_written('[', ']') || items.is_empty() => {
            items.into_iter().map(|item| value(text, item, form, depth + 1)).collect::<Option<_>>().map(Value::Sequence)
        }
        Kind::Map(entries) if is_written('{', '}') || entries.is_empty() => {
            let mut mapping = Mapping::with_capacity(entries.len());
            for Entry { key, value: content } in entries {
                if !(1..=MAX_KEY).contains(&key.span.len()) || !text[key.span.end..].starts_with(':') {
                    return None;
                }
                if form == Form::Json && !is_quoted(&key) {
                    return None;
                }
                let twice = mapping.insert(value(text, key, form, depth + 1)?, value(text, content, form, depth + 1)?);
                if twice.is_some() {
                    return None;
                }
            }
            Some(Value::Mapping(mapping))
        }
        Kind::List(_) | Kind::Map(_) | Kind::Alias => None,
    }
}

fn is_quoted(key: &Node<'_>) -> bool {
    matches!(key.kind, Kind::Scalar { style: ScalarStyle::DoubleQuoted, .. })
}

fn scalar(value: Cow<'_, str>, style: ScalarStyle, form: Form, written: &str) -> Option<Value> {
    if written.contains('\n') {
        return None;
    }
    match style {
        ScalarStyle::Plain if form == Form::Json && !is_json_word(written) => None,
        ScalarStyle::SingleQuoted if form == Form::Json => None,
        ScalarStyle::Plain => bare(value),
        ScalarStyle::SingleQuoted => Some(Value::String(value.into_owned())),
        ScalarStyle::DoubleQuoted if !written.contains('\\') => Some(Value::String(value.into_owned())),
        _ => None,
    }
}

/// What JSON has without quotes.
fn is_json_word(word: &str) -> bool {
    let is_number = || {
        word.starts_with(|first: char| first.is_ascii_digit() || first == '-')
            && word.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte))
    };
    matches!(word, "true" | "false" | "null") || is_number()
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
