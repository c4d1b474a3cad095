//! Why a unit is not edited.

/// What is wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// systemd does not load this file either
    Unloadable,
    /// The file has no `ExecStart=` that takes effect
    NoCommand,
    /// More commands take effect than the unit may have, or `;` follows the last one
    SeveralCommands,
    /// The command line ends in a backslash with blanks behind it: it is an argument, the line goes on nowhere
    Backslash,
    /// The command line goes on over a line that looks like a setting, a section or a comment: its author meant otherwise
    Swallowed,
    /// A character ends a line for some versions of systemd and not for others
    LineBreak,
    /// The command line is written in a form that cannot be changed safely
    Shape,
    /// An argument, note or owner cannot be written into a unit
    Argument,
    /// The comment that remembers an edit cannot be read, or there are two
    Record,
    /// Two readers do not agree about the text
    ReadersDisagree,
    /// The edit was made, but reading it back did not give exactly what was meant
    Unproven,
}

/// Why a unit cannot be read or edited: what, where, and in words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{file}{}: {message}", .line.map_or(String::new(), |line| format!(":{line}")))]
pub struct Error {
    /// What is wrong
    pub kind: ErrorKind,
    /// The file, as the caller named it
    pub file: String,
    /// Where, counted from 1
    pub line: Option<usize>,
    /// In words, with the way out
    pub message: String,
}

/// The way out that every unit has.
pub(crate) const WAY_OUT: &str = "or leave this file as it is and set the command line in a drop-in";
