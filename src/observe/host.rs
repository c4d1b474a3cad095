//! The host's files as the host itself would find them, read beneath a root that may be mounted anywhere.

use std::cell::RefCell;
use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// The root of a host's file tree: `/`, or wherever it is mounted. For one look: where a directory is, is found out once.
#[derive(Clone, Debug)]
pub struct HostRoot {
    root: PathBuf,
    /// Names below the root that were looked at
    known: RefCell<HashMap<PathBuf, Kind>>,
}

/// What a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Absent,
    Link,
    Other,
}

impl HostRoot {
    /// A root; nothing is opened yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), known: RefCell::default() }
    }

    /// Where a host path is in our own file tree. Links are followed as the host would: an absolute one begins at the
    /// root again, and `..` stops there, so no link leads out.
    pub fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        let mut pending: Vec<OsString> = parts(Path::new(path)).rev().map(OsStr::to_owned).collect();
        let mut inside = PathBuf::new();
        let mut links = 0;
        while let Some(part) = pending.pop() {
            if part == ".." {
                inside.pop();
                continue;
            }
            inside.push(part);
            match self.kind(&inside)? {
                Kind::Other => continue,
                Kind::Absent => return Err(Errno::ENOENT.into()),
                Kind::Link => links += 1,
            }
            if links > MAX_LINKS {
                return Err(io::Error::other("too many symbolic links"));
            }
            let to = fs::read_link(self.root.join(&inside))?;
            inside.pop();
            if to.is_absolute() {
                inside.clear();
            }
            pending.extend(parts(&to).rev().map(OsStr::to_owned));
        }
        Ok(self.root.join(inside))
    }

    fn kind(&self, inside: &Path) -> io::Result<Kind> {
        if let Some(kind) = self.known.borrow().get(inside) {
            return Ok(*kind);
        }
        let kind = match fs::symlink_metadata(self.root.join(inside)) {
            Ok(metadata) if metadata.is_symlink() => Kind::Link,
            Ok(_) => Kind::Other,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Kind::Absent,
            Err(error) => return Err(error),
        };
        self.known.borrow_mut().insert(inside.to_owned(), kind);
        Ok(kind)
    }

    /// Whether something is there, whoever may read it.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// A small text file, if it is there and readable.
    pub fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(read_small(self, path).ok()?).ok()
    }
}

/// No file that is read whole may be larger: as much as the kubelet reads of a manifest.
pub(super) const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// The content of a regular file of bounded size.
pub(super) fn read_small(root: &HostRoot, path: &str) -> io::Result<Vec<u8>> {
    read_small_file(&root.resolve(path)?)
}

/// The same for a path of our own tree. A pipe is not opened, so nothing waits for a writer.
pub(super) fn read_small_file(real: &Path) -> io::Result<Vec<u8>> {
    let metadata = fs::metadata(real)?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(io::Error::other(format!("it is larger than 10 MiB ({} bytes)", metadata.len())));
    }
    fs::read(real)
}

/// Names and `..` of a path; the root and `.` are left out.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    })
}
