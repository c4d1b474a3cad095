//! Directories of the host as handles. A path is resolved once, beneath the host's root, and never again: what somebody
//! swaps afterwards cannot lead a write elsewhere.

use std::ffi::OsStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{self, OFlag, OpenHow, ResolveFlag};
use nix::sys::stat::{self, Mode};

use super::resolve::{self, Entered, Place};

/// The kernel gives up when the tree is changed while it resolves; it is asked again so often.
const MAX_RACES: usize = 16;

/// The root of a host's file tree.
#[derive(Debug)]
pub struct Root {
    fd: OwnedFd,
    walk: Walk,
    path: PathBuf,
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
        Ok(Self { fd, walk: Walk::Kernel, path: path.to_owned() })
    }

    /// Where it is in our own tree.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The same, with another way to walk.
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
        let mut handles = Handles { root: &self.fd, above: Vec::new() };
        resolve::walk(Path::new(path), &mut handles)?;
        match handles.above.pop() {
            Some(fd) => Ok(fd),
            None => Ok(fcntl::openat(&self.fd, ".", dir_flags(), Mode::empty())?),
        }
    }
}

/// A walk by handles: each directory is opened in the one before.
struct Handles<'r> {
    root: &'r OwnedFd,
    above: Vec<OwnedFd>,
}

impl Place for Handles<'_> {
    fn enter(&mut self, name: &OsStr) -> io::Result<Entered> {
        let here = self.above.last().unwrap_or(self.root);
        match fcntl::openat(here, name, dir_flags() | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) => {
                self.above.push(fd);
                Ok(Entered::There)
            }
            Err(Errno::ELOOP | Errno::ENOTDIR) => {
                let to = fcntl::readlinkat(here, name).map_err(|_| Errno::ENOTDIR)?;
                Ok(Entered::Link(to.into()))
            }
            Err(error) => Err(error.into()),
        }
    }

    fn up(&mut self) {
        self.above.pop();
    }

    fn to_root(&mut self) {
        self.above.clear();
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
    pub(crate) fn stat(&self) -> io::Result<stat::FileStat> {
        Ok(stat::fstat(&self.fd)?)
    }

    /// A path by which the kernel finds this very directory.
    pub(crate) fn kernel_path(&self) -> String {
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
