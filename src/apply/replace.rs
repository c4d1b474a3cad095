//! A file gets new content in one instant: a reader sees the old content or the new one, whole.

use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

use nix::errno::Errno;

use super::error::{ApplyError, while_trying_to};
use super::host_fs::{HostFs, NewFile};
use crate::host::{Dir, unfinished, unfinished_own};
use crate::plan::Access;

/// What else makes up a file for those who check access to it: the label of SELinux, and access lists.
const LABELS: [&str; 2] = ["security.selinux", ACCESS_LIST];
const ACCESS_LIST: &str = "system.posix_acl_access";

/// Longer ones are not for files like ours.
const MAX_LABEL_BYTES: usize = 4096;

/// The permission bits of a mode.
pub(super) const MODE_BITS: u32 = 0o7777;

/// What a file looks like from outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct FileAttributes {
    access: Access,
    labels: Vec<(&'static str, Vec<u8>)>,
}

impl FileAttributes {
    fn has(&self, label: &str) -> bool {
        self.labels.iter().any(|(name, _)| *name == label)
    }

    /// That of a file which is there.
    pub fn of(file: &File) -> io::Result<Self> {
        let metadata = file.metadata()?;
        let labels = LABELS.into_iter().filter_map(|name| label(file, name).transpose());
        let labels = labels.collect::<io::Result<_>>()?;
        let (user, group) = (Some(metadata.uid()), Some(metadata.gid()));
        Ok(Self { access: Access { mode: metadata.mode() & MODE_BITS, user, group }, labels })
    }
}

/// A file that is written, and waits to be synced and to get its name. Dropped before that it is removed; if that fails too,
/// the next run does it.
#[derive(Debug)]
pub(super) struct Staged<'a> {
    fs: &'a dyn HostFs,
    dir: &'a Dir,
    temp: String,
    name: String,
    /// None once it is closed
    file: Option<NewFile>,
    has_name: bool,
}

impl std::fmt::Debug for dyn HostFs + '_ {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostFs")
    }
}

/// Writes a file of our own directory; on the disk it has its name once the directory is synced.
pub(super) fn put(fs: &dyn HostFs, dir: &Dir, name: &str, content: &[u8], access: Access) -> Result<(), ApplyError> {
    let staged = stage_own(fs, dir, (0, name), content, access)?;
    staged.sync()?;
    staged.put()
}

/// Writes a file of our own directory under a name that no other file there has which is `number`ed otherwise.
pub(super) fn stage_own<'a>(
    fs: &'a dyn HostFs,
    dir: &'a Dir,
    (number, name): (usize, &str),
    content: &[u8],
    access: Access,
) -> Result<Staged<'a>, ApplyError> {
    let attributes = FileAttributes { access, labels: Vec::new() };
    stage(fs, dir, (unfinished_own(number), name), content, &attributes)
}

/// Writes a file that is to take the place of another.
pub(super) fn stage_beside<'a>(
    fs: &'a dyn HostFs,
    dir: &'a Dir,
    name: &str,
    content: &[u8],
    attributes: &FileAttributes,
) -> Result<Staged<'a>, ApplyError> {
    stage(fs, dir, (unfinished(name), name), content, attributes)
}

/// Writes a file that is new in a directory which is not ours.
pub(super) fn stage_new<'a>(
    fs: &'a dyn HostFs,
    dir: &'a Dir,
    name: &str,
    content: &[u8],
    access: Access,
) -> Result<Staged<'a>, ApplyError> {
    let attributes = FileAttributes { access, labels: Vec::new() };
    stage(fs, dir, (unfinished(name), name), content, &attributes)
}

fn stage<'a>(
    fs: &'a dyn HostFs,
    dir: &'a Dir,
    (temp, name): (String, &str),
    content: &[u8],
    attributes: &FileAttributes,
) -> Result<Staged<'a>, ApplyError> {
    let file = match fs.create(dir, &temp) {
        Err(error) if error.raw_os_error() == Some(Errno::EEXIST as i32) => {
            // left over from a killed run: we hold the lock, so no other run is writing it
            while_trying_to("remove", dir.path_of(&temp), fs.remove_file(dir, &temp))?;
            fs.create(dir, &temp)
        }
        made => made,
    };
    let file = while_trying_to("create", dir.path_of(&temp), file)?;
    let mut staged = Staged { fs, dir, temp, name: name.to_owned(), file: None, has_name: false };
    fill(fs, &file, content, attributes)?;
    staged.file = Some(file);
    Ok(staged)
}

fn fill(fs: &dyn HostFs, file: &NewFile, content: &[u8], attributes: &FileAttributes) -> Result<(), ApplyError> {
    let path = file.path();
    while_trying_to("write", path, write_all(fs, file, content))?;
    let fresh = while_trying_to("look at", path, FileAttributes::of(file.file()))?;
    // what a directory gives to new files by default, this one must not have
    for (name, _) in fresh.labels.iter().filter(|(name, _)| *name == ACCESS_LIST && !attributes.has(name)) {
        while_trying_to("take the access list from", path, fs.remove_label(file, name))?;
    }
    let is_mode_wrong = attributes.access.mode != fresh.access.mode || fresh.has(ACCESS_LIST);
    set_access(fs, file, attributes.access, fresh.access, is_mode_wrong)?;
    for (name, value) in attributes.labels.iter().filter(|label| !fresh.labels.contains(label)) {
        while_trying_to("label", path, fs.set_label(file, name, value))?;
    }
    Ok(())
}

/// Gives a file its mode and its owner, where they differ. The mode goes first: afterwards the file may be somebody else's,
/// whose mode only the capability FOWNER may set.
fn set_access(
    fs: &dyn HostFs,
    file: &NewFile,
    wanted: Access,
    fresh: Access,
    is_mode_wrong: bool,
) -> Result<(), ApplyError> {
    if is_mode_wrong {
        while_trying_to("set the mode of", file.path(), fs.set_mode(file, wanted.mode))?;
    }
    let owner = (wanted.user.or(fresh.user), wanted.group.or(fresh.group));
    match owner {
        (Some(user), Some(group)) if owner != (fresh.user, fresh.group) => {
            while_trying_to("give its owner to", file.path(), fs.set_owner(file, user, group))
        }
        _ => Ok(()),
    }
}

/// Gives a file that is there its mode and its owner.
pub(super) fn tighten(fs: &dyn HostFs, dir: &Dir, name: &str, access: Access) -> Result<(), ApplyError> {
    let path = dir.path_of(name);
    let file = NewFile::new(while_trying_to("open", &path, dir.open(name))?, path.clone());
    let found = while_trying_to("look at", &path, FileAttributes::of(file.file()))?;
    let done = set_access(fs, &file, access, found.access, access.mode != found.access.mode);
    if done.is_err() {
        // half of it would keep the scheduler out, and nobody would notice that it is to be done
        let _ = fs.set_mode(&file, found.access.mode);
    }
    done
}

pub(super) fn write_all(fs: &dyn HostFs, file: &NewFile, mut content: &[u8]) -> io::Result<()> {
    while !content.is_empty() {
        match fs.write(file, content) {
            Ok(0) => return Err(Errno::ENOSPC.into()),
            Ok(written) => content = content.get(written..).unwrap_or_default(),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

impl Staged<'_> {
    /// Waits until the disk has its content. A failed sync is final: the system may forget what it could not write, so the
    /// file is dropped, not synced again.
    pub fn sync(&self) -> Result<(), ApplyError> {
        self.file.iter().try_for_each(|file| while_trying_to("sync", file.path(), self.fs.sync(file)))
    }

    /// Gives the file its name. On the disk it has it once the directory is synced.
    pub fn put(mut self) -> Result<(), ApplyError> {
        // closed before, so that a watcher sees one event
        self.file = None;
        let renamed = self.fs.rename(self.dir, &self.temp, &self.name);
        while_trying_to("replace", self.dir.path_of(&self.name), renamed)?;
        self.has_name = true;
        Ok(())
    }
}

impl Drop for Staged<'_> {
    fn drop(&mut self) {
        if !self.has_name {
            let _ = self.fs.remove_file(self.dir, &self.temp);
        }
    }
}

fn label(file: &File, name: &'static str) -> io::Result<Option<(&'static str, Vec<u8>)>> {
    let mut value = vec![0; MAX_LABEL_BYTES];
    match rustix::fs::fgetxattr(file, name, &mut value) {
        Ok(length) => {
            value.truncate(length);
            Ok(Some((name, value)))
        }
        Err(rustix::io::Errno::NODATA | rustix::io::Errno::OPNOTSUPP) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
