//! The kubelet's manifest directory as the kubelet sees it: every file whose name does not begin with a dot.

use std::fs;
use std::io;
use std::os::unix::fs::PermissionsExt;

use super::host::HostRoot;
use crate::finding::Finding;

/// The kubelet reads no larger manifest.
const MAX_BYTES: u64 = 10 * 1024 * 1024;

/// One file of a manifest directory.
#[derive(Clone, Debug)]
pub struct ManifestFile {
    /// Its path on the host
    pub path: String,
    /// Its text, or why it is none
    pub text: Result<String, String>,
    /// Permission bits
    pub mode: u32,
    /// Whether it is a link to a file elsewhere
    pub is_link: bool,
}

impl ManifestFile {
    /// Whether it may be about a scheduler: by a word in it, or by its name, since it may be empty or broken.
    pub fn names_scheduler(&self) -> bool {
        self.is_named_scheduler() || self.text.as_ref().is_ok_and(|text| text.contains("kube-scheduler"))
    }

    /// Whether its file name says so.
    pub fn is_named_scheduler(&self) -> bool {
        self.path.rsplit('/').next().is_some_and(|name| name.contains("scheduler"))
    }
}

/// Reads a manifest directory. One that is not there has no files.
pub(super) fn read_dir(root: &HostRoot, dir: &str) -> Result<Option<Vec<ManifestFile>>, Finding> {
    let unreadable = |error: io::Error| {
        let way_out = "run as a user who may read it (the directory usually belongs to root)";
        Finding::error("unreadable", format!("cannot read the manifest directory: {error}"), way_out).in_file(dir)
    };
    let entries = match root.resolve(dir).and_then(fs::read_dir) {
        Ok(entries) => entries,
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            return Ok(None);
        }
        Err(error) => return Err(unreadable(error)),
    };
    let mut files = Vec::new();
    for entry in entries {
        let entry = entry.map_err(unreadable)?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if !name.starts_with('.') {
            files.extend(read_file(root, &format!("{}/{name}", dir.trim_end_matches('/'))));
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(Some(files))
}

/// Reads one manifest; `None` for a directory, which the kubelet passes over.
pub(super) fn read_file(root: &HostRoot, path: &str) -> Option<ManifestFile> {
    let unreadable =
        |why: String, mode, is_link| Some(ManifestFile { path: path.to_owned(), text: Err(why), mode, is_link });
    let is_link = is_link(root, path);
    let (real, metadata) =
        match root.resolve(path).and_then(|real| fs::metadata(&real).map(|metadata| (real, metadata))) {
            Ok(found) => found,
            Err(error) => return unreadable(error.to_string(), 0, is_link),
        };
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_dir() {
        return None;
    }
    if !metadata.is_file() {
        return unreadable("it is not a regular file".to_owned(), mode, is_link);
    }
    if metadata.len() > MAX_BYTES {
        return unreadable(
            format!("it is larger than 10 MiB ({} bytes), which the kubelet does not read", metadata.len()),
            mode,
            is_link,
        );
    }
    match fs::read(&real).map(String::from_utf8) {
        Ok(Ok(text)) => Some(ManifestFile { path: path.to_owned(), text: Ok(text), mode, is_link }),
        Ok(Err(_)) => unreadable("it is not UTF-8 text".to_owned(), mode, is_link),
        Err(error) => unreadable(error.to_string(), mode, is_link),
    }
}

fn is_link(root: &HostRoot, path: &str) -> bool {
    let (dir, name) = path.rsplit_once('/').unwrap_or(("", path));
    let Ok(dir) = root.resolve(if dir.is_empty() { "/" } else { dir }) else { return false };
    fs::symlink_metadata(dir.join(name)).is_ok_and(|metadata| metadata.is_symlink())
}
