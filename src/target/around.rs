//! What else of the host says something about a target, beside its own text.

use std::collections::{BTreeMap, BTreeSet};

use crate::host::HostPath;

/// A text, or why it cannot be read.
pub type FileText = Result<String, String>;

/// Files and directories that a kind reads beside its targets.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Around {
    /// The files that are there
    pub files: BTreeMap<HostPath, FileText>,
    /// Every path that was asked for, there or not
    pub looked: BTreeSet<HostPath>,
    /// The program that runs the scheduler, where the target's kind has one on the host
    pub program: Option<Program>,
    /// The release that the program runs as, where somebody else said so
    pub release: Option<String>,
}

/// A program on the host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    /// Where it is
    pub path: HostPath,
    /// What tells this file from another of the same name
    pub mark: String,
    /// The release that it says it is of
    pub release: Option<String>,
}

/// A way to other files of the host.
pub trait HostFiles {
    /// The text of a file; nothing for one that is not there.
    fn text(&self, path: &str) -> Option<FileText>;

    /// The paths of the files in a directory, sorted.
    fn files_in(&self, dir: &str) -> Vec<HostPath>;

    /// Takes note of the program that runs the scheduler.
    fn note_program(&self, _path: &str) {}
}

impl HostFiles for Around {
    fn text(&self, path: &str) -> Option<FileText> {
        self.files.get(path).cloned()
    }

    fn files_in(&self, dir: &str) -> Vec<HostPath> {
        self.files.keys().filter(|path| path.split().0 == dir).cloned().collect()
    }
}

/// Where a text is, and what is around it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The path of the target
    pub path: &'a str,
    /// What else the host says
    pub around: &'a Around,
}
