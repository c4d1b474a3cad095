//! `HostFs`: every call that changes a file or a directory of the host, and no other.
//!
//! It is narrow so that tests can take its place: they count the calls, fail them, drop them, kill the process before them,
//! and work out what is on the disk when the power goes after them.

use std::io::{self, Write};
use std::os::fd::AsFd;

use nix::fcntl::{self, OFlag};
use nix::sys::stat::{self, Mode};
use nix::unistd::{self, Gid, Uid, UnlinkatFlags};
use rustix::fs::XattrFlags;

use crate::host::Dir;

/// A file that we made and have open for writing.
#[derive(Debug)]
pub struct NewFile {
    file: std::fs::File,
    path: String,
}

impl NewFile {
    /// An open file, and the path to call it by.
    pub fn new(file: std::fs::File, path: String) -> Self {
        Self { file, path }
    }

    /// Its path on the host.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The file itself, for reading what it is.
    pub fn file(&self) -> &std::fs::File {
        &self.file
    }
}

/// The calls. Each is one system call, and none is ever made twice on its own account.
pub trait HostFs {
    /// Makes a directory, 0755.
    fn make_dir(&self, dir: &Dir, name: &str) -> io::Result<()>;
    /// Makes a file that was not there, 0600.
    fn create(&self, dir: &Dir, name: &str) -> io::Result<NewFile>;
    /// Opens the lock's file, which is made where it is missing.
    fn open_lock(&self, dir: &Dir, name: &str) -> io::Result<NewFile>;
    /// Writes some of the bytes, and says how many.
    fn write(&self, file: &NewFile, bytes: &[u8]) -> io::Result<usize>;
    /// Gives the file to a user and a group.
    fn set_owner(&self, file: &NewFile, user: u32, group: u32) -> io::Result<()>;
    /// Sets the permission bits of a file.
    fn set_mode(&self, file: &NewFile, mode: u32) -> io::Result<()>;
    /// Sets the permission bits of a directory.
    fn set_dir_mode(&self, dir: &Dir, mode: u32) -> io::Result<()>;
    /// Sets an extended attribute.
    fn set_label(&self, file: &NewFile, name: &str, value: &[u8]) -> io::Result<()>;
    /// Removes an extended attribute.
    fn remove_label(&self, file: &NewFile, name: &str) -> io::Result<()>;
    /// Waits until the file's content is on the disk.
    fn sync(&self, file: &NewFile) -> io::Result<()>;
    /// Waits until the directory's names are on the disk.
    fn sync_dir(&self, dir: &Dir) -> io::Result<()>;
    /// Gives a file another name in its directory, in place of what had that name.
    fn rename(&self, dir: &Dir, from: &str, to: &str) -> io::Result<()>;
    /// Removes a file.
    fn remove_file(&self, dir: &Dir, name: &str) -> io::Result<()>;
    /// Removes an empty directory.
    fn remove_dir(&self, dir: &Dir, name: &str) -> io::Result<()>;
}

/// The real host.
#[derive(Clone, Copy, Debug)]
pub struct RealFs;

impl HostFs for RealFs {
    fn make_dir(&self, dir: &Dir, name: &str) -> io::Result<()> {
        Ok(stat::mkdirat(dir, name, Mode::from_bits_truncate(0o755))?)
    }

    fn create(&self, dir: &Dir, name: &str) -> io::Result<NewFile> {
        open(dir, name, OFlag::O_WRONLY | OFlag::O_CREAT | OFlag::O_EXCL)
    }

    fn open_lock(&self, dir: &Dir, name: &str) -> io::Result<NewFile> {
        open(dir, name, OFlag::O_RDWR | OFlag::O_CREAT | OFlag::O_NONBLOCK)
    }

    fn write(&self, file: &NewFile, bytes: &[u8]) -> io::Result<usize> {
        (&file.file).write(bytes)
    }

    fn set_owner(&self, file: &NewFile, user: u32, group: u32) -> io::Result<()> {
        Ok(unistd::fchown(&file.file, Some(Uid::from_raw(user)), Some(Gid::from_raw(group)))?)
    }

    fn set_mode(&self, file: &NewFile, mode: u32) -> io::Result<()> {
        Ok(stat::fchmod(&file.file, Mode::from_bits_truncate(mode))?)
    }

    fn set_dir_mode(&self, dir: &Dir, mode: u32) -> io::Result<()> {
        Ok(stat::fchmod(dir, Mode::from_bits_truncate(mode))?)
    }

    fn set_label(&self, file: &NewFile, name: &str, value: &[u8]) -> io::Result<()> {
        Ok(rustix::fs::fsetxattr(&file.file, name, value, XattrFlags::empty())?)
    }

    fn remove_label(&self, file: &NewFile, name: &str) -> io::Result<()> {
        Ok(rustix::fs::fremovexattr(&file.file, name)?)
    }

    fn sync(&self, file: &NewFile) -> io::Result<()> {
        Ok(unistd::fsync(&file.file)?)
    }

    fn sync_dir(&self, dir: &Dir) -> io::Result<()> {
        Ok(unistd::fsync(dir.as_fd())?)
    }

    fn rename(&self, dir: &Dir, from: &str, to: &str) -> io::Result<()> {
        Ok(fcntl::renameat(dir, from, dir, to)?)
    }

    fn remove_file(&self, dir: &Dir, name: &str) -> io::Result<()> {
        Ok(unistd::unlinkat(dir, name, UnlinkatFlags::NoRemoveDir)?)
    }

    fn remove_dir(&self, dir: &Dir, name: &str) -> io::Result<()> {
        Ok(unistd::unlinkat(dir, name, UnlinkatFlags::RemoveDir)?)
    }
}

fn open(dir: &Dir, name: &str, flags: OFlag) -> io::Result<NewFile> {
    let private = Mode::from_bits_truncate(0o600);
    let fd = fcntl::openat(dir, name, flags | OFlag::O_NOFOLLOW | OFlag::O_CLOEXEC, private)?;
    Ok(NewFile::new(fd.into(), dir.path_of(name)))
}
