//! Writes a configuration as YAML in which every string is quoted, so that no reader can take one for something else.

use std::fmt::Write as _;

use serde_yaml::{Mapping, Value};

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
            items.iter().for_each(|item| list_item(out, item, indent));
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

/// Keys of the configuration are plain words; any other is quoted.
fn key_text(key: &Value) -> String {
    match key {
        Value::String(word) if !word.is_empty() && word.bytes().all(|b| b.is_ascii_alphabetic()) && word.len() > 3 => {
            word.clone()
        }
        Value::String(other) => json(&Value::String(other.clone())),
        other => json(&Value::String(one_line(other))),
    }
}

/// JSON is YAML, and says what it means.
fn one_line(value: &Value) -> String {
    json(value)
}

fn json(value: &Value) -> String {
    let text = serde_json::to_string(value).unwrap_or_else(|_| "null".to_owned());
    let mut ascii = String::with_capacity(text.len());
    for character in text.chars() {
        match u32::from(character) {
            0x20..=0x7e => ascii.push(character),
            code @ 0..=0xffff => {
                let _ = write!(ascii, "\\u{code:04x}");
            }
            code => {
                let _ = write!(ascii, "\\U{code:08X}");
            }
        }
    }
    ascii
}
