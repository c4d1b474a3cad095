//! Directories of the host as handles. A path is resolved once, beneath the host's root, and never again: what somebody
//! swaps afterwards cannot lead a write elsewhere.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

use nix::errno::Errno;
use nix::fcntl::{self, AtFlags, OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{self, Mode};
use nix::unistd::{self, AccessFlags};

use super::error::{ApplyError, while_trying_to};
use crate::finding::Finding;

const WRITABLE_BY_OTHERS: u32 = 0o022;

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// The kernel gives up when the tree is changed while it resolves; it is asked again so often.
const MAX_RACES: usize = 16;

/// The root of a host's file tree.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    walk: Walk,
}

/// Who walks down a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Walk {
    /// The kernel, in one call (5.6 and later)
    Kernel,
    /// We, one name at a time
    ByName,
}

/// A directory of the host.
#[derive(Debug)]
pub struct Dir {
    fd: OwnedFd,
    path: String,
}

impl Root {
    /// Opens the root.
    pub fn open(path: &Path) -> io::Result<Self> {
        let fd = fcntl::open(path, dir_flags(), Mode::empty())?;
        Ok(Self { fd, walk: Walk::Kernel })
    }

    /// The same, walking as told.
    #[must_use]
    pub fn walking(self, walk: Walk) -> Self {
        Self { walk, ..self }
    }

    /// Opens a directory. Links are followed as the host itself would: an absolute one begins at the root again, and `..`
    /// stops there. Other mounts below the root are entered, since a pod sees the host's directories as such.
    pub fn dir(&self, path: &str) -> io::Result<Dir> {
        let fd = match self.walk {
            Walk::Kernel => self.by_kernel(path),
            Walk::ByName => self.by_name(path),
        };
        Ok(Dir { fd: fd?, path: path.to_owned() })
    }

    fn by_kernel(&self, path: &str) -> io::Result<OwnedFd> {
        let resolve = ResolveFlag::RESOLVE_IN_ROOT | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let how = OpenHow::new().flags(dir_flags()).resolve(resolve);
        for _ in 0..MAX_RACES {
            match fcntl::openat2(&self.fd, path, how) {
                Err(Errno::EAGAIN | Errno::EINTR) => {}
                // an older kernel, or a sandbox that does not know the call
                Err(Errno::ENOSYS | Errno::EPERM) => return self.by_name(path),
                fd => return Ok(fd?),
            }
        }
        self.by_name(path)
    }

    fn by_name(&self, path: &str) -> io::Result<OwnedFd> {
        let mut pending: Vec<OsString> = names(Path::new(path)).rev().map(OsStr::to_owned).collect();
        let mut above: Vec<OwnedFd> = Vec::new();
        let mut links = 0;
        while let Some(name) = pending.pop() {
            if name == ".." {
                above.pop();
                continue;
            }
            let here = above.last().unwrap_or(&self.fd);
            match fcntl::openat(here, name.as_os_str(), dir_flags() | OFlag::O_NOFOLLOW, Mode::empty()) {
                Ok(fd) => above.push(fd),
                Err(Errno::ELOOP | Errno::ENOTDIR) => {
                    let to = fcntl::readlinkat(here, name.as_os_str()).map_err(|_| Errno::ENOTDIR)?;
                    links += 1;
                    if links > MAX_LINKS {
                        return Err(Errno::ELOOP.into());
                    }
                    if to.as_bytes().starts_with(b"/") {
                        above.clear();
                    }
                    pending.extend(names(Path::new(&to)).rev().map(OsStr::to_owned));
                }
                Err(error) => return Err(error.into()),
            }
        }
        match above.pop() {
            Some(fd) => Ok(fd),
            None => Ok(fcntl::openat(&self.fd, ".", dir_flags(), Mode::empty())?),
        }
    }
}

impl Dir {
    /// Its path on the host.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The path of something in it.
    pub fn path_of(&self, name: &str) -> String {
        format!("{}/{name}", self.path.trim_end_matches('/'))
    }

    /// A directory in it, which must not be a link.
    pub fn dir(&self, name: &str) -> io::Result<Self> {
        let fd = fcntl::openat(&self.fd, name, dir_flags() | OFlag::O_NOFOLLOW, Mode::empty())?;
        Ok(Self { fd, path: self.path_of(name) })
    }

    /// Opens a file in it for reading. A link is not followed, and nothing waits for the writer of a pipe.
    pub fn open(&self, name: &str) -> io::Result<File> {
        let flags = OFlag::O_RDONLY | OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC;
        Ok(fcntl::openat(&self.fd, name, flags, Mode::empty())?.into())
    }

    /// The names in it.
    pub fn names(&self) -> io::Result<Vec<String>> {
        let mut dir = nix::dir::Dir::openat(&self.fd, ".", dir_flags(), Mode::empty())?;
        let mut names = Vec::new();
        for entry in dir.iter() {
            let name = entry?.file_name().to_string_lossy().into_owned();
            if name != "." && name != ".." {
                names.push(name);
            }
        }
        names.sort();
        Ok(names)
    }

    /// Who owns it and who may write to it.
    pub(super) fn stat(&self) -> io::Result<stat::FileStat> {
        Ok(stat::fstat(&self.fd)?)
    }

    /// Refuses a directory to which others may write: no file in it can be trusted.
    pub(super) fn refuse_if_others_may_write(&self) -> Result<(), ApplyError> {
        let mode = while_trying_to("look at", self.path(), self.stat())?.st_mode & 0o7777;
        if mode & WRITABLE_BY_OTHERS == 0 {
            return Ok(());
        }
        let message = format!("others than its owner may write to the directory (mode {mode:04o})");
        let way_out = format!("chmod go-w {}", self.path());
        Err(ApplyError::Refused(Finding::error("writable-by-others", message, way_out).in_file(self.path())))
    }

    /// Refuses a directory to which we may not write, before anything is begun.
    pub(super) fn refuse_if_unwritable(&self) -> Result<(), ApplyError> {
        let rights = AccessFlags::W_OK | AccessFlags::X_OK;
        let writable = unistd::faccessat(&self.fd, ".", rights, AtFlags::AT_EACCESS);
        while_trying_to("write to", self.path(), writable.map_err(io::Error::from))
    }

    /// A path by which the kernel finds this very directory.
    pub(super) fn kernel_path(&self) -> String {
        format!("/proc/self/fd/{}", self.fd.as_raw_fd())
    }
}

impl AsFd for Dir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn dir_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
}

/// Names and `..` of a path; the root and `.` are left out.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    })
}
