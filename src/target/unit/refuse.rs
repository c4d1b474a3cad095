//! What the unit editor refuses, in the words of a refusal.

use unit_edit::{Error, ErrorKind};

use crate::target::refusal::{Refusal, Rule};

impl From<Error> for Refusal {
    fn from(error: Error) -> Self {
        let rule = match error.kind {
            ErrorKind::Unloadable => Rule::UnitNotLoaded,
            ErrorKind::NoCommand => Rule::NoServer,
            ErrorKind::Record => Rule::UndoRecord,
            ErrorKind::ReadersDisagree => Rule::ReadersDisagree,
            ErrorKind::SeveralCommands
            | ErrorKind::Backslash
            | ErrorKind::Swallowed
            | ErrorKind::LineBreak
            | ErrorKind::Shape => Rule::UnitShape,
            // whatever else may come is no edit that was proven
            _ => Rule::Unproven,
        };
        Self { rule, line: error.line, message: error.message }
    }
}
