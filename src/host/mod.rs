//! The host's files: paths, one way to resolve them, reading them, watching them, and directories as handles.
//!
//! The host's root may be mounted anywhere (`--host-root`). A path on the host is a [`HostPath`] or a `str`; a `std::path::Path`
//! is always a path of our own file tree. Nothing here changes a file: that is `apply`'s part.

mod dir;
pub mod dir_watcher;
mod path;
mod resolve;
mod root;
pub mod systemd;
mod unfinished;

pub use dir::{Dir, Root, Walk};
pub use path::HostPath;
pub use root::HostRoot;
pub(crate) use root::{MAX_BYTES, read_small, read_small_file};
pub(crate) use unfinished::{finished, is_unfinished, unfinished, unfinished_own};
