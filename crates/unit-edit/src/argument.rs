//! Arguments to add, and how they are written.

use super::unit::ExecStart;
use super::utf8;
use super::word::Word;

/// An argument that the command line must have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Argument {
    text: String,
    names: Vec<String>,
}

impl Argument {
    /// An argument as the program gets it.
    pub fn new(text: impl Into<String>) -> Self {
        Self { text: text.into(), names: Vec::new() }
    }

    /// An argument that begins with `name` is the same one with another value: it is replaced, not doubled.
    /// `--flag=key=` also stands for the two words `--flag` and `key=…`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Self {
        self.names.push(name.into());
        self
    }

    /// The argument as the program gets it.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// Why this argument cannot be written.
    pub(crate) fn check(&self) -> Result<(), &'static str> {
        if self.text.contains('\0') {
            return Err("an argument holds a NUL");
        }
        if self.names.iter().any(String::is_empty) {
            return Err("an argument has an empty name");
        }
        Ok(())
    }

    /// What comes behind the first `=`, for arguments in two words.
    pub(crate) fn value(&self) -> Option<&str> {
        self.text.split_once('=').map(|(_, value)| value)
    }

    /// Whether `text` is this argument with any value.
    pub(crate) fn is_like(&self, text: &str) -> bool {
        self.text == text || self.names.iter().any(|name| text.starts_with(name.as_str()))
    }

    /// Whether `word` is an option that takes its value from the next word, and would take this argument for it.
    pub(crate) fn is_value_of(&self, word: &Word) -> bool {
        let Some(flag) = word.literal() else { return false };
        let mut spellings = self.names.iter().chain([&self.text]);
        spellings.any(|name| name.split_once('=').is_some_and(|(own, _)| own.as_bytes() == flag))
    }

    /// The last place that holds this argument with any value: only the last one counts for a program.
    pub(crate) fn find<'a>(&self, command: &ExecStart<'a>) -> Option<Found<'a>> {
        let words = command.arguments();
        let own = command.words().len() - words.len();
        (0..words.len()).rev().find_map(|i| {
            let in_two = i > 0 && self.is_in_two(&words[i - 1], &words[i]);
            let in_one = self.is_in_one(&words[i]);
            (in_one || in_two).then(|| {
                let ours = if in_two { self.value() } else { Some(self.text.as_str()) };
                let is_exact = ours.is_some_and(|ours| words[i].literal().as_deref() == Some(ours.as_bytes()));
                let index = command.command.words.start + own + i;
                Found { index, word: &words[i], ours: ours.unwrap_or_default().to_owned(), is_exact }
            })
        })
    }

    fn is_in_one(&self, word: &Word) -> bool {
        let known = word.known_beginning();
        word.literal().as_deref() == Some(self.text.as_bytes())
            || self.names.iter().any(|name| known.starts_with(name.as_bytes()))
    }

    fn is_in_two(&self, flag: &Word, value: &Word) -> bool {
        let Some(flag) = flag.literal() else { return false };
        let has_flag = |name: &str| {
            name.split_once('=').filter(|(own, _)| own.as_bytes() == flag).map(|(_, rest)| rest.to_owned())
        };
        let known = value.known_beginning();
        has_flag(&self.text).is_some_and(|rest| value.literal().as_deref() == Some(rest.as_bytes()))
            || self.names.iter().filter_map(|name| has_flag(name)).any(|rest| known.starts_with(rest.as_bytes()))
    }
}

/// A word that holds an argument, or its value if the argument is in two words.
#[derive(Clone, Debug)]
pub(crate) struct Found<'a> {
    /// Index among the words of the setting
    pub index: usize,
    pub word: &'a Word,
    /// What the word must be
    pub ours: String,
    /// Whether it is that already
    pub is_exact: bool,
}

/// The text that a unit needs so that the program gets `text`: without specifiers and variables.
pub(crate) fn escape_marks(text: &str, keeps_dollars: bool) -> String {
    let text = text.replace('%', "%%");
    if keeps_dollars { text } else { text.replace('$', "$$") }
}

/// A word in single quotes that reads as `text`.
pub(crate) fn quote(text: &[u8]) -> Vec<u8> {
    let mut out = vec![b'\''];
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            let mut bytes = [0; 4];
            let bytes = character.encode_utf8(&mut bytes).as_bytes();
            match character {
                '\\' | '\'' => out.extend([b'\\', bytes[0]]),
                '\n' => out.extend(b"\\n"),
                '\t' => out.extend(b"\\t"),
                _ if character.is_control() || !utf8::is_allowed(character) => escape(bytes, &mut out),
                _ => out.extend(bytes),
            }
        }
        escape(chunk.invalid(), &mut out);
    }
    out.push(b'\'');
    out
}

fn escape(bytes: &[u8], out: &mut Vec<u8>) {
    for byte in bytes {
        out.extend(format!("\\x{byte:02x}").bytes());
    }
}
