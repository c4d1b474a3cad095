//! Our own directory on the host: the journal, the texts it names, the revisions that are there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use crate::finding::Finding;
use crate::host::{self, HostRoot, is_unfinished};
use crate::journal::{Journal, REVISIONS_DIR, STATE_FILE, TEXTS_DIR, is_revision, is_text};
use crate::revision::Digest;
use crate::target::CONFIG_FILE;

/// What the state directory says.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct State {
    /// What schedpatch did before, once a commit in flight is judged by the text of its target; empty where it cannot be read
    pub journal: Journal,
    /// The same, exactly as the journal's file has it
    pub recorded: Journal,
    /// Whether there is a journal at all
    pub is_known: bool,
    /// Digest of the journal's file
    pub digest: Option<Digest>,
    /// Why the journal cannot be read
    pub damaged: Option<Finding>,
    /// Texts that are there and complete
    pub texts: BTreeMap<Digest, Vec<u8>>,
    /// Names of all files in their directory, complete or not
    pub text_names: BTreeSet<String>,
    /// Names of the revisions
    pub revisions: BTreeSet<String>,
    /// Every file of a revision, by its path on the host
    pub revision_files: BTreeMap<String, RevisionFile>,
    /// Files beside a configuration that everybody on the host may read: an older schedpatch wrote them so
    pub exposed: Vec<String>,
    /// Unfinished files that a killed run left behind
    pub leftovers: Vec<String>,
    /// Directories that a scheduler which is not root could not enter
    pub closed: Vec<String>,
}

/// A file of a revision, as it was found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RevisionFile {
    /// Of its content
    pub digest: Digest,
    /// Who may read it
    pub access: FileAccess,
}

/// Mode and owner of a file, as they were found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FileAccess {
    /// Its permission bits
    pub mode: u32,
    /// Its user
    pub user: u32,
    /// Its group
    pub group: u32,
}

/// The composed configuration: every scheduler may read it, whatever its user.
const CONFIG_MODE: u32 = 0o644;
const WRITABLE_BY_OTHERS: u32 = 0o022;
const FOR_EVERYBODY: u32 = 0o007;
const ENTERABLE: u32 = 0o555;

/// Reads the state directory; one that is not there says nothing.
pub(super) fn read(root: &HostRoot, dir: &str) -> Result<State, Finding> {
    let unreadable = |error: io::Error| {
        Finding::error(
            "state",
            format!("cannot read our own directory: {error}"),
            "run as root, or repair the directory",
        )
        .in_file(dir)
    };
    let mut state = State::default();
    let here = match root.resolve(dir) {
        Ok(here) => here,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(state),
        Err(error) => return Err(unreadable(error)),
    };
    let is_plain = |metadata: fs::Metadata| metadata.is_file();
    match fs::symlink_metadata(here.join(STATE_FILE)).map(is_plain) {
        Ok(true) => {
            let bytes = host::read_small_file(&here.join(STATE_FILE)).map_err(|error| {
                // it may be intact, so it must not be put aside
                damaged(dir, &error.to_string(), "run as root; see dmesg whether the disk is failing")
            })?;
            state.digest = Some(Digest::of_bytes(&bytes));
            match Journal::from_json(&bytes) {
                Ok(journal) => (state.recorded, state.is_known) = (journal, true),
                Err(why) => {
                    (state.recorded, state.damaged) = (Journal::rescued(&bytes), Some(damaged(dir, &why, MOVE_AWAY)));
                }
            }
        }
        Ok(false) => state.damaged = Some(damaged(dir, "it is not a regular file", MOVE_AWAY)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(unreadable(error)),
    }
    state.read_files(&here, dir).map_err(unreadable)?;
    Ok(state)
}

impl State {
    /// Settles the journal by the text of its target; a commit in flight on a target that cannot be read stays in flight.
    pub(super) fn settle(&mut self, text_of: impl FnOnce(&str) -> Option<Digest>) {
        let recorded = &self.recorded;
        let target = recorded.target.as_deref().filter(|_| recorded.in_flight.is_some());
        let text = target.and_then(text_of);
        self.journal = text.into_iter().fold(recorded.clone(), Journal::settled);
    }

    /// Whether a run was interrupted between its intent and the note that it is done.
    pub fn was_interrupted(&self) -> bool {
        self.recorded.in_flight.is_some()
    }

    /// Notes what is ours. What is not, or is no plain file, is left alone here and by everybody else.
    fn read_files(&mut self, here: &Path, dir: &str) -> io::Result<()> {
        self.note_closed(here, dir);
        self.files(entries(here)?, dir);
        let shown = format!("{dir}/{TEXTS_DIR}");
        for name in self.files(entries(&here.join(TEXTS_DIR))?, &shown) {
            let content = host::read_small_file(&here.join(TEXTS_DIR).join(&name)).unwrap_or_default();
            let digest = Digest::of_bytes(&content);
            if digest.to_string() == name {
                self.texts.insert(digest, content);
            }
            if is_text(&name) {
                self.text_names.insert(name);
            }
        }
        let revisions = here.join(REVISIONS_DIR);
        let shown = format!("{dir}/{REVISIONS_DIR}");
        self.note_closed(&revisions, &shown);
        for (revision, kind) in entries(&revisions)? {
            if !kind.is_dir() || !is_revision(&revision) {
                continue;
            }
            let (here, shown) = (revisions.join(&revision), format!("{shown}/{revision}"));
            let entries = entries(&here)?;
            // what holds more than files was not made by us alone, and is never removed
            if entries.iter().all(|(_, kind)| !kind.is_dir()) {
                self.revisions.insert(revision);
            }
            self.note_closed(&here, &shown);
            for name in self.files(entries, &shown) {
                self.read_revision_file(&here.join(&name), format!("{shown}/{name}"));
            }
        }
        Ok(())
    }

    fn read_revision_file(&mut self, path: &Path, shown: String) {
        let Ok(metadata) = fs::symlink_metadata(path) else { return };
        let mode = metadata.mode() & 0o7777;
        let is_config = path.file_name().is_some_and(|name| name == CONFIG_FILE);
        if !is_config && mode & FOR_EVERYBODY != 0 {
            self.exposed.push(shown.clone());
        }
        // a configuration that the scheduler may not read, or a file that others may write, is as good as damaged
        let is_sound = if is_config { mode == CONFIG_MODE } else { mode & WRITABLE_BY_OTHERS == 0 };
        if let (true, Ok(content)) = (is_sound, host::read_small_file(path)) {
            let access = FileAccess { mode, user: metadata.uid(), group: metadata.gid() };
            self.revision_files.insert(shown, RevisionFile { digest: Digest::of_bytes(&content), access });
        }
    }

    /// The plain files of a directory, but for leftovers, which are noted.
    fn files(&mut self, entries: Vec<(String, fs::FileType)>, shown: &str) -> Vec<String> {
        let files = entries.into_iter().filter(|(_, kind)| kind.is_file()).map(|(name, _)| name);
        let (leftovers, files) = files.partition::<Vec<_>, _>(|name| is_unfinished(name));
        self.leftovers.extend(leftovers.iter().map(|name| format!("{shown}/{name}")));
        files
    }

    /// Notes a directory that others than root could not enter.
    fn note_closed(&mut self, here: &Path, shown: &str) {
        if fs::metadata(here).is_ok_and(|metadata| metadata.is_dir() && metadata.mode() & ENTERABLE != ENTERABLE) {
            self.closed.push(shown.to_owned());
        }
    }
}

/// Names in a directory, and what each is; nothing for one that is not there, or that is no directory.
fn entries(dir: &Path) -> io::Result<Vec<(String, fs::FileType)>> {
    // the host would follow a link elsewhere than we do, and we never put one here
    if fs::symlink_metadata(dir).is_ok_and(|metadata| metadata.is_symlink()) {
        return Ok(Vec::new());
    }
    let entries = match fs::read_dir(dir) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(Vec::new());
        }
        entries => entries?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        // another one may be cleaning up while we look without the lock
        if let (Ok(kind), Some(name)) = (entry.file_type(), entry.file_name().to_str()) {
            found.push((name.to_owned(), kind));
        }
    }
    Ok(found)
}

const MOVE_AWAY: &str = "move it away: the manifest itself holds what matters, and schedpatch restore works without it (docs/use/undo-by-hand.md)";

fn damaged(dir: &str, why: &str, way_out: &str) -> Finding {
    Finding::error("state", format!("cannot read the state: {why}"), way_out).in_file(format!("{dir}/{STATE_FILE}"))
}
