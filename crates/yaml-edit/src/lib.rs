//! Changes a YAML text at named places, leaves every other byte as it is, and proves the result with a second reader.
//!
//! ```
//! use yaml_edit::{Draft, Op, Tree, Value, path};
//!
//! let text = "spec: # ours\n  containers:\n  - name: web   # two spaces, kept\n    args: [\"-v\"]\n";
//! let tree = Tree::read(text)?;
//! let args = path!["spec", "containers", 0, "args"];
//! let draft = Draft::new(&tree, vec![Op::Push { list: args, items: vec![Value::text("--port=80")] }])?;
//! assert_eq!(
//!     draft.prove()?,
//!     "spec: # ours\n  containers:\n  - name: web   # two spaces, kept\n    args: [\"-v\", \"--port=80\"]\n",
//! );
//! # Ok::<(), yaml_edit::Error>(())
//! ```
//!
//! - [`Tree::read`] gives the document as nodes that know their byte ranges.
//! - An edit is a list of [`Op`]s: what changes, not how it is written.
//! - [`Draft::new`] writes them as splices: indented as their neighbours are, in the same style of lists and line breaks.
//! - [`Draft::prove`] is the only way to the new text. Another parser reads both texts, and the difference must be exactly the
//!   operations.
//! - What could be read in two ways is an [`Error`] with its line, never a guess: duplicate keys, tabs, several documents, anchors
//!   on what must be changed, odd line breaks.

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod draft;
mod error;
mod format;
mod guard;
mod layout;
mod op;
mod places;
mod reader;
mod second_reader;
mod size;
mod splice;
mod tree;
mod values;

pub use draft::Draft;
pub use error::{Error, ErrorKind};
pub use format::scalar as write_scalar;
/// How a scalar is written.
pub use granit_parser::ScalarStyle;
pub use guard::{check_text, explain_unreadable, has_template_mark};
pub use op::{Leaves, Op, Value};
pub use places::{Lines, Survey, lines_of_places, survey};
pub use size::{Size, size_at_most, size_of};
pub use splice::Splice;
pub use tree::{Entry, Kind, Node, Path, Segment, Tree};

/// The way to a node: keys and indices.
///
/// ```
/// use yaml_edit::{Segment, path};
/// assert_eq!(path!["items", 2], vec![Segment::Key("items".to_owned()), Segment::Index(2)]);
/// ```
#[macro_export]
macro_rules! path {
    ($($step:expr),* $(,)?) => { vec![$($crate::Segment::from($step)),*] };
}
