//! Putting arguments into a unit.

use super::argument::{Argument, escape_marks, quote};
use super::error::{Error, ErrorKind};
use super::proof::{self, Meaning};
use super::record::{Change, Record};
use super::splice::{self, Splice};
use super::unit::{ExecStart, Unit};

/// What the command line of a unit must have.
#[derive(Clone, Copy, Debug)]
pub struct Edit<'a> {
    /// Who edits: the name in the comment that remembers the edit; small letters, digits and dashes
    pub owner: &'a str,
    /// The owner's own words about this edit, kept in that comment
    pub note: &'a str,
    /// The arguments, in order
    pub arguments: &'a [Argument],
}

impl Edit<'_> {
    fn check(&self, unit: &Unit<'_>) -> Result<(), Error> {
        let refuse = |message: &str| Err(unit.refuse(ErrorKind::Argument, message));
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.owner.is_empty() || !self.owner.bytes().all(is_plain) {
            return refuse("the owner's name is not made of small letters, digits and dashes");
        }
        for (index, argument) in self.arguments.iter().enumerate() {
            if let Err(why) = argument.check() {
                return refuse(why);
            }
            let mut others = self.arguments.iter().enumerate().filter(|(other, _)| *other != index);
            if others.any(|(_, other)| other.is_like(argument.text())) {
                return refuse("one argument would replace another");
            }
        }
        Ok(())
    }
}

/// A written edit that is not proven yet.
struct Draft {
    text: Vec<u8>,
    changes: Vec<(usize, Meaning)>,
}

impl Unit<'_> {
    /// The text with the arguments at the end of the command line that takes effect, and a comment that remembers them.
    ///
    /// - An earlier edit of the same owner is replaced.
    /// - An argument that is there already, or one of the same name, is taken over: the new one takes its place,
    ///   and [`Unit::restore`] brings the old one back.
    /// - The text is given out only if a second reader sees in it exactly what was meant, and if restoring it gives
    ///   the original, byte for byte.
    pub fn edit(&self, edit: &Edit<'_>) -> Result<Vec<u8>, Error> {
        edit.check(self)?;
        if self.is_applied(edit)? {
            return Ok(self.file.to_vec());
        }
        let base = self.restore(edit.owner)?;
        let unit = Unit::parse(self.name, &base);
        let draft = write(&unit, edit)?;
        proof::prove(&unit, &draft.text, &draft.changes)?;
        let edited = Unit::parse(self.name, &draft.text);
        let is_undone = edited.restore(edit.owner).is_ok_and(|text| text == base);
        if edited.check().is_err() || !edited.is_applied(edit)? || !is_undone {
            let message = "the edit could not be restored exactly; set the command line in a drop-in";
            return Err(self.refuse(ErrorKind::Unproven, message));
        }
        Ok(draft.text)
    }

    /// Whether the command line that takes effect has these arguments, nothing behind them overrides one, and the comment
    /// remembers exactly them.
    pub fn is_applied(&self, edit: &Edit<'_>) -> Result<bool, Error> {
        let Some(record) = self.record(edit.owner)? else { return Ok(false) };
        let Some(command) = self.exec_start() else { return Ok(false) };
        if record.note != edit.note || record.changes.len() != edit.arguments.len() {
            return Ok(false);
        }
        let is_remembered = |ours: &str| {
            record.changes.iter().any(|change| match change {
                Change::Added(word) | Change::Set { word, .. } => word == ours,
            })
        };
        let is_there = |argument: &Argument| {
            argument.find(&command).is_some_and(|found| found.is_exact && is_remembered(&found.ours))
        };
        Ok(self.reading.fatal.is_none() && edit.arguments.iter().all(is_there))
    }
}

fn write(unit: &Unit<'_>, edit: &Edit<'_>) -> Result<Draft, Error> {
    let command = editable(unit)?;
    let words = &command.commands.words;
    let mut record = Record { note: edit.note.to_owned(), changes: Vec::new() };
    let mut splices = Vec::new();
    let mut changes = Vec::new();
    let mut added = Vec::new();
    let (indent, line_end) = style(&command);
    for argument in edit.arguments {
        if let Some(found) = argument.find(&command) {
            let span = found.word.span.clone();
            if unit.line_at(span.start) != unit.line_at(span.end - 1) {
                let message = "an argument that must be replaced goes over several lines; write it on one line";
                return Err(unit.refuse_line(ErrorKind::Shape, command.line_of(found.word), message));
            }
            let text = escape_marks(&found.ours, found.word.keeps_dollars);
            record.changes.push(Change::Set { word: found.ours, was: unit.file[span.clone()].to_vec() });
            splices.push(Splice { range: span, put: quote(text.as_bytes()) });
            changes.push((command.index, Meaning::Set(found.index, text.into_bytes())));
        } else {
            if let Some(last) = command.arguments().last().filter(|last| argument.is_value_of(last)) {
                let message =
                    "this option has no value and would take the new argument for it; give it one or remove it";
                return Err(unit.refuse_line(ErrorKind::Shape, command.line_of(last), message));
            }
            let text = escape_marks(argument.text(), command.prefixes().keeps_variables);
            record.changes.push(Change::Added(argument.text().to_owned()));
            added.extend([b" \\", line_end, indent, &quote(text.as_bytes())].concat());
            changes.push((command.index, Meaning::Append(text.into_bytes())));
        }
    }
    if let Some(last) = words.last() {
        splices.push(Splice::insert(last.span.end, added));
    }
    let first = &unit.lines[command.setting.first_line];
    let comment =
        [first.indent(unit.file), &record.write(edit.owner), end_near(unit, command.setting.first_line)].concat();
    splices.push(Splice::insert(first.text.start, comment));
    let text = splice::apply(unit.file, splices);
    let text = text.ok_or_else(|| unit.refuse(ErrorKind::Argument, "two arguments would replace the same word"))?;
    Ok(Draft { text, changes })
}

/// The command to edit, if that is safe.
fn editable<'a>(unit: &'a Unit<'a>) -> Result<ExecStart<'a>, Error> {
    unit.check()?;
    let odd_end = unit.lines.iter().position(|line| !matches!(line.end(unit.file), b"\n" | b"\r\n" | b""));
    if let Some(index) = odd_end {
        let message =
            "a character ends this line for some versions of systemd and not for others; end it with a line feed";
        return Err(unit.refuse_line(ErrorKind::LineBreak, index + 1, message));
    }
    let Some(command) = unit.exec_start() else {
        return Err(
            unit.refuse(ErrorKind::NoCommand, "no ExecStart= takes effect in this file; edit the file that sets it")
        );
    };
    let line = unit.line_at(command.words().last().map_or(0, |word| word.span.start)) + 1;
    if command.prefixes().uses_shell {
        let message = "a shell runs this command (prefix |); write the arguments into its text";
        return Err(unit.refuse_line(ErrorKind::Shape, line, message));
    }
    if command.command.words.end != command.commands.words.len() {
        let message = "a ; follows the last command; give each command an ExecStart= of its own";
        return Err(unit.refuse_line(ErrorKind::SeveralCommands, line, message));
    }
    if command.words().last().is_some_and(|word| word.is_dangling) {
        let message = "blanks follow the backslash at the end of this line: systemd takes the backslash for an argument and does not \
                       continue the line; remove the blanks";
        return Err(unit.refuse_line(ErrorKind::Backslash, line, message));
    }
    if command.words().last().is_some_and(|word| word.text == b"\\") {
        let message = "systemd takes the backslashes at the end of this line for an argument and does not continue the line; write a single one";
        return Err(unit.refuse_line(ErrorKind::Backslash, line, message));
    }
    swallowed(&command).map_or(Ok(command), Err)
}

/// A setting, section or comment that systemd takes for arguments. Programs stop reading options at such a word, so what
/// follows it would be lost.
fn swallowed(command: &ExecStart<'_>) -> Option<Error> {
    let unit = command.unit;
    for word in command.words() {
        let index = unit.line_at(word.span.start);
        let line = &unit.lines[index];
        let begins_line = line.text.start + line.indent(unit.file).len() == word.span.start;
        let text = unit.file[word.span.start..line.text.end].trim_ascii();
        let is_header =
            text.starts_with(b"[") && text.strip_suffix(b"\\").unwrap_or(text).trim_ascii_end().ends_with(b"]");
        if index > command.setting.first_line && begins_line && (is_header || is_setting(text)) {
            let message = "the backslash before this line makes it part of ExecStart=: systemd takes it for arguments; remove that backslash";
            return Some(unit.refuse_line(ErrorKind::Swallowed, index + 1, message));
        }
    }
    let comment = command.words().iter().find(|word| unit.file[word.span.clone()].iter().all(|byte| *byte == b'#'))?;
    let message = "a comment follows the command: systemd takes it for arguments; give it a line of its own";
    Some(unit.refuse_line(ErrorKind::Swallowed, command.line_of(comment), message))
}

/// Whether a line begins like `WantedBy=`.
fn is_setting(text: &[u8]) -> bool {
    let Some(equals) = text.iter().position(|byte| *byte == b'=') else { return false };
    let key = text[..equals].trim_ascii_end();
    key.first().is_some_and(u8::is_ascii_uppercase)
        && key.iter().any(u8::is_ascii_lowercase)
        && key.iter().all(u8::is_ascii_alphanumeric)
}

/// How arguments are written on lines of their own: indentation and end of the line with the last word.
fn style<'a>(command: &ExecStart<'a>) -> (&'a [u8], &'a [u8]) {
    const INDENT: &[u8] = b"    ";
    let unit = command.unit;
    let Some(last) = command.words().last() else { return (INDENT, b"\n") };
    let index = unit.line_at(last.span.start);
    let indent = if index == command.setting.first_line { INDENT } else { unit.lines[index].indent(unit.file) };
    (indent, end_near(unit, unit.line_at(last.span.end - 1)))
}

/// How this line ends, or the one before it at the end of the file.
fn end_near<'a>(unit: &Unit<'a>, index: usize) -> &'a [u8] {
    let mut ends = unit.lines[..=index].iter().rev().map(|line| line.end(unit.file));
    ends.find(|end| !end.is_empty()).unwrap_or(b"\n")
}
