//! A file in a directory of targets, as it was read.

use crate::host::HostPath;

/// A file of a directory in which targets are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetFile {
    /// Its path on the host
    pub path: HostPath,
    /// Its text, or why it is none
    pub text: Result<String, String>,
    /// Permission bits
    pub mode: u32,
    /// Whether it is a link to a file elsewhere
    pub is_link: bool,
    /// Whether a killed run left its unfinished copy beside it
    pub has_leftover: bool,
}

impl TargetFile {
    /// Whether it may be about a scheduler: by a word in it, or by its name, since it may be empty or broken.
    pub fn names_scheduler(&self) -> bool {
        self.is_named_scheduler() || self.text.as_ref().is_ok_and(|text| text.contains("kube-scheduler"))
    }

    /// Whether its file name says so.
    pub fn is_named_scheduler(&self) -> bool {
        self.path.name().contains("scheduler")
    }
}
