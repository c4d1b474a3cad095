//! One writer at a time: agent and command line never write together. Without a [`Lock`] there is no writing.

use std::fs::TryLockError;
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;
use std::thread;
use std::time::Duration;

use super::error::{ApplyError, while_trying_to};
use super::guard;
use super::host_fs::{HostFs, NewFile};
use super::replace::write_all;
use crate::host::{Dir, Root};
use crate::journal::LOCK_FILE;
use crate::timestamp::Timestamp;

/// The holder's line has a fixed length, so that writing it needs no truncation before.
const LINE_LENGTH: usize = 159;

const PAUSE: Duration = Duration::from_millis(50);

pub(super) const OUR_DIR_MODE: u32 = 0o755;

/// Our directory on the host, locked for as long as this lives.
#[derive(Debug)]
pub struct Lock {
    pub(super) state: Dir,
    /// Whether our directory was not there before
    pub(super) made: bool,
    _file: NewFile,
}

/// Who wants the lock, and how long it may take.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Our directory on the host
    pub state_dir: &'a str,
    /// What is being done, for others who wait
    pub command: &'a str,
    /// Since when
    pub now: Timestamp,
    /// How long to wait
    pub timeout: Duration,
}

impl Lock {
    /// Waits for the lock. Calls `waiting` once with the holder.
    pub fn take(
        fs: &dyn HostFs,
        root: &Root,
        claim: &Claim<'_>,
        waiting: &mut dyn FnMut(&str),
    ) -> Result<Self, ApplyError> {
        let mut waited = Duration::ZERO;
        loop {
            let (state, made) = our_dir(fs, root, claim.state_dir)?;
            guard::refuse_if_others_may_write(&state)?;
            let path = state.path_of(LOCK_FILE);
            let holder = match fs.open_lock(&state, LOCK_FILE) {
                // our directory was removed with all else of ours just now: make it anew
                Err(error) if error.kind() == io::ErrorKind::NotFound => None,
                file => {
                    let file = while_trying_to("open", &path, file)?;
                    match file.file().try_lock() {
                        Ok(()) if while_trying_to("open", &path, is_still_there(&state, &file))? => {
                            let line = format!("{:LINE_LENGTH$.LINE_LENGTH$}\n", who(claim));
                            while_trying_to("write", path, write_all(fs, &file, line.as_bytes()))?;
                            return Ok(Self { state, made, _file: file });
                        }
                        // its file was removed while we waited for it
                        Ok(()) => None,
                        Err(TryLockError::WouldBlock) => Some(holder(file.file())),
                        Err(TryLockError::Error(error)) => return while_trying_to("lock", path, Err(error)),
                    }
                }
            };
            let holder = holder.as_deref().unwrap_or("it is removing everything");
            if waited >= claim.timeout {
                return Err(ApplyError::Locked { path, holder: holder.to_owned() });
            }
            if waited.is_zero() {
                waiting(holder);
            }
            thread::sleep(PAUSE);
            waited += PAUSE;
        }
    }
}

/// Opens our directory, which is made where it is missing, with all above it; and says whether it was.
fn our_dir(fs: &dyn HostFs, root: &Root, path: &str) -> Result<(Dir, bool), ApplyError> {
    match root.dir(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        dir => return Ok((while_trying_to("open", path, dir)?, false)),
    }
    let (above, name) = above(path);
    let above = if above == "/" { while_trying_to("open", "/", root.dir("/"))? } else { our_dir(fs, root, above)?.0 };
    match made_dir(fs, &above, name) {
        // another one came first: the lock is in there, so nothing guards its making
        Err(ApplyError::Io { error, .. }) if error.kind() == io::ErrorKind::AlreadyExists => {
            Ok((while_trying_to("open", path, root.dir(path))?, false))
        }
        dir => {
            while_trying_to("sync", above.path(), fs.sync_dir(&above))?;
            Ok((dir?, true))
        }
    }
}

/// A path as the directory above and the name in it.
pub(super) fn above(path: &str) -> (&str, &str) {
    match path.rsplit_once('/') {
        Some((above, name)) if !above.is_empty() => (above, name),
        Some((_, name)) => ("/", name),
        None => ("/", path),
    }
}

/// Makes a directory that everybody may read, whatever the umask says: a scheduler may run as another user.
pub(super) fn made_dir(fs: &dyn HostFs, above: &Dir, name: &str) -> Result<Dir, ApplyError> {
    let path = above.path_of(name);
    while_trying_to("make the directory", &path, fs.make_dir(above, name))?;
    let dir = while_trying_to("open", &path, above.dir(name))?;
    let mode = while_trying_to("look at", &path, dir.stat())?.st_mode;
    if mode & OUR_DIR_MODE != OUR_DIR_MODE {
        while_trying_to("set the mode of", &path, fs.set_dir_mode(&dir, OUR_DIR_MODE))?;
    }
    Ok(dir)
}

fn is_still_there(state: &Dir, file: &NewFile) -> io::Result<bool> {
    let inode = |file: &std::fs::File| file.metadata().map(|metadata| (metadata.dev(), metadata.ino()));
    match state.open(LOCK_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
        there => Ok(inode(&there?)? == inode(file.file())?),
    }
}

fn who(claim: &Claim<'_>) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let (command, id, now) = (claim.command, std::process::id(), claim.now);
    format!("schedpatch {command}, process {id} on {}, since {now}", host.trim())
}

fn holder(mut file: &std::fs::File) -> String {
    let mut line = String::new();
    let read = file.by_ref().take(LINE_LENGTH as u64).read_to_string(&mut line);
    let line = line.trim();
    if read.is_err() || line.is_empty() { "it does not say who it is".to_owned() } else { line.to_owned() }
}
