//! Writes a configuration as JSON, which is YAML of the one kind that no two readers take for different things.
//!
//! The scheduler knows JSON by its first brace and reads it as such, so no rule of YAML, of whatever version, has a say.

use std::io::Write as _;

use serde_yaml::Value;

/// Makes whole numbers of those that are only written as fractions: `5.0` is 5 to the scheduler when it reads YAML, but
/// no whole number when it reads JSON.
#[expect(clippy::cast_possible_truncation, reason = "checked to be whole and to fit")]
pub(crate) fn settle_numbers(value: &mut Value) {
    const FITS: f64 = 9.2e18;
    match value {
        Value::Number(number) if number.is_f64() => {
            if let Some(whole) = number.as_f64().filter(|float| float.fract() == 0.0 && float.abs() < FITS) {
                *value = Value::from(whole as i64);
            }
        }
        Value::Sequence(items) => items.iter_mut().for_each(settle_numbers),
        Value::Mapping(entries) => entries.values_mut().for_each(settle_numbers),
        _ => {}
    }
}

/// The text of a configuration.
pub(crate) fn render(config: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    value(&mut out, config, 0);
    out.push(b'\n');
    out
}

fn value(out: &mut Vec<u8>, value: &Value, depth: usize) {
    match value {
        Value::Mapping(entries) => block(out, *b"{}", entries, depth, |out, (key, value), depth| {
            match key {
                Value::String(key) => string(out, key),
                // no JSON either
                other => scalar(out, other),
            }
            out.extend(b": ");
            self::value(out, value, depth);
        }),
        Value::Sequence(items) => block(out, *b"[]", items, depth, self::value),
        Value::String(text) => string(out, text),
        other => scalar(out, other),
    }
}

/// What stands between brackets, one on a line.
fn block<T>(
    out: &mut Vec<u8>,
    [open, close]: [u8; 2],
    items: impl IntoIterator<Item = T>,
    depth: usize,
    mut write: impl FnMut(&mut Vec<u8>, T, usize),
) {
    out.push(open);
    let mut is_empty = true;
    for item in items {
        out.extend(if is_empty { "\n" } else { ",\n" }.as_bytes());
        indent(out, depth + 1);
        write(out, item, depth + 1);
        is_empty = false;
    }
    if !is_empty {
        out.push(b'\n');
        indent(out, depth);
    }
    out.push(close);
}

fn indent(out: &mut Vec<u8>, depth: usize) {
    out.resize(out.len() + 2 * depth, b' ');
}

/// In quotes, with every character escaped that some reader could stumble over.
fn string(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    if text.bytes().all(|byte| matches!(byte, b' '..=b'~') && byte != b'"' && byte != b'\\') {
        out.extend(text.as_bytes());
    } else {
        text.chars().for_each(|character| escaped(out, character));
    }
    out.push(b'"');
}

fn escaped(out: &mut Vec<u8>, character: char) {
    match character {
        '"' | '\\' => out.extend([b'\\', character as u8]),
        ' '..='~' => out.push(character as u8),
        // JSON would escape these in two halves, which is no YAML
        '\u{10000}'.. => out.extend(character.encode_utf8(&mut [0; 4]).as_bytes()),
        other => out.extend(format!("\\u{:04X}", u32::from(other)).as_bytes()),
    }
}

/// Null, booleans and numbers. What JSON cannot say is written as no JSON, which the proof tells.
fn scalar(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend(b"null"),
        Value::Bool(true) => out.extend(b"true"),
        Value::Bool(false) => out.extend(b"false"),
        // writing to memory does not fail
        Value::Number(number) => drop(write!(out, "{number}")),
        _ => out.push(b'!'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every character of the first planes, and words that readers quarrel about.
    #[test]
    fn json_and_yaml_readers_read_the_same() {
        let characters: String = ('\0'..='\u{ffff}').chain(['\u{1f600}', '\u{10ffff}']).collect();
        let words = [
            "yes", "012", "1_000", "~", "<<", "a: b", "- a", "# a", "", " ", "'", "\"", "\\", "{", "[", "&a", "*a",
            "!a",
        ];
        let mut strings: Vec<Value> = words.into_iter().chain([characters.as_str()]).map(Value::from).collect();
        strings.extend([0.1, -0.0, 1e300, 5e-324, 1.0].map(Value::from));
        strings.extend([Value::from(u64::MAX), Value::from(i64::MIN), Value::Null, Value::Bool(true)]);
        let mapping = words.into_iter().map(|word| (Value::from(word), Value::from(word))).collect();
        let meant = Value::Sequence(vec![Value::Sequence(strings), Value::Mapping(mapping), Value::Sequence(vec![])]);
        let text = String::from_utf8(render(&meant)).unwrap();
        assert_eq!(serde_yaml::from_str::<Value>(&text).unwrap(), meant);
        assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), meant);
        assert!(crate::compose::proof::says(text.as_bytes(), &meant));
    }

    #[test]
    fn whole_numbers_are_written_as_such() {
        let mut value: Value = serde_yaml::from_str("[16.0, -2e3, 0.5, 1e30, -0.0, 9007199254740993.0]").unwrap();
        settle_numbers(&mut value);
        let text = String::from_utf8(render(&value)).unwrap().replace(['\n', ' '], "");
        assert_eq!(text, "[16,-2000,0.5,1e30,0,9007199254740992]");
    }
}
