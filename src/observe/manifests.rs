//! The kubelet's manifest directory as the kubelet sees it: every file whose name does not begin with a dot.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use crate::finding::Finding;
use crate::host::{self, HostPath, HostRoot, finished, unfinished};
use crate::target::{TargetFile, is_preflight};

/// What a manifest directory holds.
#[derive(Debug, Default)]
pub(super) struct Listing {
    /// The manifests, but for those of preflights; none of a directory that is not there
    pub files: Option<Vec<TargetFile>>,
    /// The files of preflights, finished or not
    pub preflights: Vec<HostPath>,
    /// Names that begin with a dot
    pub hidden: BTreeSet<String>,
}

impl Listing {
    /// Of a directory that is not there.
    pub fn absent() -> Self {
        Self::default()
    }
}

/// Reads a manifest directory; `None` for one that is not there.
pub(super) fn read_dir(root: &HostRoot, dir: &HostPath) -> Result<Option<Listing>, Finding> {
    let unreadable = |error: io::Error| {
        let way_out = "correct the path, or run as a user who may read it (the directory usually belongs to root)";
        Finding::error("unreadable", format!("cannot read the manifest directory: {error}"), way_out).in_file(dir)
    };
    let entries = match root.resolve(dir).and_then(fs::read_dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let (mut files, mut preflights, mut hidden) = (Vec::new(), Vec::new(), BTreeSet::new());
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name();
        let shown = name.to_string_lossy();
        if is_preflight(finished(&shown)) && entry.file_type().is_ok_and(|kind| kind.is_file()) {
            preflights.push(dir.join(&shown));
            continue;
        }
        if shown.starts_with('.') {
            hidden.insert(shown.into_owned());
            continue;
        }
        let path = dir.join(&shown);
        let is_link = entry.file_type().is_ok_and(|kind| kind.is_symlink());
        // a link is resolved as the host would; anything else is opened as it is, whatever its name is made of
        let real = if is_link { root.resolve(&path) } else { Ok(entry.path()) };
        files.extend(read_file(path, real, is_link));
    }
    for file in &mut files {
        file.has_leftover = hidden.contains(&unfinished(file.path.name()));
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    preflights.sort();
    Ok(Some(Listing { files: Some(files), preflights, hidden }))
}

/// Reads one manifest; `None` for a directory, which the kubelet passes over.
fn read_file(path: HostPath, real: io::Result<PathBuf>, is_link: bool) -> Option<TargetFile> {
    let metadata = real.as_ref().ok().and_then(|real| fs::metadata(real).ok());
    if metadata.as_ref().is_some_and(fs::Metadata::is_dir) {
        return None;
    }
    let mode = metadata.map_or(0, |metadata| metadata.permissions().mode() & 0o7777);
    let text = real.and_then(|real| host::read_small_file(&real)).map_err(|error| error.to_string());
    let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()));
    Some(TargetFile { path, text, mode, is_link, has_leftover: false, trial: None })
}
