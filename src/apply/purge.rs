//! Removes every trace of ours but the right to have been there.

use std::io;

use super::Writer;
use super::dir::Dir;
use super::door::Door;
use super::error::{ApplyError, while_trying_to};
use super::lock::LOCK_FILE;
use crate::journal::{REVISIONS_DIR, STATE_FILE, TEXTS_DIR, is_unfinished};

/// Removes our directory. What is not ours in it stays, and then so does the directory: that is the answer `false`.
///
/// The target must carry nothing of ours any more.
pub fn purge(writer: &Writer<'_>) -> Result<bool, ApplyError> {
    let Writer { door, root, lock, .. } = *writer;
    let state = &lock.state;
    if let Some(revisions) = part(state, REVISIONS_DIR)? {
        for revision in list(&revisions)? {
            empty(door, &revisions, &revision)?;
        }
        remove_dir(door, state, REVISIONS_DIR)?;
    }
    empty(door, state, TEXTS_DIR)?;
    for name in list(state)? {
        // the lock goes last: whoever waits for it then sees that it is gone, and begins anew
        if name == STATE_FILE || is_unfinished(&name) {
            remove_file(door, state, &name)?;
        }
    }
    remove_file(door, state, LOCK_FILE)?;
    let (above, name) = state.path().rsplit_once('/').unwrap_or_default();
    let above = if above.is_empty() { "/" } else { above };
    remove_dir(door, &while_trying_to("open", above, root.dir(above))?, name)
}

/// Removes a directory with the files in it.
fn empty(door: &dyn Door, above: &Dir, name: &str) -> Result<bool, ApplyError> {
    let Some(dir) = part(above, name)? else { return Ok(true) };
    for file in list(&dir)? {
        remove_file(door, &dir, &file)?;
    }
    remove_dir(door, above, name)
}

fn part(above: &Dir, name: &str) -> Result<Option<Dir>, ApplyError> {
    match above.dir(name) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => Ok(None),
        dir => while_trying_to("open", above.path_of(name), dir).map(Some),
    }
}

fn list(dir: &Dir) -> Result<Vec<String>, ApplyError> {
    while_trying_to("read", dir.path(), dir.names())
}

fn remove_file(door: &dyn Door, dir: &Dir, name: &str) -> Result<(), ApplyError> {
    match door.remove_file(dir, name) {
        // a directory of somebody else: it stays
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(()),
        removed => while_trying_to("remove", dir.path_of(name), removed),
    }
}

fn remove_dir(door: &dyn Door, above: &Dir, name: &str) -> Result<bool, ApplyError> {
    match door.remove_dir(above, name) {
        Ok(()) => Ok(true),
        Err(error) if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::NotADirectory) => {
            Ok(false)
        }
        Err(error) => while_trying_to("remove", above.path_of(name), Err(error)),
    }
}
