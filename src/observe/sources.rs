//! What the user wants: the files of each `--source` directory, as one set that is never half old.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use super::host::{MAX_BYTES, read_small_file};
use crate::finding::Finding;

/// The files of one source directory by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The directory, as given
    pub dir: String,
    /// Name and content of every file
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Reads a source directory: a mounted ConfigMap (through its `..data`, resolved once) or plain files.
pub(super) fn read(dir: &Path) -> Result<Source, Finding> {
    let shown = dir.display().to_string();
    let failed = |file: &Path, error: &io::Error| {
        let way_out = "give a directory of plain files, for example a mounted ConfigMap; take out what is no file";
        Finding::error("source-unreadable", format!("cannot read the source: {error}"), way_out)
            .in_file(file.display().to_string())
    };
    let real = one_version(dir).map_err(|error| failed(dir, &error))?;
    let mut files = BTreeMap::new();
    let mut total = 0;
    for entry in fs::read_dir(&real).map_err(|error| failed(dir, &error))? {
        let path = entry.map_err(|error| failed(dir, &error))?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if name.starts_with('.') {
            continue;
        }
        let content = read_small_file(&path).map_err(|error| failed(&dir.join(&name), &error))?;
        total += content.len() as u64;
        if total > MAX_BYTES {
            return Err(failed(dir, &io::Error::other("it holds more than 10 MiB in all, so it is no ConfigMap")));
        }
        files.insert(name, content);
    }
    Ok(Source { dir: shown, files })
}

/// The directory that `..data` points to now, or the directory itself where there is none.
fn one_version(dir: &Path) -> io::Result<PathBuf> {
    match fs::canonicalize(dir.join("..data")) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => fs::canonicalize(dir),
        resolved => resolved,
    }
}
