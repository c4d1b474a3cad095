//! Words of a command line: quotes and escapes, as systemd reads them.

use std::ops::Range;

use super::line::is_blank;
use super::utf8;

/// A value whose bytes know where in the file they are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Text {
    pub bytes: Vec<u8>,
    pub at: Vec<usize>,
}

impl Text {
    pub fn push(&mut self, byte: u8, at: usize) {
        self.bytes.push(byte);
        self.at.push(at);
    }

    /// Without blanks at both ends.
    pub fn trimmed(&self) -> Range<usize> {
        trim(&self.bytes, 0..self.bytes.len())
    }

    pub fn slice(&self, range: Range<usize>) -> Self {
        Self { bytes: self.bytes[range.clone()].to_vec(), at: self.at[range].to_vec() }
    }
}

/// `range` of `bytes` without blanks at both ends.
pub(crate) fn trim(bytes: &[u8], range: Range<usize>) -> Range<usize> {
    let Range { mut start, mut end } = range;
    while start < end && is_blank(bytes[start]) {
        start += 1;
    }
    while start < end && is_blank(bytes[end - 1]) {
        end -= 1;
    }
    start..end
}

/// One word of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    pub(crate) text: Vec<u8>,
    pub(crate) span: Range<usize>,
    /// A `;` between two commands
    pub(crate) is_separator: bool,
    /// Ends in a backslash with nothing behind it
    pub(crate) is_dangling: bool,
    /// Belongs to a command that replaces no variables
    pub(crate) keeps_dollars: bool,
}

impl Word {
    /// Without quotes and escapes; specifiers and variables are as in the file.
    pub fn text(&self) -> &[u8] {
        &self.text
    }

    /// As systemd shows it (`systemctl show -p ExecStart`): `%%` is `%`. Nothing if only the host can say.
    pub fn loaded(&self) -> Option<Vec<u8>> {
        let (known, is_whole) = expand(&self.text, false);
        is_whole.then_some(known)
    }

    /// As the program gets it: `%%` is `%` and `$$` is `$`. Nothing if only the host can say.
    pub fn literal(&self) -> Option<Vec<u8>> {
        let (known, is_whole) = expand(&self.text, !self.keeps_dollars);
        is_whole.then_some(known)
    }

    /// The beginning of [`Word::literal`], up to the first specifier or variable.
    pub(crate) fn known_beginning(&self) -> Vec<u8> {
        expand(&self.text, !self.keeps_dollars).0
    }
}

/// What is known of a word without the host, and whether that is all of it.
pub(crate) fn expand(text: &[u8], with_variables: bool) -> (Vec<u8>, bool) {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    let mut is_first = true;
    while let Some((&byte, tail)) = rest.split_first() {
        let next = tail.first().copied();
        rest = tail;
        match (byte, next) {
            (b'%', Some(b'%')) => rest = &tail[1..],
            (b'$', Some(b'$')) if with_variables => rest = &tail[1..],
            (b'%', Some(letter)) if letter.is_ascii_alphanumeric() => return (out, false),
            (b'$', Some(b'{')) if with_variables => return (out, false),
            (b'$', _) if with_variables && is_first => return (out, false),
            _ => {}
        }
        out.push(byte);
        is_first = false;
    }
    (out, true)
}

/// Why a value has no further word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum NoWord {
    End,
    Unbalanced,
}

/// Reads words one by one. Like systemd, it reads a word with an invalid escape once more, and then keeps such escapes as
/// they are.
pub(crate) struct Words<'a> {
    text: &'a Text,
    next: usize,
}

impl<'a> Words<'a> {
    pub fn new(text: &'a Text) -> Self {
        Self { text, next: 0 }
    }

    /// What has not been read, without blanks before it.
    pub fn rest(&mut self) -> &'a [u8] {
        let bytes = &self.text.bytes;
        while bytes.get(self.next).is_some_and(|byte| is_blank(*byte)) {
            self.next += 1;
        }
        &bytes[self.next..]
    }

    /// Takes `length` bytes as they are.
    pub fn take(&mut self, length: usize, text: &[u8], is_separator: bool) -> Word {
        let span = self.span(self.next..self.next + length);
        self.next += length;
        Word { text: text.to_vec(), span, is_separator, is_dangling: false, keeps_dollars: false }
    }

    pub fn next(&mut self) -> Result<Word, NoWord> {
        if self.rest().is_empty() {
            return Err(NoWord::End);
        }
        self.read(false).or_else(|()| self.read(true)).map_err(|()| NoWord::Unbalanced)
    }

    fn span(&self, range: Range<usize>) -> Range<usize> {
        self.text.at[range.start]..self.text.at[range.end - 1] + 1
    }

    fn read(&mut self, is_relaxed: bool) -> Result<Word, ()> {
        let bytes = &self.text.bytes;
        let mut text = Vec::new();
        let mut quote = None;
        let mut is_dangling = false;
        let mut i = self.next;
        while let Some(&byte) = bytes.get(i) {
            i += 1;
            match byte {
                b'\\' => match (unescape(&bytes[i..], &mut text), bytes.get(i)) {
                    (Some(length), _) => i += length,
                    (None, Some(&other)) if is_relaxed => {
                        text.extend([b'\\', other]);
                        i += 1;
                    }
                    (None, None) if is_relaxed && quote.is_none() => {
                        text.push(b'\\');
                        is_dangling = true;
                    }
                    _ => return Err(()),
                },
                b'\'' | b'"' if quote.is_none() => quote = Some(byte),
                _ if quote == Some(byte) => quote = None,
                _ if quote.is_none() && is_blank(byte) => {
                    i -= 1;
                    break;
                }
                _ => text.push(byte),
            }
        }
        if quote.is_some() {
            return Err(());
        }
        let span = self.span(self.next..i);
        self.next = i;
        Ok(Word { text, span, is_separator: false, is_dangling, keeps_dollars: false })
    }
}

/// Appends what the escape at the beginning of `rest` (behind its backslash) means; its length, or nothing if it is none.
fn unescape(rest: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    let simple = match rest.first()? {
        b'a' => 7,
        b'b' => 8,
        b'f' => 12,
        b'n' => b'\n',
        b'r' => b'\r',
        b't' => b'\t',
        b'v' => 11,
        b's' => b' ',
        same @ (b'\\' | b'"' | b'\'') => *same,
        b'x' => return number(rest.get(1..3)?, 16).and_then(|code| put_byte(code, out)).map(|()| 3),
        b'u' => return number(rest.get(1..5)?, 16).map(|code| utf8::encode(code, out)).map(|()| 5),
        b'U' => return number(rest.get(1..9)?, 16).and_then(|code| put_character(code, out)).map(|()| 9),
        b'0'..=b'7' => return number(rest.get(..3)?, 8).and_then(|code| put_byte(code, out)).map(|()| 3),
        _ => return None,
    };
    out.push(simple);
    Some(1)
}

fn put_byte(code: u32, out: &mut Vec<u8>) -> Option<()> {
    out.push(u8::try_from(code).ok()?);
    Some(())
}

fn put_character(code: u32, out: &mut Vec<u8>) -> Option<()> {
    char::from_u32(code).filter(|character| utf8::is_allowed(*character))?;
    utf8::encode(code, out);
    Some(())
}

/// The number that `digits` write; NUL is never written.
fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let mut code = 0_u32;
    for digit in digits {
        code = code.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?)?;
    }
    (code > 0).then_some(code)
}
