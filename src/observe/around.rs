//! What kinds of targets read beside their directories, with a note of everything that they asked for.

use std::cell::RefCell;
use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;

use super::release;
use crate::host::{self, HostPath, HostRoot};
use crate::target::{Around, FileText, HostFiles, Program};

/// Reads files of the host and keeps what it read.
#[derive(Debug)]
pub(super) struct Reader<'a> {
    root: &'a HostRoot,
    /// What an earlier look found: a program that has not changed is not read again
    before: Option<&'a Program>,
    found: RefCell<Around>,
}

impl<'a> Reader<'a> {
    pub fn new(root: &'a HostRoot, before: Option<&'a Program>) -> Self {
        Self { root, before, found: RefCell::default() }
    }

    pub fn found(self) -> Around {
        self.found.into_inner()
    }

    fn note(&self, path: &str) {
        self.found.borrow_mut().looked.insert(HostPath::from(path));
    }
}

impl HostFiles for Reader<'_> {
    fn text(&self, path: &str) -> Option<FileText> {
        self.note(path);
        let text = match host::read_small(self.root, path) {
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                return None;
            }
            read => read.map_err(|error| error.to_string()),
        };
        let text = text.and_then(|bytes| String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned()));
        self.found.borrow_mut().files.insert(HostPath::from(path), text.clone());
        Some(text)
    }

    fn files_in(&self, dir: &str) -> Vec<HostPath> {
        self.note(dir);
        let entries = self.root.resolve(dir).and_then(fs::read_dir).into_iter().flatten().flatten();
        let is_file = |entry: &fs::DirEntry| fs::metadata(entry.path()).is_ok_and(|metadata| metadata.is_file());
        let files = entries.filter(|entry| is_file(entry) || entry.file_type().is_ok_and(|kind| kind.is_symlink()));
        let mut paths: Vec<HostPath> =
            files.filter_map(|entry| Some(HostPath::from(dir).join(entry.file_name().to_str()?))).collect();
        paths.sort();
        paths
    }

    fn note_program(&self, path: &str) {
        self.note(path);
        let Ok(real) = self.root.resolve(path) else { return };
        let Ok(seen) = fs::metadata(&real) else { return };
        let mark = format!("{}:{}:{}:{}", seen.dev(), seen.ino(), seen.mtime(), seen.size());
        let known = self.before.filter(|program| program.path == path && program.mark == mark).cloned();
        let program = known.unwrap_or_else(|| {
            let release = release::find(&real);
            Program { path: HostPath::from(path), mark, release }
        });
        self.found.borrow_mut().program = Some(program);
    }
}
