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
}

/// A collection that is not closed yet.
struct Open {
    is_map: bool,
    anchor: usize,
    children: usize,
    /// All values before it
    before: usize,
}

/// Counts, in memory that does not grow with the text. Of a text that is no YAML: what comes before the error.
pub fn size_of(text: &str) -> Size {
    let mut size = Size::default();
    let mut open: Vec<Open> = Vec::new();
    let mut anchors: HashMap<usize, usize> = HashMap::new();
    let options = granit_parser::options! { emit_comments: false, max_buffered_comment_events: usize::MAX };
    for event in Parser::new_from_str_with_options(text, options) {
        let Ok((event, _)) = event else { break };
        let (values, anchor, opens) = match event {
            Event::Scalar(_, _, anchor, _) => (1, anchor, None),
            Event::Alias(anchor) => (anchors.get(&anchor).copied().unwrap_or(1), 0, None),
            Event::SequenceStart(_, anchor, _) => (1, anchor, Some(false)),
            Event::MappingStart(_, anchor, _) => (1, anchor, Some(true)),
            Event::SequenceEnd | Event::MappingEnd => {
                if let Some(closed) = open.pop() {
                    if closed.is_map {
                        size.keys = size.keys.max(closed.children.div_ceil(2));
                    }
                    if closed.anchor != 0 {
                        anchors.insert(closed.anchor, size.values.saturating_sub(closed.before));
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
        let before = size.values;
        size.values = size.values.saturating_add(values);
        match opens {
            Some(is_map) => open.push(Open { is_map, anchor, children: 0, before }),
            None if anchor != 0 => drop(anchors.insert(anchor, 1)),
            None => {}
        }
    }
    size.keys = open.iter().filter(|open| open.is_map).map(|open| open.children / 2).fold(size.keys, usize::max);
    size
}

/// No less than [`size_of`] would count, found at a glance; `None` where aliases may multiply what is written.
pub fn size_at_most(text: &str) -> Option<Size> {
    let bytes = text.as_bytes();
    let is_blank = |at: usize| bytes.get(at).is_none_or(u8::is_ascii_whitespace);
    let is_letter = |at: usize| bytes.get(at).is_some_and(u8::is_ascii_alphanumeric);
    let (mut marks, mut anchor, mut alias) = (0, false, false);
    for (at, byte) in bytes.iter().enumerate() {
        match byte {
            // as in http://127.0.0.1:80
            b':' if at > 0 && is_letter(at - 1) && (is_letter(at + 1) || bytes.get(at + 1) == Some(&b'/')) => {}
            b',' | b'[' | b'{' | b':' => marks += 1,
            b'-' | b'?' if is_blank(at + 1) => marks += 1,
            b'&' => anchor = true,
            b'*' => alias = true,
            _ => {}
        }
    }
    // a mark begins or ends no more than one key and one value
    (!(anchor && alias)).then_some(Size { values: 2 * marks + 1, keys: marks })
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
        ] {
            let size = size_of(text);
            assert_eq!((size.values, size.keys), (values, keys), "{text}");
            let bound = size_at_most(text);
            assert!(bound.is_none_or(|bound| bound.values >= values && bound.keys >= keys), "{text}: {bound:?}");
        }
        assert_eq!(size_at_most("a: &x 1\nb: *x\n"), None);
    }
}
