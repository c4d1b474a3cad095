//! Our own directory on the host: the journal, the texts it names, the revisions that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::path::Path;

use super::host::{self, HostRoot};
use crate::finding::Finding;
use crate::journal::{Journal, REVISIONS_DIR, STATE_FILE, TEXTS_DIR, is_unfinished};
use crate::revision::Digest;

/// What the state directory says.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// What we did before; as if nothing, where it cannot be read
    pub journal: Journal,
    /// Why the journal cannot be read
    pub damaged: Option<Finding>,
    /// Texts that are there and complete
    pub texts: BTreeMap<Digest, Vec<u8>>,
    /// Names of all files in their directory, complete or not
    pub text_names: BTreeSet<String>,
    /// Names of the revisions
    pub revisions: BTreeSet<String>,
    /// Digest of every file of a revision, by its path on the host
    pub revision_files: BTreeMap<String, Digest>,
    /// Unfinished files that a killed run left behind
    pub leftovers: Vec<String>,
}

/// Reads the state directory; one that is not there says nothing.
pub(super) fn read(root: &HostRoot, dir: &str) -> Result<State, Finding> {
    let unreadable = |error: io::Error| {
        Finding::error("state", format!("cannot read our own directory: {error}"), "run as root, or mend it")
            .in_file(dir)
    };
    let mut state = State::default();
    let here = match root.resolve(dir) {
        Ok(here) => here,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(state),
        Err(error) => return Err(unreadable(error)),
    };
    match host::read_small_file(&here.join(STATE_FILE)).map(|bytes| Journal::from_json(&bytes)) {
        Ok(Ok(journal)) => state.journal = journal,
        Ok(Err(why)) => state.damaged = Some(damaged(dir, &why)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => state.damaged = Some(damaged(dir, &error.to_string())),
    }
    state.read_files(&here, dir).map_err(unreadable)?;
    Ok(state)
}

impl State {
    fn read_files(&mut self, here: &Path, dir: &str) -> io::Result<()> {
        for (name, _) in entries(here)? {
            self.note_leftover(dir, &name);
        }
        let texts = here.join(TEXTS_DIR);
        for (name, _) in entries(&texts)? {
            if self.note_leftover(&format!("{dir}/{TEXTS_DIR}"), &name) {
                continue;
            }
            let Some(content) = unless_gone(host::read_small_file(&texts.join(&name)))? else { continue };
            let digest = Digest::of_bytes(&content);
            if digest.to_string() == name {
                self.texts.insert(digest, content);
            }
            self.text_names.insert(name);
        }
        let revisions = here.join(REVISIONS_DIR);
        for (revision, is_dir) in entries(&revisions)? {
            if !is_dir {
                continue;
            }
            let shown = format!("{dir}/{REVISIONS_DIR}/{revision}");
            for (name, is_dir) in entries(&revisions.join(&revision))? {
                if self.note_leftover(&shown, &name) || is_dir {
                    continue;
                }
                let content = host::read_small_file(&revisions.join(&revision).join(&name));
                if let Some(content) = unless_gone(content)? {
                    self.revision_files.insert(format!("{shown}/{name}"), Digest::of_bytes(&content));
                }
            }
            self.revisions.insert(revision);
        }
        Ok(())
    }

    fn note_leftover(&mut self, dir: &str, name: &str) -> bool {
        let is_leftover = is_unfinished(name);
        if is_leftover {
            self.leftovers.push(format!("{dir}/{name}"));
        }
        is_leftover
    }
}

/// Another one may be cleaning up while we look without the lock.
fn unless_gone<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        result => result.map(Some),
    }
}

/// Names in a directory, and whether each is a directory itself; nothing for one that is not there.
fn entries(dir: &Path) -> io::Result<Vec<(String, bool)>> {
    let Some(entries) = unless_gone(fs::read_dir(dir))? else { return Ok(Vec::new()) };
    let name =
        |entry: fs::DirEntry| Ok((entry.file_name().to_string_lossy().into_owned(), entry.file_type()?.is_dir()));
    entries.map(|entry| name(entry?)).collect()
}

fn damaged(dir: &str, why: &str) -> Finding {
    let way_out = "remove it: what matters stands in the manifest itself (docs/undo-by-hand.md)";
    Finding::error("state", format!("cannot read the state: {why}"), way_out).in_file(format!("{dir}/{STATE_FILE}"))
}
