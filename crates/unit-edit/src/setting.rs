//! A file as systemd reads it: physical lines, continued lines, sections and settings.

use super::command::Commands;
use super::line::{LONGEST, Line};
use super::utf8;
use super::word::{Text, trim};

const BYTE_ORDER_MARK: &[u8] = b"\xEF\xBB\xBF";
const COMMANDS: [&str; 7] =
    ["ExecCondition", "ExecStartPre", "ExecStart", "ExecStartPost", "ExecReload", "ExecStop", "ExecStopPost"];

/// One `Key=value`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Setting {
    pub section: String,
    pub key: String,
    pub value: Vec<u8>,
    /// The index of the first physical line
    pub first_line: usize,
    /// The value as commands, for `Exec…=` in `[Service]`
    pub commands: Option<Commands>,
}

/// Why systemd does not load a file, or stops reading a drop-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fatal {
    pub line: usize,
    pub reason: String,
}

/// All settings up to the end or to what systemd cannot load.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Reading {
    pub settings: Vec<Setting>,
    pub fatal: Option<Fatal>,
}

/// A line and the lines that it was continued on.
#[derive(Default)]
struct Logical {
    text: Text,
    first_line: usize,
    last_line: usize,
}

impl Reading {
    pub fn new(file: &[u8], lines: &[Line]) -> Self {
        let mut reading = Self::default();
        let mut section = String::new();
        let mut open: Option<Logical> = None;
        let mut has_mark = false;
        for (index, line) in lines.iter().enumerate() {
            if line.text.len() >= LONGEST {
                return reading.ended(index, "systemd reads no line of a megabyte");
            }
            if line.is_comment(file) {
                continue;
            }
            let mut start = line.text.start;
            if !has_mark && file[line.text.clone()].starts_with(BYTE_ORDER_MARK) {
                start += BYTE_ORDER_MARK.len();
                has_mark = true;
            }
            let mut logical = open.take().unwrap_or_else(|| Logical { first_line: index, ..Logical::default() });
            if logical.text.bytes.len() + (line.text.end - start) > LONGEST && logical.first_line != index {
                return reading.ended(index, "systemd reads no more than a megabyte of continued lines");
            }
            let mut is_escaped = false;
            for (at, byte) in (start..).zip(&file[start..line.text.end]) {
                is_escaped = !is_escaped && *byte == b'\\';
                logical.text.push(*byte, at);
            }
            logical.last_line = index;
            if is_escaped {
                if let Some(last) = logical.text.bytes.last_mut() {
                    *last = b' ';
                }
                open = Some(logical);
            } else if let Err(reason) = reading.take(&logical, &mut section) {
                return reading.ended(index, &reason);
            }
        }
        if let Some(logical) = open
            && let Err(reason) = reading.take(&logical, &mut section)
        {
            return reading.ended(logical.last_line, &reason);
        }
        reading
    }

    fn ended(mut self, index: usize, reason: &str) -> Self {
        self.fatal = Some(Fatal { line: index + 1, reason: reason.to_owned() });
        self
    }

    fn take(&mut self, logical: &Logical, section: &mut String) -> Result<(), String> {
        let text = logical.text.slice(logical.text.trimmed());
        let bytes = &text.bytes;
        if bytes.is_empty() {
            return Ok(());
        }
        if !utf8::is_valid(bytes) {
            return Err("systemd reads only valid UTF-8".to_owned());
        }
        if bytes[0] == b'[' {
            *section = read_header(bytes).ok_or("systemd does not accept this section header")?;
            return Ok(());
        }
        let Some(equals) = bytes.iter().position(|byte| *byte == b'=').filter(|at| *at > 0) else {
            return Ok(());
        };
        let key = String::from_utf8_lossy(&bytes[trim(bytes, 0..equals)]).into_owned();
        let value = text.slice(trim(bytes, equals + 1..bytes.len()));
        let is_command = section == "Service" && COMMANDS.contains(&key.as_str());
        let commands = is_command.then(|| Commands::read(&value));
        let fatal = commands.as_ref().and_then(|commands| commands.fatal);
        self.settings.push(Setting {
            section: section.clone(),
            value: value.bytes,
            first_line: logical.first_line,
            commands,
            key,
        });
        fatal.map_or(Ok(()), |reason| {
            Err(format!(
                "systemd does not load a unit with {reason} in its {}",
                self.settings[self.settings.len() - 1].key
            ))
        })
    }
}

/// The name in a section header, if systemd accepts it.
fn read_header(bytes: &[u8]) -> Option<String> {
    let name = bytes.strip_prefix(b"[")?.strip_suffix(b"]")?;
    let is_odd = |byte: &u8| *byte < b' ' || matches!(byte, b'"' | b'\'' | b'\\' | 0x7F);
    if name.iter().any(is_odd) { None } else { Some(String::from_utf8_lossy(name).into_owned()) }
}
