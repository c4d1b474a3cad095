//! Removes every trace of ours but the right to have been there.

use std::io;

use super::Writer;
use super::error::{ApplyError, while_trying_to};
use super::host_fs::HostFs;
use super::lock::above;
use super::target::Target;
use crate::finding::Finding;
use crate::host::{Dir, is_unfinished};
use crate::journal::{
    DAMAGED_FILE, LOCK_FILE, OVERWRITTEN_FILE, REVISIONS_DIR, STATE_FILE, TEXTS_DIR, is_revision, is_text,
};
use crate::observe::Snapshot;

/// A manifest may have a revision of ours in use: then its files must stay.
pub fn refuse_if_used(snapshot: &Snapshot, but_for: Option<&str>) -> Result<(), Finding> {
    let used = snapshot.state.revisions.iter().flat_map(|revision| snapshot.facts.mentioning(revision));
    match used.into_iter().find(|file| Some(file.path.as_str()) != but_for) {
        Some(file) => {
            let way_out = format!("remove our edit from it first: schedpatch restore --target {}", file.path);
            let message = "this manifest uses a revision that would be removed, or cannot be read";
            Err(Finding::error("still-used", message, way_out).in_file(&file.path))
        }
        None => Ok(()),
    }
}

/// Removes our directory. What is not ours in it stays, and then so does the directory: that is the answer `false`.
///
/// The target must carry nothing of ours any more, and that must be on the disk.
pub fn purge(writer: &Writer<'_>, target: Option<&str>) -> Result<bool, ApplyError> {
    let Writer { fs, root, lock, .. } = *writer;
    if let Some(path) = target {
        Target::open(root, path)?.sync_dir(fs)?;
    }
    let state = &lock.state;
    if let Some(revisions) = part(state, REVISIONS_DIR)? {
        for revision in list(&revisions)?.iter().filter(|name| is_revision(name)) {
            empty(fs, &revisions, revision, |_| true)?;
        }
    }
    empty(fs, state, REVISIONS_DIR, is_unfinished)?;
    empty(fs, state, TEXTS_DIR, |name| is_text(name) || is_unfinished(name))?;
    for name in list(state)? {
        if [STATE_FILE, OVERWRITTEN_FILE].contains(&name.as_str())
            || name.starts_with(DAMAGED_FILE)
            || is_unfinished(&name)
        {
            remove_file(fs, state, &name)?;
        }
    }
    // the lock goes last: a process that waits for it sees that it is gone, and begins anew
    remove_file(fs, state, LOCK_FILE)?;
    let (above, name) = above(state.path());
    remove_dir(fs, &while_trying_to("open", above, root.dir(above))?, name)
}

/// Removes what is ours in a directory, and the directory if nothing is left.
fn empty(fs: &dyn HostFs, above: &Dir, name: &str, is_ours: impl Fn(&str) -> bool) -> Result<bool, ApplyError> {
    let Some(dir) = part(above, name)? else { return Ok(true) };
    for file in list(&dir)?.iter().filter(|name| is_ours(name)) {
        remove_file(fs, &dir, file)?;
    }
    remove_dir(fs, above, name)
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

fn remove_file(fs: &dyn HostFs, dir: &Dir, name: &str) -> Result<(), ApplyError> {
    match fs.remove_file(dir, name) {
        // a directory of somebody else: it stays
        Err(error) if error.kind() == io::ErrorKind::IsADirectory => Ok(()),
        removed => while_trying_to("remove", dir.path_of(name), removed),
    }
}

/// It holds what is not ours, or is a link, or a mount as in a pod.
const STAYS: [io::ErrorKind; 4] = [
    io::ErrorKind::DirectoryNotEmpty,
    io::ErrorKind::NotADirectory,
    io::ErrorKind::ResourceBusy,
    io::ErrorKind::ReadOnlyFilesystem,
];

fn remove_dir(fs: &dyn HostFs, above: &Dir, name: &str) -> Result<bool, ApplyError> {
    match fs.remove_dir(above, name) {
        Ok(()) => Ok(true),
        Err(error) if STAYS.contains(&error.kind()) => Ok(false),
        Err(error) => while_trying_to("remove", above.path_of(name), Err(error)),
    }
}
