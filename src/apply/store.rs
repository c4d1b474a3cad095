//! Our own directory on the host: the journal, the texts it names, and the revisions.

use std::collections::BTreeMap;
use std::io;

use super::dir::Dir;
use super::door::Door;
use super::error::{ApplyError, while_trying_to};
use super::lock::{Lock, made_dir};
use super::replace::{self, Look};
use crate::journal::{Journal, REVISIONS_DIR, STATE_FILE, TEXTS_DIR, is_unfinished};
use crate::revision::Digest;

/// Who may read the target may read this too: its texts may hold what its mode hides, and the journal is about it.
const PRIVATE: u32 = 0o600;

/// Our directory, open for writing.
pub(super) struct Store<'a> {
    door: &'a dyn Door,
    state: &'a Dir,
    texts: Dir,
    revisions: Dir,
}

impl<'a> Store<'a> {
    /// Opens it under the lock, and makes what is missing.
    pub fn open(door: &'a dyn Door, lock: &'a Lock) -> Result<Self, ApplyError> {
        let state = &lock.state;
        let mut made = false;
        let mut part = |name: &str| match state.dir(name) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                made = true;
                made_dir(door, state, name)
            }
            dir => while_trying_to("open", state.path_of(name), dir),
        };
        let (texts, revisions) = (part(TEXTS_DIR)?, part(REVISIONS_DIR)?);
        if made {
            while_trying_to("sync", state.path(), door.sync_dir(state))?;
        }
        Ok(Self { door, state, texts, revisions })
    }

    /// Writes the journal.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), ApplyError> {
        let text =
            while_trying_to("write", self.state.path_of(STATE_FILE), journal.to_json().map_err(io::Error::from))?;
        replace::stage(self.door, self.state, STATE_FILE, &text, &Look::plain(PRIVATE))?.put()
    }

    /// Waits until the journal is on the disk.
    pub fn sync_journal(&self) -> Result<(), ApplyError> {
        while_trying_to("sync", self.state.path(), self.door.sync_dir(self.state))
    }

    /// Keeps texts of the target, so that the journal can name them.
    pub fn keep_texts<'t>(&self, texts: impl IntoIterator<Item = &'t [u8]>) -> Result<(), ApplyError> {
        let mut written = false;
        for text in texts {
            let name = Digest::of_bytes(text).to_string();
            replace::stage(self.door, &self.texts, &name, text, &Look::plain(PRIVATE))?.put()?;
            written = true;
        }
        if written {
            while_trying_to("sync", self.texts.path(), self.door.sync_dir(&self.texts))?;
        }
        Ok(())
    }

    /// Writes files of a revision. Nothing refers to them yet, or they are not what they should be.
    pub fn write_revision(&self, revision: &str, files: &BTreeMap<&str, (&[u8], u32)>) -> Result<(), ApplyError> {
        let dir = match self.revisions.dir(revision) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let dir = made_dir(self.door, &self.revisions, revision)?;
                while_trying_to("sync", self.revisions.path(), self.door.sync_dir(&self.revisions))?;
                dir
            }
            dir => while_trying_to("open", self.revisions.path_of(revision), dir)?,
        };
        for (name, (content, mode)) in files {
            replace::stage(self.door, &dir, name, content, &Look::plain(*mode))?.put()?;
        }
        while_trying_to("sync", dir.path(), self.door.sync_dir(&dir))
    }

    /// Removes texts by name.
    pub fn remove_texts<'t>(&self, names: impl IntoIterator<Item = &'t str>) -> Result<(), ApplyError> {
        names.into_iter().try_for_each(|name| self.remove(&self.texts, name))
    }

    /// Removes a revision with all its files.
    pub fn remove_revision(&self, name: &str) -> Result<(), ApplyError> {
        let dir = while_trying_to("open", self.revisions.path_of(name), self.revisions.dir(name))?;
        for file in while_trying_to("read", dir.path(), dir.names())? {
            self.remove(&dir, &file)?;
        }
        while_trying_to("remove", dir.path(), self.door.remove_dir(&self.revisions, name))
    }

    /// Removes what killed runs left here.
    pub fn sweep(&self) -> Result<(), ApplyError> {
        self.sweep_dir(self.state)?;
        self.sweep_dir(&self.texts)?;
        for revision in while_trying_to("read", self.revisions.path(), self.revisions.names())? {
            if let Ok(dir) = self.revisions.dir(&revision) {
                self.sweep_dir(&dir)?;
            }
        }
        Ok(())
    }

    fn sweep_dir(&self, dir: &Dir) -> Result<(), ApplyError> {
        let names = while_trying_to("read", dir.path(), dir.names())?;
        names.iter().filter(|name| is_unfinished(name)).try_for_each(|name| self.remove(dir, name))
    }

    fn remove(&self, dir: &Dir, name: &str) -> Result<(), ApplyError> {
        while_trying_to("remove", dir.path_of(name), self.door.remove_file(dir, name))
    }
}
