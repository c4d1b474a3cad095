//! The host's files as the host itself would find them, read beneath a root that may be mounted anywhere.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;

use super::resolve::{self, Entered, Place};

/// The root of a host's file tree: `/`, or wherever it is mounted. For one look: what a name is, is found out once.
#[derive(Clone, Debug)]
pub struct HostRoot {
    root: PathBuf,
    /// Names below the root that were looked at
    known: RefCell<HashMap<PathBuf, Kind>>,
}

/// What a name is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Absent,
    Link,
    Other,
}

/// A walk by names, which keeps what it passed.
struct Names<'r> {
    root: &'r HostRoot,
    /// Where it is, below the root
    inside: PathBuf,
    /// The links on the way
    links: BTreeSet<PathBuf>,
    /// The last place that was there
    last: PathBuf,
}

impl Place for Names<'_> {
    fn enter(&mut self, name: &OsStr) -> io::Result<Entered> {
        self.inside.push(name);
        let real = self.root.root.join(&self.inside);
        match self.root.kind(&self.inside)? {
            Kind::Absent => Err(Errno::ENOENT.into()),
            Kind::Other => {
                self.last = real;
                Ok(Entered::There)
            }
            Kind::Link => {
                let to = fs::read_link(&real)?;
                self.links.insert(real);
                self.inside.pop();
                Ok(Entered::Link(to))
            }
        }
    }

    fn up(&mut self) {
        self.inside.pop();
    }

    fn to_root(&mut self) {
        self.inside.clear();
    }
}

impl HostRoot {
    /// A root; nothing is opened yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), known: RefCell::default() }
    }

    /// Where a host path is in our own file tree.
    pub fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        self.walk(path).0
    }

    /// Where a host path is in our own tree, and every link on the way. A path that is not there ends at the last directory
    /// that is.
    pub fn trail(&self, path: &str) -> BTreeSet<PathBuf> {
        let (end, Names { mut links, last, .. }) = self.walk(path);
        links.insert(end.unwrap_or(last));
        links
    }

    fn walk(&self, path: &str) -> (io::Result<PathBuf>, Names<'_>) {
        let mut names = Names { root: self, inside: PathBuf::new(), links: BTreeSet::new(), last: self.root.clone() };
        let end = resolve::walk(Path::new(path), &mut names).map(|()| self.root.join(&names.inside));
        (end, names)
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

    /// Whether something is there, readable or not.
    pub fn exists(&self, path: &str) -> bool {
        self.resolve(path).is_ok()
    }

    /// A small text file, if it is there and readable.
    pub fn text(&self, path: &str) -> Option<String> {
        String::from_utf8(read_small(self, path).ok()?).ok()
    }
}

/// No file that is read whole may be larger: as much as the kubelet reads of a manifest.
pub(crate) const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// The content of a regular file of bounded size.
pub(crate) fn read_small(root: &HostRoot, path: &str) -> io::Result<Vec<u8>> {
    read_small_file(&root.resolve(path)?)
}

/// The same for a path of our own tree. Nothing waits for the writer of a pipe, and no more is read than was allowed,
/// whatever somebody puts there meanwhile.
pub(crate) fn read_small_file(real: &Path) -> io::Result<Vec<u8>> {
    let too_large = |bytes: u64| io::Error::other(format!("it is larger than 10 MiB ({bytes} bytes)"));
    let file: File = fcntl::open(real, OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_CLOEXEC, Mode::empty())?.into();
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    if metadata.len() > MAX_BYTES {
        return Err(too_large(metadata.len()));
    }
    let mut content = Vec::with_capacity(usize::try_from(metadata.len()).unwrap_or_default() + 1);
    let bytes = file.take(MAX_BYTES + 1).read_to_end(&mut content)? as u64;
    if bytes > MAX_BYTES { Err(too_large(bytes)) } else { Ok(content) }
}
