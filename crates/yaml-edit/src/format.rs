//! How a value is spelled, so that every YAML reader of the last twenty years reads the same.

use std::fmt::Write as _;

use granit_parser::ScalarStyle;

use super::op::Value;

/// Words that some reader takes for a boolean, a null or a number.
const RESERVED: [&str; 12] = ["y", "n", "yes", "no", "on", "off", "true", "false", "null", "nan", "inf", "infinity"];

/// A scalar in the manner of a neighbour: bare where that is safe, else quoted as the neighbour is.
pub fn scalar(text: &str, like: ScalarStyle) -> String {
    match like {
        ScalarStyle::SingleQuoted if is_printable_ascii(text) => single_quoted(text),
        ScalarStyle::DoubleQuoted => double_quoted(text),
        _ if is_safe_bare(text) => text.to_owned(),
        _ => quoted(text),
    }
}

/// Always in quotes: single where the text holds double ones, so that a line of JSON stays readable.
pub fn quoted(text: &str) -> String {
    if text.contains('"') && is_printable_ascii(text) { single_quoted(text) } else { double_quoted(text) }
}

fn single_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Double quotes with every character outside printable ASCII escaped, which YAML 1.1 and 1.2 read alike.
pub fn double_quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('"');
    for character in text.chars() {
        match character {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            ' '..='~' => out.push(character),
            other => {
                let code = u32::from(other);
                // writing to a String cannot fail
                let _ = match code {
                    ..=0xff => write!(out, "\\x{code:02X}"),
                    0x100..=0xffff => write!(out, "\\u{code:04X}"),
                    _ => write!(out, "\\U{code:08X}"),
                };
            }
        }
    }
    out.push('"');
    out
}

fn is_printable_ascii(text: &str) -> bool {
    text.bytes().all(|byte| matches!(byte, b' '..=b'~'))
}

/// Bare text that no reader takes for anything but this string.
fn is_safe_bare(text: &str) -> bool {
    let body = text.strip_prefix("--").unwrap_or(text);
    body.starts_with(|first: char| first.is_ascii_alphabetic() || first == '/')
        && body.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/_.=@:-+".contains(&byte))
        && !body.ends_with(':')
        && !RESERVED.iter().any(|word| word.eq_ignore_ascii_case(text))
}

/// A value on one line, as it stands between `[`, `]`, `{` and `}`.
pub fn flow(value: &Value) -> String {
    match value {
        Value::Text(text) | Value::Quoted(text) => quoted(text),
        Value::Bool(value) => value.to_string(),
        Value::Number(value) => value.to_string(),
        Value::List(items) => format!("[{}]", items.iter().map(flow).collect::<Vec<_>>().join(", ")),
        Value::Map(entries) => {
            let entries: Vec<_> = entries.iter().map(|(key, value)| flow_entry(key, value)).collect();
            format!("{{{}}}", entries.join(", "))
        }
    }
}

/// `"key": value` on one line.
pub fn flow_entry(key: &str, value: &Value) -> String {
    format!("{}: {}", double_quoted(key), flow(value))
}

/// How far children are indented: as the file itself does it.
#[derive(Clone, Copy, Debug)]
pub struct Steps {
    /// From a key to the dash of a list under it; 0 or more.
    pub list: usize,
    /// From a key to the keys of a mapping under it; 1 or more.
    pub map: usize,
}

/// The lines of `- item`, with the dash at `column`.
pub fn block_item(item: &Value, column: usize, steps: Steps) -> Vec<String> {
    let pad = " ".repeat(column);
    match item {
        Value::Map(entries) if !entries.is_empty() => {
            let mut lines: Vec<_> =
                entries.iter().flat_map(|(key, value)| block_entry(key, value, column + 2, steps)).collect();
            if let Some(first) = lines.first_mut() {
                first.replace_range(column..=column, "-");
            }
            lines
        }
        _ => vec![format!("{pad}- {}", one_line(item))],
    }
}

/// The lines of `key: value`, with the key at `column`.
pub fn block_entry(key: &str, value: &Value, column: usize, steps: Steps) -> Vec<String> {
    let pad = " ".repeat(column);
    let key = scalar(key, ScalarStyle::Plain);
    let children: Vec<_> = match value {
        Value::List(items) => items.iter().flat_map(|item| block_item(item, column + steps.list, steps)).collect(),
        Value::Map(entries) => {
            entries.iter().flat_map(|(key, value)| block_entry(key, value, column + steps.map, steps)).collect()
        }
        _ => return vec![format!("{pad}{key}: {}", one_line(value))],
    };
    let mut lines = vec![format!("{pad}{key}:")];
    lines.extend(children);
    lines
}

fn one_line(value: &Value) -> String {
    match value {
        Value::Text(text) => scalar(text, ScalarStyle::Plain),
        other => flow(other),
    }
}
