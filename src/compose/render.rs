//! Writes a configuration as YAML in which every string is quoted, so that no reader can take one for something else.

use std::fmt::Write as _;

use serde_yaml::{Mapping, Value};

use crate::edit::{bare_or_quoted, double_quoted};

/// The text of a configuration.
pub(crate) fn render(config: &Mapping) -> String {
    let mut out = String::new();
    mapping(&mut out, config, 0);
    out
}

fn mapping(out: &mut String, entries: &Mapping, indent: usize) {
    for (key, value) in entries {
        let _ = write!(out, "{:indent$}{}:", "", key_text(key));
        value_after_key(out, value, indent);
    }
}

fn value_after_key(out: &mut String, value: &Value, indent: usize) {
    match value {
        Value::Mapping(entries) if !entries.is_empty() => {
            out.push('\n');
            mapping(out, entries, indent + 2);
        }
        Value::Sequence(items) if !items.is_empty() => {
            out.push('\n');
            for item in items {
                list_item(out, item, indent);
            }
        }
        other => {
            let _ = writeln!(out, " {}", one_line(other));
        }
    }
}

fn list_item(out: &mut String, item: &Value, indent: usize) {
    match item {
        Value::Mapping(entries) if !entries.is_empty() => {
            let start = out.len();
            mapping(out, entries, indent + 2);
            out.replace_range(start + indent..=start + indent, "-");
        }
        other => {
            let _ = writeln!(out, "{:indent$}- {}", "", one_line(other));
        }
    }
}

fn key_text(key: &Value) -> String {
    key.as_str().map_or_else(|| double_quoted(&one_line(key)), bare_or_quoted)
}

/// A value on one line: scalars, what is empty, and lists in lists.
fn one_line(value: &Value) -> String {
    match value {
        Value::String(text) => double_quoted(text),
        Value::Sequence(items) => format!("[{}]", items.iter().map(one_line).collect::<Vec<_>>().join(", ")),
        Value::Mapping(entries) => {
            let entries = entries.iter().map(|(key, value)| {
                format!("{}: {}", double_quoted(key.as_str().unwrap_or_default()), one_line(value))
            });
            format!("{{{}}}", entries.collect::<Vec<_>>().join(", "))
        }
        // null, booleans and numbers: JSON is YAML, and says what it means
        other => serde_json::to_string(other).unwrap_or_else(|_| "null".to_owned()),
    }
}
