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
    /// Where its text is tried, if it is not only in the file
    pub trial: Option<OnTrial>,
}

/// A text on trial: another place says what runs, and the file itself is as it was before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OnTrial {
    /// The other place
    pub place: HostPath,
    /// What the file itself holds
    pub on_disk: String,
    /// Whether the other place means nothing any more: the file was changed since
    pub is_stale: bool,
}

impl TargetFile {
    /// Whether it may be about a scheduler: by a word in it, or by its name, since it may be empty or broken.
    pub fn names_scheduler(&self) -> bool {
        self.is_named_scheduler() || self.text.as_ref().is_ok_and(|text| text.contains("kube-scheduler"))
    }

    /// Whether a word is in its text, on trial or in the file itself.
    pub fn mentions(&self, word: &str) -> bool {
        let on_disk = self.trial.as_ref().is_some_and(|trial| trial.on_disk.contains(word));
        on_disk || self.text.as_ref().map_or(true, |text| text.contains(word))
    }

    /// Whether its file name says so.
    pub fn is_named_scheduler(&self) -> bool {
        self.path.name().contains("scheduler")
    }
}
