//! Physical lines, as systemd ends them.

use std::ops::Range;

/// A line of this many bytes, without its end, is too long for systemd; so are continued lines with more bytes together.
pub(crate) const LONGEST: usize = 1024 * 1024;

/// What systemd calls white space; form feeds and the like are ordinary characters.
pub(crate) const fn is_blank(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\n' | b'\r')
}

/// One physical line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Line {
    /// The bytes before the end of the line
    pub text: Range<usize>,
    /// Where the next line begins
    pub next: usize,
}

impl Line {
    /// The bytes that end this line: none at the end of a file.
    pub fn end<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        &file[self.text.end..self.next]
    }

    pub fn is_comment(&self, file: &[u8]) -> bool {
        let text = &file[self.text.clone()];
        matches!(text.iter().find(|byte| !is_blank(**byte)), Some(b'#' | b';'))
    }

    /// The blanks that the line begins with.
    pub fn indent<'a>(&self, file: &'a [u8]) -> &'a [u8] {
        let text = &file[self.text.clone()];
        let blanks = text.iter().take_while(|byte| is_blank(**byte)).count();
        &text[..blanks]
    }
}

/// The lines of a file. `\n`, `\r` and NUL each end a line; so do combinations of them in which none appears twice and
/// nothing follows a NUL.
pub(crate) fn split(file: &[u8]) -> Vec<Line> {
    let mut lines = Vec::new();
    let mut start = 0;
    while start < file.len() {
        let end = file[start..].iter().position(|byte| ends_line(*byte)).map_or(file.len(), |length| start + length);
        let mut next = end;
        while let Some(byte) = file.get(next)
            && ends_line(*byte)
            && !file[end..next].contains(byte)
            && !file[end..next].contains(&0)
        {
            next += 1;
        }
        lines.push(Line { text: start..end, next });
        start = next;
    }
    lines
}

const fn ends_line(byte: u8) -> bool {
    matches!(byte, b'\n' | b'\r' | 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(file: &str) -> Vec<&str> {
        split(file.as_bytes()).into_iter().map(|line| &file[line.text]).collect()
    }

    #[test]
    fn a_line_ends_at_every_mark_that_systemd_knows() {
        for (file, expected) in [
            ("", vec![]),
            ("a", vec!["a"]),
            ("a\n", vec!["a"]),
            ("a\nb", vec!["a", "b"]),
            ("a\r\nb\r\n", vec!["a", "b"]),
            ("a\rb", vec!["a", "b"]),
            ("a\n\rb", vec!["a", "b"]),
            ("a\n\nb", vec!["a", "", "b"]),
            ("a\r\n\r\nb", vec!["a", "", "b"]),
            ("a\n\r\nb", vec!["a", "", "b"]),
            ("a\0b", vec!["a", "b"]),
            ("a\r\n\0b", vec!["a", "b"]),
            ("a\0\nb", vec!["a", "", "b"]),
            ("\n", vec![""]),
        ] {
            assert_eq!(texts(file), expected, "{file:?}");
        }
    }
}
