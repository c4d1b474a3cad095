//! One file: a unit or a drop-in.

use super::command::{Command, Commands, Prefixes};
use super::error::{Error, ErrorKind, WAY_OUT};
use super::line::{self, Line};
use super::setting::{Reading, Setting};
use super::word::Word;

/// A unit file or drop-in, read as systemd reads it.
#[derive(Clone, Debug)]
pub struct Unit<'a> {
    pub(crate) name: &'a str,
    pub(crate) file: &'a [u8],
    pub(crate) lines: Vec<Line>,
    pub(crate) reading: Reading,
}

impl<'a> Unit<'a> {
    /// Reads a file. `name` is for messages. Every text can be read; [`Unit::check`] says whether systemd loads it.
    pub fn parse(name: &'a str, file: &'a [u8]) -> Self {
        let lines = line::split(file);
        let reading = Reading::new(file, &lines);
        Self { name, file, lines, reading }
    }

    /// The name that the caller gave to this file.
    pub fn name(&self) -> &'a str {
        self.name
    }

    /// The text of the file.
    pub fn text(&self) -> &'a [u8] {
        self.file
    }

    /// Whether systemd reads this file to its end. It does not load a unit that it cannot read; of a drop-in it uses
    /// what is before the place.
    pub fn check(&self) -> Result<(), Error> {
        match &self.reading.fatal {
            None => Ok(()),
            Some(fatal) => {
                Err(self.refuse_at(ErrorKind::Unloadable, fatal.line, format!("{}; correct this line", fatal.reason)))
            }
        }
    }

    /// All settings in order: section, key, value.
    pub fn settings(&self) -> impl Iterator<Item = (&str, &str, &[u8])> {
        let settings = self.reading.settings.iter();
        settings.map(|setting| (setting.section.as_str(), setting.key.as_str(), setting.value.as_slice()))
    }

    /// The commands of this file that take effect, by `ExecStart=` and its resets.
    pub fn exec_starts(&self) -> Vec<ExecStart<'_>> {
        let mut found = Vec::new();
        self.collect(&mut found);
        found
    }

    /// The last of [`Unit::exec_starts`].
    pub fn exec_start(&self) -> Option<ExecStart<'_>> {
        self.exec_starts().pop()
    }

    /// Adds the commands of this file to those of the files before it; whether it says anything about them.
    pub(crate) fn collect<'b>(&'b self, found: &mut Vec<ExecStart<'b>>) -> Option<usize> {
        let mut line = None;
        for (index, setting, commands) in self.command_lines() {
            line = line.or(Some(setting.first_line + 1));
            if setting.value.is_empty() {
                found.clear();
            }
            let views = commands.list.iter().map(|command| ExecStart { unit: self, index, setting, commands, command });
            found.extend(views);
        }
        line
    }

    /// Every `ExecStart=` of the service, in effect or not.
    pub(crate) fn command_lines(&self) -> impl DoubleEndedIterator<Item = (usize, &Setting, &Commands)> {
        let settings = self.reading.settings.iter().enumerate();
        settings.filter_map(|(index, setting)| {
            let commands = setting.commands.as_ref().filter(|_| setting.key == "ExecStart")?;
            Some((index, setting, commands))
        })
    }

    /// The index of the physical line that holds a byte.
    pub(crate) fn line_at(&self, at: usize) -> usize {
        self.lines.partition_point(|line| line.next <= at)
    }

    pub(crate) fn refuse(&self, kind: ErrorKind, message: impl Into<String>) -> Error {
        Error { kind, file: self.name.to_owned(), line: None, message: message.into() }
    }

    pub(crate) fn refuse_at(&self, kind: ErrorKind, line: usize, message: impl Into<String>) -> Error {
        Error { line: Some(line), ..self.refuse(kind, message) }
    }

    /// Like [`Unit::refuse_at`], where a drop-in is a way out too.
    pub(crate) fn refuse_line(&self, kind: ErrorKind, line: usize, message: &str) -> Error {
        self.refuse_at(kind, line, format!("{message}, {WAY_OUT}"))
    }
}

/// A command that takes effect, and where it is written.
#[derive(Clone, Copy, Debug)]
pub struct ExecStart<'a> {
    pub(crate) unit: &'a Unit<'a>,
    pub(crate) index: usize,
    pub(crate) setting: &'a Setting,
    pub(crate) commands: &'a Commands,
    pub(crate) command: &'a Command,
}

impl<'a> ExecStart<'a> {
    /// The file that holds the command.
    pub fn file(&self) -> &'a str {
        self.unit.name
    }

    /// The first line of the setting, counted from 1.
    pub fn line(&self) -> usize {
        self.setting.first_line + 1
    }

    /// What stands before the path.
    pub fn prefixes(&self) -> Prefixes {
        self.command.prefixes
    }

    /// The program, with specifiers as in the file.
    pub fn path(&self) -> &'a [u8] {
        self.words().first().map_or(&[], |word| word.text.get(self.command.path_at..).unwrap_or_default())
    }

    /// The arguments behind the program's own name.
    pub fn arguments(&self) -> &'a [Word] {
        let own = if self.command.prefixes.names_itself { 2 } else { 1 };
        self.words().get(own..).unwrap_or_default()
    }

    /// The command line without quotes and escapes: the program's name, then its arguments. Specifiers and variables are
    /// as in the file.
    pub fn argv(&self) -> Vec<Vec<u8>> {
        let name = if self.command.prefixes.names_itself {
            self.words().get(1).map_or_else(Vec::new, |word| word.text.clone())
        } else {
            self.path().to_vec()
        };
        std::iter::once(name).chain(self.arguments().iter().map(|word| word.text.clone())).collect()
    }

    pub(crate) fn words(&self) -> &'a [Word] {
        &self.commands.words[self.command.words.clone()]
    }

    /// The line of a word, counted from 1.
    pub(crate) fn line_of(&self, word: &Word) -> usize {
        self.unit.line_at(word.span.start) + 1
    }
}
