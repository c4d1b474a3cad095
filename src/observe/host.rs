//! The host's files as the host itself would find them, read beneath a root that may be mounted anywhere.

use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;

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

/// A step on the way to a path.
enum Step {
    Into(PathBuf),
    Link(PathBuf),
}

impl HostRoot {
    /// A root; nothing is opened yet.
    pub fn new(root: impl Into<PathBuf>) -> Self {
        Self { root: root.into(), known: RefCell::default() }
    }

    /// Where a host path is in our own file tree. Links are followed as the host would: an absolute one begins at the
    /// root again, and `..` stops there, so no link leads out.
    pub fn resolve(&self, path: &str) -> io::Result<PathBuf> {
        self.walk(path, &mut |_| {})
    }

    /// Where a host path is in our own tree, and every link on the way. A path that is not there ends at the last directory
    /// that is.
    pub fn trail(&self, path: &str) -> BTreeSet<PathBuf> {
        let (mut trail, mut last) = (BTreeSet::new(), self.root.clone());
        let end = self.walk(path, &mut |step| match step {
            Step::Into(place) => last = place,
            Step::Link(place) => drop(trail.insert(place)),
        });
        trail.insert(end.unwrap_or(last));
        trail
    }

    fn walk(&self, path: &str, on_step: &mut dyn FnMut(Step)) -> io::Result<PathBuf> {
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
                Kind::Other => {
                    on_step(Step::Into(self.root.join(&inside)));
                    continue;
                }
                Kind::Absent => return Err(Errno::ENOENT.into()),
                Kind::Link => {
                    on_step(Step::Link(self.root.join(&inside)));
                    links += 1;
                }
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

/// The same for a path of our own tree. Nothing waits for the writer of a pipe, and no more is read than was allowed,
/// whatever somebody puts there meanwhile.
pub(super) fn read_small_file(real: &Path) -> io::Result<Vec<u8>> {
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

/// Names and `..` of a path; the root and `.` are left out.
fn parts(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    })
}
