//! The one file that others read and write too: looked at with care, replaced in one rename.

use std::fs::File;
use std::io::{self, Read, Seek};
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

use super::error::{ApplyError, while_trying_to};
use super::foreign_write::{ForeignWrite, Watch};
use super::guard;
use super::host_fs::HostFs;
use super::replace::{self, FileAttributes, Staged};
use crate::finding::Finding;
use crate::host::{Dir, HostPath, MAX_BYTES, Root, unfinished};
use crate::plan::Access;

/// As long as Linux lets a name be.
const MAX_NAME_BYTES: usize = 255;

/// The target's place.
#[derive(Debug)]
pub(super) struct Target {
    dir: Dir,
    name: String,
}

/// The file that is to take the target's place.
#[derive(Debug)]
pub(super) struct Successor<'a> {
    /// None where no file is to be there
    staged: Option<Staged<'a>>,
    attributes: Option<FileAttributes>,
}

impl Successor<'_> {
    /// Waits until the disk has it.
    pub fn sync(&self) -> Result<(), ApplyError> {
        self.staged.iter().try_for_each(Staged::sync)
    }
}

/// The target as it was read. A file of our own that is not there has neither.
#[derive(Debug)]
struct Seen {
    attributes: Option<FileAttributes>,
    /// Kept open, so that not even a close comes between the last look and the rename, and to look again after it
    file: Option<File>,
}

/// Who may read a file of our own that takes the place of none.
const NEW_FILE: Access = Access::of_mode(0o600);

impl Seen {
    /// The content of the file, which may have no name any more.
    fn content(&mut self) -> io::Result<Vec<u8>> {
        let mut now = Vec::new();
        if let Some(file) = &mut self.file {
            file.rewind()?;
            file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut now)?;
        }
        Ok(now)
    }
}

/// What others did in the instant of a commit.
#[derive(Debug)]
pub(super) struct Meanwhile {
    foreign_write: ForeignWrite,
    /// The file that had the name before
    old: Seen,
}

impl Meanwhile {
    /// Looks at the old file once more, and gives what others wrote into it. An editor that had opened it writes there still, so
    /// the later this look is, the better. Of a file that they renamed into place nothing is left.
    pub fn look_again(mut self, before: &[u8]) -> (ForeignWrite, Option<Vec<u8>>) {
        let now = self.old.content();
        let is_same = now.as_ref().is_ok_and(|now| now == before);
        let foreign_write =
            if self.foreign_write == ForeignWrite::None && !is_same { ForeignWrite::Lost } else { self.foreign_write };
        (foreign_write, now.ok().filter(|now| !is_same && !now.is_empty()))
    }
}

impl Target {
    /// Finds the target's directory and refuses what must not be written.
    pub fn open(root: &Root, path: &str) -> Result<Self, ApplyError> {
        let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
        if unfinished(name).len() > MAX_NAME_BYTES {
            let message = "the name of the manifest is too long to write another file beside it";
            return Err(ApplyError::Refused(
                Finding::error("name-too-long", message, "give it a shorter name").in_file(path),
            ));
        }
        let dir = if dir.is_empty() { "/" } else { dir };
        let dir = while_trying_to("open", dir, root.dir(dir))?;
        guard::refuse_if_others_may_write(&dir)?;
        guard::refuse_if_unwritable(&dir)?;
        Ok(Self { dir, name: name.to_owned() })
    }

    /// Makes the directory of a file of our own, if it is missing and the one above is there.
    pub fn make_dir(fs: &dyn HostFs, root: &Root, path: &str) -> Result<(), ApplyError> {
        let path = HostPath::from(path);
        let dir = path.parent();
        if root.dir(&dir).is_ok() {
            return Ok(());
        }
        let (above, name) = dir.split();
        let above = while_trying_to("open", above, root.dir(above))?;
        guard::refuse_if_others_may_write(&above)?;
        match fs.make_dir(&above, name) {
            Err(error) if error.kind() != io::ErrorKind::AlreadyExists => {
                while_trying_to("make the directory", &*dir, Err(error))
            }
            _ => while_trying_to("sync", above.path(), fs.sync_dir(&above)),
        }
    }

    /// Whether a file of our own has no directory yet.
    pub fn needs_dir(root: &Root, path: &str) -> bool {
        let missing = root.dir(&HostPath::from(path).parent()).err();
        missing.is_some_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Whether this directory holds the target, or holds a directory that does.
    pub fn refuse_within(&self, root: &Root, state_dir: &str) -> Result<(), ApplyError> {
        let place = |dir: &Dir| dir.stat().map(|stat| (stat.st_dev, stat.st_ino)).ok();
        let own = place(&self.dir);
        let mut path = state_dir;
        loop {
            if own.is_some() && root.dir(path).is_ok_and(|dir| place(&dir) == own) {
                let message = format!(
                    "our directory {state_dir} is in the manifest directory, where the kubelet reads every file"
                );
                let finding = Finding::error("state-dir", message, "give another --state-dir").in_file(self.dir.path());
                return Err(ApplyError::Refused(finding));
            }
            match path.rsplit_once('/') {
                Some((above, _)) if !above.is_empty() => path = above,
                _ => return Ok(()),
            }
        }
    }

    /// Waits until the directory's names are on the disk.
    pub fn sync_dir(&self, fs: &dyn HostFs) -> Result<(), ApplyError> {
        while_trying_to("sync", self.dir.path(), fs.sync_dir(&self.dir))
    }

    /// Refuses a target that is not `before`, or that must not be replaced.
    pub fn check(&self, before: &[u8]) -> Result<(), ApplyError> {
        self.see(before).map(drop)
    }

    /// Writes what is to take the place of `before`, under a name that the kubelet passes over. Without content the file goes.
    pub fn stage<'t>(&'t self, fs: &'t dyn HostFs, before: &[u8], after: &[u8]) -> Result<Successor<'t>, ApplyError> {
        let attributes = self.see(before)?.attributes;
        let staged = match &attributes {
            _ if after.is_empty() => None,
            Some(attributes) => Some(replace::stage_beside(fs, &self.dir, &self.name, after, attributes)?),
            None => Some(replace::stage_new(fs, &self.dir, &self.name, after, NEW_FILE)?),
        };
        Ok(Successor { staged, attributes })
    }

    /// Replaces `before`; from the rename on, the kubelet sees it.
    pub fn replace(&self, fs: &dyn HostFs, before: &[u8], successor: Successor<'_>) -> Result<Meanwhile, ApplyError> {
        let watch = Watch::arm(&self.dir);
        let old = self.see(before)?;
        if old.attributes != successor.attributes {
            return Err(ApplyError::Changed { path: self.path() });
        }
        let foreign_write = if let Some(staged) = successor.staged {
            staged.put()?;
            watch.foreign_write(&unfinished(&self.name), &self.name)
        } else {
            // our own file goes, whatever others wrote into it
            self.remove(fs)?;
            ForeignWrite::None
        };
        self.sync_dir(fs).map_err(ApplyError::after_commit)?;
        Ok(Meanwhile { foreign_write, old })
    }

    /// A target that is `before`, and that nobody writes.
    pub fn untouched(&self, before: &[u8]) -> Result<Meanwhile, ApplyError> {
        Ok(Meanwhile { foreign_write: ForeignWrite::None, old: self.see(before)? })
    }

    /// Puts a file beside the target, in one rename.
    pub fn put_beside(&self, fs: &dyn HostFs, name: &str, content: &[u8], access: Access) -> Result<(), ApplyError> {
        let staged = replace::stage_new(fs, &self.dir, name, content, access)?;
        staged.sync()?;
        staged.put()
    }

    /// Removes it; one that is gone already is no error.
    pub fn remove(&self, fs: &dyn HostFs) -> Result<(), ApplyError> {
        self.remove_name(fs, &self.name)
    }

    /// Removes what a killed run left here.
    pub fn sweep(&self, fs: &dyn HostFs) -> Result<(), ApplyError> {
        self.remove_name(fs, &unfinished(&self.name))
    }

    fn remove_name(&self, fs: &dyn HostFs, name: &str) -> Result<(), ApplyError> {
        match fs.remove_file(&self.dir, name) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                while_trying_to("remove", self.dir.path_of(name), Err(error))
            }
            _ => Ok(()),
        }
    }

    fn path(&self) -> String {
        self.dir.path_of(&self.name)
    }

    fn see(&self, before: &[u8]) -> Result<Seen, ApplyError> {
        let refused = |rule, message: &str, way_out: &str| {
            Err(ApplyError::Refused(Finding::error(rule, message, way_out).in_file(self.path())))
        };
        let changed = || ApplyError::Changed { path: self.path() };
        let mut file = match self.dir.open(&self.name) {
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
                return refused("symlink", "the target is a symbolic link", "put the file itself there");
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && before.is_empty() => {
                return Ok(Seen { attributes: None, file: None });
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(changed()),
            file => while_trying_to("open", self.path(), file)?,
        };
        let metadata = while_trying_to("look at", self.path(), file.metadata())?;
        if !metadata.is_file() {
            return refused("not-a-file", "the target is not a regular file", "put a regular file there");
        }
        if metadata.nlink() > 1 {
            let way_out =
                "copy it with cp -p to another directory of this file system, and move that copy back over it";
            return refused(
                "hard-link",
                "the target has a second name elsewhere, which would keep the old content",
                way_out,
            );
        }
        if metadata.len() > MAX_BYTES {
            return refused(
                "too-large",
                "the target is larger than 10 MiB, so the kubelet does not read it",
                "mend it",
            );
        }
        let attributes = while_trying_to("look at", self.path(), FileAttributes::of(&file))?;
        let mut content = Vec::with_capacity(before.len() + 1);
        while_trying_to("read", self.path(), file.by_ref().take(MAX_BYTES + 1).read_to_end(&mut content))?;
        if content != before {
            return Err(changed());
        }
        Ok(Seen { attributes: Some(attributes), file: Some(file) })
    }
}
