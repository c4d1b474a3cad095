//! The one way to resolve a path of the host. Links are followed as the host itself would: an absolute one begins at the root
//! again, and `..` stops there, so no link leads out.

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Component, Path, PathBuf};

use nix::errno::Errno;

/// As many links as Linux follows.
const MAX_LINKS: usize = 40;

/// Where a walk is: a place that can be left for a name in it, for the directory above, or for the root.
pub(super) trait Place {
    /// Steps into a name, or says where the link of that name leads and stays.
    fn enter(&mut self, name: &OsStr) -> io::Result<Entered>;
    /// Steps to the directory above; the root is above itself.
    fn up(&mut self);
    /// Steps to the root.
    fn to_root(&mut self);
}

/// What a name was.
pub(super) enum Entered {
    /// Something else than a link: the walk is there now
    There,
    /// A link, to this path
    Link(PathBuf),
}

/// Walks from the root down a path.
pub(super) fn walk(path: &Path, place: &mut impl Place) -> io::Result<()> {
    let mut pending: Vec<OsString> = names(path).rev().map(OsStr::to_owned).collect();
    let mut links = 0;
    while let Some(name) = pending.pop() {
        if name == ".." {
            place.up();
            continue;
        }
        let Entered::Link(to) = place.enter(&name)? else { continue };
        links += 1;
        if links > MAX_LINKS {
            return Err(Errno::ELOOP.into());
        }
        if to.is_absolute() {
            place.to_root();
        }
        pending.extend(names(&to).rev().map(OsStr::to_owned));
    }
    Ok(())
}

/// Names and `..` of a path; the root and `.` are left out.
fn names(path: &Path) -> impl DoubleEndedIterator<Item = &OsStr> {
    path.components().filter_map(|component| match component {
        Component::Normal(name) => Some(name),
        Component::ParentDir => Some(OsStr::new("..")),
        _ => None,
    })
}
