//! How much a YAML text holds, counted without building any of it.

use std::collections::HashMap;

use granit_parser::{Event, Parser};

/// What a document would cost to build.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Size {
    /// Keys, scalars, lists and mappings, with every alias counted as what it stands for
    pub values: usize,
    /// Keys of the largest mapping
    pub keys: usize,
    /// Lists and mappings among the values, each of which takes room of its own; likewise with aliases
    pub collections: usize,
}

/// A collection that is not closed yet.
struct Open {
    is_map: bool,
    anchor: usize,
    children: usize,
    /// All values and all collections before it
    before: (usize, usize),
}

/// Counts, in memory that does not grow with the text. Of a text that is no YAML: what comes before the error.
pub fn size_of(text: &str) -> Size {
    let mut size = Size::default();
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, (usize, usize)> = HashMap::new();
    let options = granit_parser::options! { emit_comments: false, max_buffered_comment_events: usize::MAX };
    for event in Parser::new_from_str_with_options(text, options) {
        let Ok((event, _)) = event else { break };
        let ((values, collections), anchor, opens) = match event {
            Event::Scalar(_, _, anchor, _) => ((1, 0), anchor, None),
            Event::Alias(anchor) => (anchors.get(&anchor).copied().unwrap_or((1, 0)), 0, None),
            Event::SequenceStart(_, anchor, _) => ((1, 1), anchor, Some(false)),
            Event::MappingStart(_, anchor, _) => ((1, 1), anchor, Some(true)),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(closed) = open.pop() {
                    if closed.is_map {
                        size.keys = size.keys.max(closed.children.div_ceil(2));
                    }
                    if closed.anchor != 0 {
                        let (values, collections) = closed.before;
                        let own = (size.values.saturating_sub(values), size.collections.saturating_sub(collections));
                        anchors.insert(closed.anchor, own);
                    }
                }
                continue;
            }
            // a second document is refused
            Event::DocumentEnd => break,
            _ => continue,
        };
        if let Some(parent) = open.last_mut() {
            parent.children += 1;
        }
        let before = (size.values, size.collections);
        size.values = size.values.saturating_add(values);
        size.collections = size.collections.saturating_add(collections);
        match opens {
            Some(is_map) => open.push(Open { is_map, anchor, children: 0, before }),
            None if anchor != 0 => drop(anchors.insert(anchor, (1, 0))),
            None => {}
        }
    }
    size.keys = open.iter().filter(|open| open.is_map).map(|open| open.children / 2).fold(size.keys, usize::max);
    size
}

/// No less than [`size_of`] would count, found at a glance; `None` where aliases may multiply what is written.
pub fn size_at_most(text: &str) -> Option<Size> {
    if let Some(size) = size_of_json(text) {
        return Some(size);
    }
    let bytes = text.as_bytes();
    let is_blank = |at: usize| bytes.get(at).is_none_or(u8::is_ascii_whitespace);
    let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let is_open =
        |at: usize| bytes[at + 1..].iter().copied().find(|byte| !matches!(byte, b' ' | b'\t')).is_none_or(is_no_word);
    let (mut marks, mut anchor, mut alias) = (0, false, false);
    // a dash begins a list and perhaps a mapping; a key begins something if nothing stands behind it, and in brackets anything may
    let (mut dashes, mut open_keys, mut brackets) = (0, 0, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // as in http://127.0.0.1:80
            b':' if at > 0 && is_letter(at - 1) && (is_letter(at + 1) || bytes.get(at + 1) == Some(&b'/')) => {}
            b':' => {
                marks += 1;
                // `: b: c` is a mapping below a key that is not written
                let has_key = at > 0 && !bytes[at - 1].is_ascii_whitespace();
                open_keys += usize::from(!has_key || is_open(at));
            }
            b',' => marks += 1,
            b'[' | b'{' => {
                marks += 1;
                brackets = true;
            }
            b'-' | b'?' if is_blank(at + 1) => {
                marks += 1;
                dashes += 1;
            }
            b'&' => anchor = true,
            b'*' => alias = true,
            _ => {}
        }
    }
    // a mark begins or ends no more than one key and one value
    let collections = if brackets { 2 * marks + 1 } else { 2 * dashes + open_keys + 1 };
    (!(anchor && alias)).then_some(Size { values: 2 * marks + 1, keys: marks, collections })
}

/// Whether a byte behind a key begins no word: the value is on the lines below, or has an anchor or a tag before it.
fn is_no_word(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | b'#' | b'&' | b'!' | b'-' | b'?' | b':')
}

/// No less than [`size_of`] would count of a text that is written as JSON; `None` of any other.
fn size_of_json(text: &str) -> Option<Size> {
    let bytes = text.trim_ascii().as_bytes();
    let mut size = Size { values: 1, keys: 1, collections: 1 };
    // for each open bracket, the keys of a mapping or nothing for a list
    let mut open: Vec<Option<usize>> = Vec::new();
    let (mut at, mut before) = (0, b',');
    while let Some(&byte) = bytes.get(at) {
        at += 1;
        // one value, and nothing before or behind it
        let is_first = at == 1;
        if open.is_empty() && !(is_first && matches!(byte, b'{' | b'[')) {
            return None;
        }
        match byte {
            b'{' | b'[' => {
                open.push((byte == b'{').then_some(0));
                size.collections += 1;
                size.count_entry(&mut open);
            }
            b',' => size.count_entry(&mut open),
            b'}' | b']' => drop(open.pop()),
            // in YAML `a:"b` is one word: only a quoted key may be followed by its value at once
            b':' if before != b'"' && !bytes.get(at).is_some_and(u8::is_ascii_whitespace) => return None,
            // a pair inside a list is a mapping of its own
            b':' if open.last() == Some(&None) => {
                size.values += 2;
                size.collections += 1;
            }
            b':' => {}
            b'"' if matches!(before, b'{' | b'[' | b',' | b':') => at += length_of_string(&bytes[at..])?,
            _ if byte.is_ascii_whitespace() => continue,
            _ if byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.') => {}
            _ => return None,
        }
        before = byte;
    }
    open.is_empty().then_some(size)
}

impl Size {
    /// One more key with its value, or one more item of a list.
    fn count_entry(&mut self, open: &mut [Option<usize>]) {
        match open.last_mut() {
            Some(Some(keys)) => {
                *keys += 1;
                self.values += 2;
                self.keys = self.keys.max(*keys);
            }
            _ => self.values += 1,
        }
    }
}

/// How far the closing quote of a string reaches, which begins behind the opening one.
fn length_of_string(bytes: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match bytes.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_and_value_counts_and_an_alias_counts_as_what_it_stands_for() {
        for (text, values, keys) in [
            ("", 0, 0),
            ("a", 1, 0),
            ("a: 1\nb: [1, 2]\n", 7, 2),
            ("- a: {b: c, d}\n- - x\n", 10, 2),
            ("a: &x [1, 2]\nb: *x\nc: [*x, *x]\n", 17, 3),
            ("a: &x 1\nb: *x\n", 5, 2),
            ("a: 1\n...\nb: 2\n", 3, 1),
            (r#"{"a": {"b,c": [1, "x\"y", {}]}, "d": null}"#, 10, 2),
            ("[a: b, c]", 5, 1),
            ("{a, b}", 5, 2),
            ("{a:\"1,2,3\"}", 7, 3),
            ("[a:\"1,2,3\"]", 4, 0),
            ("{\"a\":\"1,2,3\"}", 3, 1),
            ("[[], {}]\n", 3, 0),
            ("{\"a\": 1}\n---\nb: 2\n", 3, 1),
            (": b: x\n", 5, 1),
        ] {
            let size = size_of(text);
            assert_eq!((size.values, size.keys), (values, keys), "{text}");
            let bound = size_at_most(text);
            assert!(bound.is_none_or(|bound| bound.values >= values && bound.keys >= keys), "{text}: {bound:?}");
            assert!(bound.is_none_or(|bound| bound.collections >= size.collections), "{text}: {size:?} {bound:?}");
        }
        for (text, collections) in [("a", 0), ("- a: {b: c, d}\n- - x\n", 4), ("a: &x [1, [2]]\nb: [*x, *x]\n", 8)] {
            assert_eq!(size_of(text).collections, collections, "{text}");
        }
        assert_eq!(size_at_most("a: &x 1\nb: *x\n"), None);
        for not_json in [
            "a: 1",
            "{'a': 1}",
            "{a\"b\": 1}",
            "{\"a\": 1} # x",
            "{\"a\": *x}",
            "{\"a\": \"x",
            "{}{}",
            "{} {}",
            "{",
            "{a:\"1,2\"}",
            "[a:\"1,2\"]",
            "[:\"1,2\"]",
            "{a :\"1,2\"}",
            "{\"k\": :\"1,2\"}",
        ] {
            assert_eq!(size_of_json(not_json), None, "{not_json}");
        }
    }
}
