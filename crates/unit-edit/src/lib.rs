//! Adds arguments to the command line of a systemd unit, leaves every other byte as it is, and proves the result with a
//! second reader.
//!
//! ```
//! use unit_edit::{Argument, Edit, Unit};
//!
//! let file = b"[Service]\nExecStart=/usr/bin/server \\\n\t'--port=80' \\\n\n";
//! let arguments = [Argument::new("--config=/etc/mine.yaml").named("--config=")];
//! let edit = Edit { owner: "example", note: "1", arguments: &arguments };
//! let edited = Unit::parse("server.service", file).edit(&edit)?;
//! assert_eq!(
//!     String::from_utf8_lossy(&edited),
//!     "[Service]\n# example-undo: v1 note=1 add=--config=/etc/mine.yaml sum=ac56d52b\n\
//!      ExecStart=/usr/bin/server \\\n\t'--port=80' \\\n\t'--config=/etc/mine.yaml' \\\n\n",
//! );
//! assert_eq!(Unit::parse("server.service", &edited).restore("example")?, file);
//! # Ok::<(), unit_edit::Error>(())
//! ```
//!
//! - [`Unit::parse`] reads a file by systemd's own rules: continued lines, comments between them, quotes, escapes, prefixes,
//!   resets, `;`, byte order marks, all of its line ends.
//! - [`Unit::exec_start`] is the last command that takes effect in this file; [`effective`] adds drop-ins.
//! - [`Unit::edit`] appends arguments, takes over those of the same name, and writes a comment that remembers both.
//! - [`Unit::restore`] takes the edit out, also after others have changed the file.
//! - What could be read in two ways is an [`Error`] with file, line and the way out, never a guess.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod argument;
mod command;
mod edit;
mod effective;
mod error;
mod line;
mod proof;
mod record;
mod restore;
mod second_reader;
mod setting;
mod splice;
mod unit;
mod utf8;
mod word;

pub use argument::Argument;
pub use command::Prefixes;
pub use edit::Edit;
pub use effective::{Effective, effective};
pub use error::{Error, ErrorKind};
pub use record::{Change, Record};
pub use unit::{ExecStart, Unit};
pub use word::Word;
