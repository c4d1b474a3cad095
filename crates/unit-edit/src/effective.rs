//! A unit and its drop-ins together.

use super::argument::{escape_marks, quote};
use super::error::{Error, ErrorKind};
use super::unit::{ExecStart, Unit};

/// What a unit runs, with all its files.
#[derive(Clone, Debug)]
pub struct Effective<'a> {
    files: Vec<&'a Unit<'a>>,
    commands: Vec<ExecStart<'a>>,
    /// For each file, the line of its first `ExecStart=`
    speaks: Vec<Option<usize>>,
}

/// Reads the fragment and then the drop-ins, in systemd's order (`DropInPaths`). Like systemd, it uses of a drop-in that
/// cannot be read to its end what is before that place.
pub fn effective<'a>(fragment: &'a Unit<'a>, drop_ins: &'a [Unit<'a>]) -> Result<Effective<'a>, Error> {
    fragment.check()?;
    let files: Vec<&Unit<'_>> = std::iter::once(fragment).chain(drop_ins).collect();
    let mut commands = Vec::new();
    let speaks = files.iter().map(|file| file.collect(&mut commands)).collect();
    let is_oneshot = files.iter().flat_map(|file| file.settings()).fold(false, |is_oneshot, (section, key, value)| {
        let is_type = section == "Service" && key == "Type" && TYPES.contains(&value);
        if is_type { value == b"oneshot" } else { is_oneshot }
    });
    if let [first, second, ..] = commands.as_slice()
        && !is_oneshot
    {
        let (file, line) = (first.file(), first.line());
        let message = format!(
            "a second ExecStart= beside {file}:{line}: systemd does not load this unit; put an empty ExecStart= before it to replace the first"
        );
        return Err(second.unit.refuse_at(ErrorKind::SeveralCommands, second.line(), message));
    }
    Ok(Effective { files, commands, speaks })
}

/// Types of services; systemd ignores any other word.
const TYPES: [&[u8]; 8] = [b"simple", b"forking", b"oneshot", b"dbus", b"notify", b"idle", b"exec", b"notify-reload"];

impl<'a> Effective<'a> {
    /// The commands that take effect, in order.
    pub fn commands(&self) -> &[ExecStart<'a>] {
        &self.commands
    }

    /// The last command that takes effect: with its file, its line and its words.
    pub fn exec_start(&self) -> Option<&ExecStart<'a>> {
        self.commands.last()
    }

    /// The first file behind `file` with an `ExecStart=` of its own, and its line: there an edit of `file` would be lost.
    pub fn overridden_by(&self, file: &str) -> Option<(&'a str, usize)> {
        let own = self.files.iter().rposition(|unit| unit.name() == file)?;
        let later = self.files.iter().zip(&self.speaks).skip(own + 1);
        later.into_iter().find_map(|(unit, line)| Some((unit.name(), (*line)?)))
    }

    /// A drop-in that sets these very commands, whatever the files before it say: to try a command line before it is
    /// written into the unit.
    pub fn to_drop_in(&self) -> Result<Vec<u8>, Error> {
        self.to_drop_in_with(0, &[])
    }

    /// The same with further arguments for the last command, as the program gets them: behind so many words of its command line,
    /// since a program may not read what follows a word that it does not expect.
    pub fn to_drop_in_with(&self, behind: usize, more: &[&str]) -> Result<Vec<u8>, Error> {
        let mut text = b"[Service]\nExecStart=\n".to_vec();
        let mut wanted = Vec::new();
        for (number, command) in self.commands.iter().enumerate() {
            let own = command.words().len() - command.arguments().len();
            let is_last = number + 1 == self.commands.len();
            let more: Vec<Vec<u8>> = more
                .iter()
                .filter(|_| is_last)
                .map(|word| escape_marks(word, command.prefixes().keeps_variables).into_bytes())
                .collect();
            let mut words: Vec<&[u8]> = command.words().iter().map(|word| word.text.as_slice()).collect();
            let at = (own + behind.saturating_sub(1)).min(words.len());
            words.splice(at..at, more.iter().map(Vec::as_slice));
            let mut argv = command.argv();
            let at = behind.max(1).min(argv.len());
            argv.splice(at..at, more.iter().cloned());
            wanted.push((command.prefixes(), argv));
            if command.prefixes().uses_shell {
                let message = "a shell runs this command (prefix |), which older versions of systemd do not know; remove the prefix";
                return Err(command.unit.refuse_line(ErrorKind::Shape, command.line(), message));
            }
            text.extend(b"ExecStart=");
            for (index, word) in words.into_iter().enumerate() {
                let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/-_.%@:+!".contains(byte);
                match index {
                    0 if word.iter().all(is_plain) => text.extend(word),
                    0 => text.extend(quote(word)),
                    _ => text.extend([b" \\\n    ", quote(word).as_slice()].concat()),
                }
            }
            text.push(b'\n');
        }
        let copy = Unit::parse("drop-in", &text);
        let words = |commands: &[ExecStart<'_>]| {
            commands.iter().map(|command| (command.prefixes(), command.argv())).collect::<Vec<_>>()
        };
        match self.commands.last() {
            Some(last) if copy.check().is_err() || words(&copy.exec_starts()) != wanted => {
                let message = "cannot write this command line in another way; write it with fewer escapes";
                Err(last.unit.refuse_line(ErrorKind::Unproven, last.line(), message))
            }
            _ => Ok(text),
        }
    }

    /// Drop-ins that systemd does not read to their end.
    pub fn unreadable(&self) -> impl Iterator<Item = Error> {
        self.files.iter().filter_map(|unit| unit.check().err())
    }
}
