//! The comment that remembers an edit: what was added, and what it displaced.
//!
//! ```text
//! # OWNER-undo: v1 note=NOTE add=ARGUMENT set=WORD was=SOURCE sum=CHECKSUM
//! ```
//!
//! `add` is a word that was added, `set` one that took the place of another, and `was` the displaced word as it was
//! written. Bytes other than letters, digits and `-_./:=,+@~` are `%XX`. The line never ends in a backslash, which old
//! versions of systemd would take for a continued line.

use super::error::{Error, ErrorKind};
use super::unit::Unit;

const VERSION: &str = "v1";

/// What an edit changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// A word that was added
    Added(String),
    /// A word that took the place of another
    Set {
        /// The new word
        word: String,
        /// The source of the word before
        was: Vec<u8>,
    },
}

/// What a comment in the unit remembers of an edit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// The caller's own words about the edit
    pub note: String,
    /// What was changed, in order
    pub changes: Vec<Change>,
}

impl Record {
    /// The comment, without indentation and line end.
    pub(crate) fn write(&self, owner: &str) -> Vec<u8> {
        let mut line = format!("# {owner}-undo: {VERSION} note={}", encode(self.note.as_bytes()));
        for change in &self.changes {
            match change {
                Change::Added(word) => line.extend([" add=", &encode(word.as_bytes())]),
                Change::Set { word, was } => line.extend([" set=", &encode(word.as_bytes()), " was=", &encode(was)]),
            }
        }
        let sum = checksum(line.as_bytes());
        format!("{line} sum={sum:08x}").into_bytes()
    }

    /// Reads a comment of `owner`: nothing if it is some other comment.
    fn read(line: &[u8], owner: &str) -> Option<Result<Self, &'static str>> {
        let line = line.trim_ascii();
        let rest =
            line.strip_prefix(b"#")?.trim_ascii_start().strip_prefix(owner.as_bytes())?.strip_prefix(b"-undo:")?;
        Some(Self::read_fields(line, rest))
    }

    fn read_fields(line: &[u8], rest: &[u8]) -> Result<Self, &'static str> {
        let text = std::str::from_utf8(line).map_err(|_| "it is not valid UTF-8")?;
        let fields = std::str::from_utf8(rest).map_err(|_| "it is not valid UTF-8")?;
        let fields = fields.trim().strip_prefix(VERSION).ok_or("another version wrote it")?;
        let (body, sum) = text.rsplit_once(" sum=").ok_or("its checksum is missing")?;
        if u32::from_str_radix(sum, 16) != Ok(checksum(body.as_bytes())) {
            return Err("it was changed");
        }
        let mut record = Self { note: String::new(), changes: Vec::new() };
        let mut set = None;
        for field in fields.split_ascii_whitespace() {
            let (key, value) = field.split_once('=').ok_or("it was changed")?;
            let bytes = decode(value).ok_or("it was changed")?;
            let text = || String::from_utf8(bytes.clone()).map_err(|_| "it was changed");
            match (key, set.take()) {
                ("note", None) => record.note = text()?,
                ("add", None) => record.changes.push(Change::Added(text()?)),
                ("set", None) => set = Some(text()?),
                ("was", Some(word)) => record.changes.push(Change::Set { word, was: bytes }),
                ("sum", None) => {}
                _ => return Err("it was changed"),
            }
        }
        Ok(record)
    }
}

impl Unit<'_> {
    /// What the comment of `owner` in this file remembers.
    pub fn record(&self, owner: &str) -> Result<Option<Record>, Error> {
        Ok(self.find_record(owner)?.map(|(record, _)| record))
    }

    /// The record and the index of its line.
    pub(crate) fn find_record(&self, owner: &str) -> Result<Option<(Record, usize)>, Error> {
        let mut found = None;
        for (index, line) in self.lines.iter().enumerate() {
            let Some(record) = Record::read(&self.file[line.text.clone()], owner) else { continue };
            let way_out = "remove what was added and this comment by hand";
            let refuse = |message: String| self.refuse_at(ErrorKind::Record, index + 1, message);
            let record = record
                .map_err(|why| refuse(format!("cannot read the comment that remembers an edit: {why}; {way_out}")))?;
            if found.is_some() {
                return Err(refuse(format!("a second comment remembers an edit; {way_out}")));
            }
            found = Some((record, index));
        }
        Ok(found)
    }
}

fn encode(bytes: &[u8]) -> String {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_./:=,+@~".contains(&byte);
    let write = |byte: &u8| if is_plain(*byte) { char::from(*byte).to_string() } else { format!("%{byte:02X}") };
    bytes.iter().map(write).collect()
}

fn decode(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((&byte, tail)) = rest.split_first() {
        if byte == b'%' {
            let digits = std::str::from_utf8(tail.get(..2)?).ok()?;
            out.push(u8::from_str_radix(digits, 16).ok()?);
            rest = &tail[2..];
        } else {
            out.push(byte);
            rest = tail;
        }
    }
    Some(out)
}

/// FNV-1a: notices a slip of the hand, not an attack.
fn checksum(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0x811C_9DC5, |sum, byte| (sum ^ u32::from(*byte)).wrapping_mul(0x0100_0193))
}
