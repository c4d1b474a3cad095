//! What a host shows about itself: marker files, and the manifests of its static pods. Data; `observe` fills it in.

use std::collections::{BTreeMap, BTreeSet};

use crate::finding::Finding;
use crate::host::HostPath;
use crate::revision::Digest;
use crate::target::{Around, TargetFile};

/// What the host shows about itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostFacts {
    pub(crate) paths: BTreeSet<&'static str>,
    pub(crate) texts: BTreeMap<&'static str, String>,
    pub(crate) manifests: BTreeMap<HostPath, Result<Option<Vec<TargetFile>>, Finding>>,
    /// Manifests in directories that are not asked about, but whose pods may use files of ours
    pub(crate) elsewhere: Vec<TargetFile>,
    /// Manifests of preflights, finished or not
    pub(crate) preflights: Vec<HostPath>,
    pub(crate) given_dir: Option<HostPath>,
    /// What kinds of targets read beside their directories
    pub(crate) around: Around,
}

impl HostFacts {
    /// Whether a marker's path is there.
    pub fn has(&self, path: &str) -> bool {
        self.paths.contains(path)
    }

    /// Whether a marker's file has exactly this line, in quotes or not.
    pub fn has_line(&self, path: &str, line: &str) -> bool {
        self.texts.get(path).is_some_and(|text| text.lines().any(|own| own.trim().replace(['"', '\''], "") == line))
    }

    /// The first file that may be about a scheduler in this very directory.
    pub fn scheduler_in(&self, dir: &str) -> Option<&str> {
        let files = self.manifests.get(dir)?.as_ref().ok()?.as_deref()?;
        files.iter().find(|file| file.names_scheduler()).map(|file| file.path.as_str())
    }

    /// The files of a platform's manifest directory, or of the one that was given instead; `None` if it is not there.
    pub fn manifests_in(&self, dir: &str) -> Result<Option<&[TargetFile]>, Finding> {
        match self.manifests.get(self.manifest_dir(dir)) {
            Some(Ok(files)) => Ok(files.as_deref()),
            Some(Err(finding)) => Err(finding.clone()),
            None => Ok(None),
        }
    }

    /// A manifest directory that could not be read.
    pub fn unreadable_dir(&self) -> Option<&Finding> {
        self.manifests.values().find_map(|files| files.as_ref().err())
    }

    /// The manifest directory that counts.
    pub fn manifest_dir<'a>(&'a self, dir: &'a str) -> &'a str {
        self.given_dir().unwrap_or(dir)
    }

    /// The manifest directory that was asked for, directly or as that of the target.
    pub fn given_dir(&self) -> Option<&str> {
        self.given_dir.as_deref()
    }

    /// The manifests that hold a word, or that cannot be read.
    pub fn mentioning<'a>(&'a self, word: &'a str) -> impl Iterator<Item = &'a TargetFile> {
        let files = self.manifests.values().flatten().flatten().flatten().chain(&self.elsewhere);
        files.filter(move |file| file.mentions(word))
    }

    /// Every file of the manifest directories.
    pub(crate) fn files(&self) -> impl Iterator<Item = &TargetFile> {
        self.manifests.values().flatten().flatten().flatten()
    }

    /// Digest of a manifest's text, if it can be read.
    pub(crate) fn digest_of(&self, path: &str) -> Option<Digest> {
        let mut files = self.manifests.values().flatten().flatten().flatten().chain(&self.elsewhere);
        let text = files.find(|file| file.path == path)?.text.as_ref().ok()?;
        Some(Digest::of_bytes(text.as_bytes()))
    }

    /// Whether a killed run left its unfinished copy of this manifest behind.
    pub fn has_leftover(&self, manifest: &str) -> bool {
        let mut files = self.manifests.values().flatten().flatten().flatten();
        files.any(|file| file.path == manifest && file.has_leftover)
    }

    /// Every manifest directory that was looked at.
    pub fn manifest_dirs(&self) -> impl Iterator<Item = &str> {
        self.manifests.keys().map(HostPath::as_str)
    }
}
