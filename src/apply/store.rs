//! Our own directory on the host: the journal, the texts it names, and the revisions.

use std::collections::BTreeMap;
use std::io;

use super::Writer;
use super::error::{ApplyError, while_trying_to};
use super::guard;
use super::host_fs::HostFs;
use super::lock::{OUR_DIR_MODE, above, made_dir};
use super::replace::{self, Staged};
use crate::host::{Dir, Root};
use crate::journal::{DAMAGED_FILE, Journal, OVERWRITTEN_FILE, REVISIONS_DIR, STATE_FILE, TEXTS_DIR};
use crate::plan::{Access, Step};
use crate::revision::Digest;

/// Who may read the target may read this too: its texts may hold what its mode hides, and the journal is about it.
const PRIVATE: Access = Access::of_mode(0o600);

/// So many files at most are open at once.
const MAX_STAGED: usize = 64;

/// The directory of a revision.
#[derive(Debug)]
pub(super) struct RevisionDir {
    dir: Dir,
    /// Whether it may not be on the disk
    is_new: bool,
}

/// Our directory, open for writing.
pub(super) struct Store<'a> {
    fs: &'a dyn HostFs,
    state: &'a Dir,
    texts: Dir,
    revisions: Dir,
}

impl<'a> Store<'a> {
    /// Opens it under the lock, and makes what is missing.
    ///
    /// Where it is unsure what an interrupted run has left on the disk and what only in memory, every directory is synced
    /// again before anything builds on it.
    pub fn open(writer: &Writer<'a>, unsure: bool) -> Result<Self, ApplyError> {
        let Writer { fs, root, lock, .. } = *writer;
        let state = &lock.state;
        if unsure && !lock.made {
            let (above, _) = above(state.path());
            let above = while_trying_to("open", above, root.dir(above))?;
            while_trying_to("sync", above.path(), fs.sync_dir(&above))?;
        }
        let mut made = false;
        let mut part = |name: &str| {
            let dir = match state.dir(name) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    made = true;
                    made_dir(fs, state, name)?
                }
                dir => while_trying_to("open", state.path_of(name), dir)?,
            };
            guard::refuse_if_others_may_write(&dir)?;
            Ok(dir)
        };
        let (texts, revisions) = (part(TEXTS_DIR)?, part(REVISIONS_DIR)?);
        let store = Self { fs, state, texts, revisions };
        if made || unsure {
            store.sync_journal()?;
        }
        Ok(store)
    }

    /// Writes the journal, under another name.
    pub fn stage_journal(&self, journal: &Journal) -> Result<Staged<'a>, ApplyError> {
        let text =
            while_trying_to("write", self.state.path_of(STATE_FILE), journal.to_json().map_err(io::Error::from))?;
        replace::stage_own(self.fs, self.state, (0, STATE_FILE), &text, PRIVATE)
    }

    /// Writes the journal.
    pub fn write_journal(&self, journal: &Journal) -> Result<(), ApplyError> {
        let staged = self.stage_journal(journal)?;
        staged.sync()?;
        staged.put()
    }

    /// Waits until the journal is on the disk.
    pub fn sync_journal(&self) -> Result<(), ApplyError> {
        while_trying_to("sync", self.state.path(), self.fs.sync_dir(self.state))
    }

    /// Keeps what somebody else wrote into the target in the instant of our commit, for a person; says where.
    pub fn keep_overwritten(&self, text: &[u8]) -> Result<String, ApplyError> {
        replace::put(self.fs, self.state, OVERWRITTEN_FILE, text, PRIVATE)?;
        Ok(self.state.path_of(OVERWRITTEN_FILE))
    }

    /// Moves a journal that cannot be read out of the way; somebody may want to look at it.
    pub fn set_aside(&self) -> Result<(), ApplyError> {
        let names = while_trying_to("read", self.state.path(), self.state.names())?;
        // one of so many names is free
        let mut candidates = (1..=names.len() + 1).map(|number| format!("{DAMAGED_FILE}-{number}"));
        let free = candidates.find(|name| !names.contains(name)).unwrap_or_default();
        let moved = self.fs.rename(self.state, STATE_FILE, &free);
        while_trying_to("move away", self.state.path_of(STATE_FILE), moved)
    }

    /// Keeps texts of the target that the journal will name for the first time. One that is there already may have been
    /// left by a killed run, and not be on the disk.
    pub fn keep_texts(&self, texts: &[&str], there: &BTreeMap<Digest, Vec<u8>>) -> Result<(), ApplyError> {
        for text in texts {
            let digest = Digest::of_bytes(text.as_bytes());
            if !there.contains_key(&digest) {
                replace::put(self.fs, &self.texts, &digest.to_string(), text.as_bytes(), PRIVATE)?;
            }
        }
        if texts.is_empty() {
            return Ok(());
        }
        while_trying_to("sync", self.texts.path(), self.fs.sync_dir(&self.texts))
    }

    /// Opens the directory of a revision, which is made where it is missing. One that was never committed may have been left
    /// by a killed run, and not be on the disk.
    pub fn open_revision(&self, revision: &str, was_committed: bool) -> Result<RevisionDir, ApplyError> {
        let (dir, made) = match self.revisions.dir(revision) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                (made_dir(self.fs, &self.revisions, revision)?, true)
            }
            dir => (while_trying_to("open", self.revisions.path_of(revision), dir)?, false),
        };
        guard::refuse_if_others_may_write(&dir)?;
        Ok(RevisionDir { dir, is_new: made || !was_committed })
    }

    /// Writes files of a revision, under other names. Nothing refers to them yet, or they are not what they should be.
    pub fn stage_files<'r>(
        &self,
        revision: &'r RevisionDir,
        files: &BTreeMap<&str, &Step>,
    ) -> Result<Vec<Staged<'r>>, ApplyError>
    where
        'a: 'r,
    {
        let mut staged = Vec::new();
        let many = files.len().saturating_sub(MAX_STAGED);
        for (number, (name, Step { after, access, .. })) in files.iter().enumerate() {
            if number < many {
                // every file that waits is an open one
                replace::put(self.fs, &revision.dir, name, after, *access)?;
            } else {
                staged.push(replace::stage_own(self.fs, &revision.dir, (number, name), after, *access)?);
            }
        }
        Ok(staged)
    }

    /// Waits until a revision's files have their names on the disk, and the revision has its own.
    pub fn sync_revision(&self, revision: &RevisionDir) -> Result<(), ApplyError> {
        while_trying_to("sync", revision.dir.path(), self.fs.sync_dir(&revision.dir))?;
        if revision.is_new {
            while_trying_to("sync", self.revisions.path(), self.fs.sync_dir(&self.revisions))?;
        }
        Ok(())
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
        while_trying_to("remove", dir.path(), self.fs.remove_dir(&self.revisions, name))
    }

    /// Removes what killed runs left here, by the paths at which it was seen.
    pub fn sweep(&self, root: &Root, leftovers: &[String]) -> Result<(), ApplyError> {
        for path in leftovers {
            let (above, name) = above(path);
            self.remove(&while_trying_to("open", above, root.dir(above))?, name)?;
        }
        Ok(())
    }

    /// Lets a scheduler that is not root in.
    pub fn make_enterable(&self, root: &Root, closed: &[String]) -> Result<(), ApplyError> {
        for path in closed {
            let dir = while_trying_to("open", path, root.dir(path))?;
            while_trying_to("set the mode of", path, self.fs.set_dir_mode(&dir, OUR_DIR_MODE))?;
        }
        Ok(())
    }

    /// Takes files away from everybody but the scheduler. Nothing is synced: a loss is seen with the next look.
    pub fn tighten(&self, root: &Root, exposed: &[(String, Access)]) -> Result<(), ApplyError> {
        for (path, access) in exposed {
            let (above, name) = above(path);
            replace::tighten(self.fs, &while_trying_to("open", above, root.dir(above))?, name, *access)?;
        }
        Ok(())
    }

    fn remove(&self, dir: &Dir, name: &str) -> Result<(), ApplyError> {
        while_trying_to("remove", dir.path_of(name), self.fs.remove_file(dir, name))
    }
}
