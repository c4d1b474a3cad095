//! Commands of one `Exec…=` setting.

use std::ops::Range;

use super::word::{NoWord, Text, Word, Words, expand};

/// Specifiers that some version of systemd knows; with any other letter or digit it does not load the unit.
const SPECIFIERS: &[u8] = b"aAbBcCdDEfgGhHiIjJlLmMnNopPqrRsStTuUvVwWyY";
const LONGEST_PATH: usize = 4095;
const LONGEST_NAME: usize = 255;

/// What stands before the path of a command.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "each prefix is there or not, whatever the others are")]
pub struct Prefixes {
    /// `-`: failure does not count
    pub ignores_failure: bool,
    /// `@`: the second word is the name that the program is started with
    pub names_itself: bool,
    /// `:`: variables are not replaced
    pub keeps_variables: bool,
    /// `+`, `!` or `!!`: other privileges
    pub changes_privileges: bool,
    /// `|`: a shell runs the command; older versions of systemd do not know it
    pub uses_shell: bool,
}

/// One command: a range of the words of its setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Command {
    pub prefixes: Prefixes,
    /// Where the path begins in the first word, behind the prefixes
    pub path_at: usize,
    pub words: Range<usize>,
}

/// A setting as commands.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Commands {
    /// All words, with the `;` between commands
    pub words: Vec<Word>,
    pub list: Vec<Command>,
    /// Why systemd refuses the file because of this setting
    pub fatal: Option<&'static str>,
}

impl Commands {
    /// Reads a value that is not empty.
    pub fn read(value: &Text) -> Self {
        let mut found = Self::default();
        let mut words = Words::new(value);
        while found.read_one(&mut words) {}
        found
    }

    /// Reads one command; whether another may follow.
    fn read_one(&mut self, words: &mut Words<'_>) -> bool {
        let Ok(mut first) = words.next() else {
            // systemd ignores the setting, or what is left of it
            return false;
        };
        if first.text == b";" {
            first.is_separator = true;
            self.words.push(first);
            return true;
        }
        let (prefixes, path_at) = read_prefixes(&first.text);
        let start = self.words.len();
        let fatal = if prefixes.uses_shell { None } else { check_path(&first.text[path_at..]) };
        self.words.push(first);
        if let Some(reason) = fatal {
            return self.refuse(prefixes, reason);
        }
        let mut has_next = false;
        loop {
            let word = match words.rest() {
                [b';'] | [b';', b' ' | b'\t' | b'\n' | b'\r', ..] => {
                    has_next = true;
                    words.take(1, b";", true)
                }
                [b'\\', b';'] | [b'\\', b';', b' ' | b'\t' | b'\n' | b'\r', ..] => words.take(2, b";", false),
                _ => match words.next() {
                    Ok(word) if has_unknown_specifier(&word.text) => {
                        return self.refuse(prefixes, "an unknown specifier");
                    }
                    Ok(word) => Word { keeps_dollars: prefixes.keeps_variables, ..word },
                    Err(NoWord::End) => break,
                    Err(NoWord::Unbalanced) => return self.refuse(prefixes, "quotes that are not closed"),
                },
            };
            if has_next {
                return self.close(prefixes, path_at, start, Some(word));
            }
            self.words.push(word);
        }
        self.close(prefixes, path_at, start, None)
    }

    /// The end of a command; whether another may follow.
    fn close(&mut self, prefixes: Prefixes, path_at: usize, start: usize, separator: Option<Word>) -> bool {
        let end = self.words.len();
        if prefixes.names_itself && !prefixes.uses_shell && end - start < 2 {
            return self.refuse(prefixes, "no name for the program behind @");
        }
        self.list.push(Command { prefixes, path_at, words: start..end });
        let has_next = separator.is_some();
        self.words.extend(separator);
        has_next
    }

    /// The end of the setting: fatal unless the command may fail.
    fn refuse(&mut self, prefixes: Prefixes, reason: &'static str) -> bool {
        if !prefixes.ignores_failure {
            self.fatal = Some(reason);
        }
        false
    }
}

fn read_prefixes(word: &[u8]) -> (Prefixes, usize) {
    let mut prefixes = Prefixes::default();
    let (mut pluses, mut bangs) = (0, 0);
    for (i, byte) in word.iter().enumerate() {
        match byte {
            b'-' if !prefixes.ignores_failure => prefixes.ignores_failure = true,
            b'@' if !prefixes.names_itself => prefixes.names_itself = true,
            b':' if !prefixes.keeps_variables => prefixes.keeps_variables = true,
            b'|' if !prefixes.uses_shell => prefixes.uses_shell = true,
            b'+' if pluses == 0 && bangs == 0 => pluses = 1,
            b'!' if pluses == 0 && bangs < 2 => bangs += 1,
            _ => return (prefixes, i),
        }
        prefixes.changes_privileges = pluses + bangs > 0;
    }
    (prefixes, word.len())
}

/// Why systemd does not take this for a program. What a specifier stands for is not known here and passes.
fn check_path(path: &[u8]) -> Option<&'static str> {
    let is_odd = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\'' | b'\\' | 0x7F);
    if has_unknown_specifier(path) {
        return Some("an unknown specifier");
    }
    if path.is_empty() {
        return Some("no path of a program");
    }
    if path.iter().any(is_odd) {
        return Some("a path with special characters");
    }
    if path.ends_with(b"/") {
        return Some("a path that ends in a slash");
    }
    let (known, is_whole) = expand(path, false);
    let is_relative = if known.is_empty() { is_whole } else { !known.starts_with(b"/") };
    let has_long_name = known.split(|byte| *byte == b'/').any(|name| name.len() > LONGEST_NAME);
    let is_no_name = path.contains(&b'/') || is_whole && (known == b"." || known == b"..");
    if has_long_name || known.len() > LONGEST_PATH || is_relative && is_no_name {
        return Some("neither the name of a program nor an absolute path");
    }
    None
}

fn has_unknown_specifier(text: &[u8]) -> bool {
    let mut bytes = text.iter();
    while let Some(byte) = bytes.next() {
        if *byte == b'%'
            && let Some(letter) = bytes.next()
            && letter.is_ascii_alphanumeric()
            && !SPECIFIERS.contains(letter)
        {
            return true;
        }
    }
    false
}
