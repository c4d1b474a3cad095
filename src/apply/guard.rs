//! Directories to which schedpatch does not write.

use std::io;

use nix::fcntl::AtFlags;
use nix::unistd::{self, AccessFlags};

use super::error::{ApplyError, while_trying_to};
use crate::finding::Finding;
use crate::host::Dir;

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// Refuses a directory to which others may write: no file in it can be trusted.
pub(super) fn refuse_if_others_may_write(dir: &Dir) -> Result<(), ApplyError> {
    let mode = while_trying_to("look at", dir.path(), dir.stat())?.st_mode & 0o7777;
    if mode & WRITABLE_BY_OTHERS == 0 {
        return Ok(());
    }
    let message = format!("others than its owner may write to the directory (mode {mode:04o})");
    let way_out = format!("chmod go-w {}", dir.path());
    Err(ApplyError::Refused(Finding::error("writable-by-others", message, way_out).in_file(dir.path())))
}

/// Refuses a directory to which we may not write, before anything is begun.
pub(super) fn refuse_if_unwritable(dir: &Dir) -> Result<(), ApplyError> {
    let rights = AccessFlags::W_OK | AccessFlags::X_OK;
    let writable = unistd::faccessat(dir, ".", rights, AtFlags::AT_EACCESS);
    while_trying_to("write to", dir.path(), writable.map_err(io::Error::from))
}
