//! What the user wants: the files of each `--source`, as one set that is never half old.
//!
//! A source may be written by somebody who may not read the rest of the host, and every file of it becomes a file of the
//! revision. So links are followed only beneath the source's own directory, and what is read is limited before it is read.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read as _};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Component, Path};

use nix::dir::Dir;
use nix::errno::Errno;
use nix::fcntl::{self, OFlag};
use nix::sys::stat::Mode;

use crate::finding::Finding;
use crate::host::MAX_BYTES;
pub use crate::settings::Source;

/// Most files of a source. A ConfigMap holds 1 MiB in all, so nobody comes near it; each file costs a sync per commit.
const MAX_FILES: usize = 1_000;
/// As many links as Linux follows.
const MAX_LINKS: usize = 40;
/// The kubelet may remove a ConfigMap's old version while it is read; then the new one is there.
const MAX_SWAPS: usize = 3;
/// The kubelet's link to the version of a ConfigMap that counts now.
const CURRENT_VERSION: &str = "..data";

/// Why a source cannot be read: the name of the file in question, if it is about one.
type Failure = (Option<OsString>, io::Error);

/// Reads a source: a mounted ConfigMap (through its `..data`, resolved once), a directory of plain files, or one file.
pub(super) fn read(dir: &Path) -> Result<Source, Finding> {
    let mut swaps = 1;
    loop {
        match read_once(dir) {
            Ok(source) => return Ok(source),
            Err((Some(_), error)) if error.kind() == io::ErrorKind::NotFound && swaps < MAX_SWAPS => swaps += 1,
            Err((name, error)) => {
                return Err(unreadable(&name.map_or_else(|| dir.into(), |name| dir.join(name)), &error));
            }
        }
    }
}

fn read_once(path: &Path) -> Result<Source, Failure> {
    let of_source = |error: Errno| (None, io::Error::from(error));
    let dir = match fcntl::open(path, dir_flags(), Mode::empty()) {
        Ok(dir) => dir,
        Err(Errno::ENOTDIR) => return single_file(path).map_err(|error| (None, error)),
        Err(error) => return Err(of_source(error)),
    };
    let data = OsStr::new(CURRENT_VERSION);
    let version = match open_beneath(dir.as_fd(), data) {
        Ok(version) => OwnedFd::from(version),
        Err(error) if error.kind() == io::ErrorKind::NotFound => dir,
        Err(error) => return Err((Some(data.to_owned()), error)),
    };
    let mut files = BTreeMap::new();
    let mut left = MAX_BYTES;
    for name in names(&version).map_err(|error| (None, error))? {
        let content = open_beneath(version.as_fd(), &name).and_then(|file| content(file, left));
        let content = content.map_err(|error| (Some(name.clone()), error))?;
        left -= content.len() as u64;
        files.insert(name.to_string_lossy().into_owned(), content);
    }
    Ok(Source { dir: path.display().to_string(), files })
}

/// A file that was given itself; a person named it, so a link is followed wherever it leads.
fn single_file(path: &Path) -> io::Result<Source> {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let file = fcntl::open(path, file_flags(), Mode::empty())?;
    let files = BTreeMap::from([(name, content(file.into(), MAX_BYTES)?)]);
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or_else(|| Path::new("."));
    Ok(Source { dir: parent.display().to_string(), files })
}

/// The names of a directory in order, but for hidden ones. Too many are refused before one of them is opened.
fn names(dir: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut entries = Dir::openat(dir, ".", dir_flags(), Mode::empty())?;
    let mut names = Vec::new();
    for entry in entries.iter() {
        let name = OsStr::from_bytes(entry?.file_name().to_bytes()).to_owned();
        if name.as_bytes().starts_with(b".") {
            continue;
        }
        names.push(name);
        if names.len() > MAX_FILES {
            return Err(io::Error::other(format!("it holds more than {MAX_FILES} files, so it is no ConfigMap")));
        }
    }
    names.sort();
    Ok(names)
}

/// Opens a name of a directory. Links are followed name by name, and refused where they lead out of the directory.
fn open_beneath(dir: BorrowedFd<'_>, name: &OsStr) -> io::Result<File> {
    let leads_out = || io::Error::other("it is a link that leads out of the source directory, which is not followed");
    let mut pending = vec![name.to_owned()];
    let mut inside: Vec<OwnedFd> = Vec::new();
    let mut links = 0;
    while let Some(part) = pending.pop() {
        if part == ".." {
            inside.pop().ok_or_else(leads_out)?;
            continue;
        }
        let here = inside.last().map_or(dir, AsFd::as_fd);
        match fcntl::openat(here, part.as_os_str(), file_flags() | OFlag::O_NOFOLLOW, Mode::empty()) {
            Ok(fd) if pending.is_empty() => return Ok(fd.into()),
            Ok(fd) => inside.push(fd),
            Err(Errno::ELOOP) => {
                let to = fcntl::readlinkat(here, part.as_os_str())?;
                links += 1;
                if links > MAX_LINKS {
                    return Err(Errno::ELOOP.into());
                }
                for component in Path::new(&to).components().rev() {
                    match component {
                        Component::Normal(name) => pending.push(name.to_owned()),
                        Component::ParentDir => pending.push("..".into()),
                        Component::CurDir => {}
                        Component::RootDir | Component::Prefix(_) => return Err(leads_out()),
                    }
                }
            }
            Err(error) => return Err(error.into()),
        }
    }
    // a link to the directory itself
    Err(io::Error::other("it is not a regular file"))
}

/// The content of a regular file, of which at most this many bytes are read.
fn content(file: File, limit: u64) -> io::Result<Vec<u8>> {
    if !file.metadata()?.is_file() {
        return Err(io::Error::other("it is not a regular file"));
    }
    let mut content = Vec::new();
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(io::Error::other("with it the source holds more than 10 MiB in all, so it is no ConfigMap"));
    }
    Ok(content)
}

fn dir_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_DIRECTORY | OFlag::O_CLOEXEC
}

/// Nothing waits for the writer of a pipe.
fn file_flags() -> OFlag {
    OFlag::O_RDONLY | OFlag::O_NONBLOCK | OFlag::O_NOCTTY | OFlag::O_CLOEXEC
}

fn unreadable(file: &Path, error: &io::Error) -> Finding {
    let way_out = "give a directory of plain files, for example a mounted ConfigMap, or one file; take out what is no \
                   file, and put a copy where a link leads elsewhere";
    Finding::error("source-unreadable", format!("cannot read the source: {error}"), way_out)
        .in_file(file.display().to_string())
}
