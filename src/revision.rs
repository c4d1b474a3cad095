//! The identity of what is wanted (digest) and of what is written (revision): SHA-256 over framed parts.

use std::collections::BTreeMap;
use std::fmt;

use sha2::{Digest as _, Sha256};

/// Raised when the same input is written differently than before, so that nodes notice.
const EDIT_FORMAT: &str = "static-pod/1";

/// Hex digits of a revision: enough to name a directory, short enough to read aloud.
const REVISION_DIGITS: usize = 12;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Over parts of which each is preceded by its length, so that no two lists of parts give the same bytes.
    pub fn of_parts<'a>(parts: impl IntoIterator<Item = &'a [u8]>) -> Self {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Over the bytes of one file.
    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Over files: names and contents, in the order of the names.
    pub fn of_files(files: &BTreeMap<String, Vec<u8>>) -> Self {
        Self::of_parts(files.iter().flat_map(|(name, content)| [name.as_bytes(), content]))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// All that is written on a node, except the generation.
#[derive(Debug)]
pub struct Content<'a> {
    /// The composed config and the files beside it, before `$(SCHEDPATCH_DIR)` is expanded
    pub files: &'a BTreeMap<String, Vec<u8>>,
    /// Another image for the scheduler
    pub image: Option<&'a str>,
    /// Another DNS policy for its pod
    pub dns_policy: Option<&'a str>,
}

impl Content<'_> {
    /// The revision: 12 hex digits.
    pub fn revision(&self) -> String {
        let files = Digest::of_files(self.files).0;
        let parts = [
            EDIT_FORMAT.as_bytes(),
            &files,
            self.image.unwrap_or_default().as_bytes(),
            self.dns_policy.unwrap_or_default().as_bytes(),
        ];
        let mut text = Digest::of_parts(parts).to_string();
        text.truncate(REVISION_DIGITS);
        text
    }
}
