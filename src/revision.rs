//! The identity of what is wanted (digest) and of what is written (revision): SHA-256 over framed parts.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::overrides::{OnUpgrade, SchedulerOverrides};

/// Raised when the same input is written differently than before, so that nodes notice.
const EDIT_FORMAT: &str = "static-pod/1";

/// Hex digits of a revision: enough to name a directory, short enough to read aloud.
pub(crate) const REVISION_DIGITS: usize = 12;

/// A SHA-256.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
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

    /// Over everything that is asked for: the sources, and what flags ask of the scheduler. Without such flags it is the digest of
    /// the sources.
    pub fn of_wanted<'a>(
        sources: impl IntoIterator<Item = &'a BTreeMap<String, Vec<u8>>>,
        overrides: &SchedulerOverrides,
    ) -> Self {
        let of_sources = Self::of_sources(sources);
        if *overrides == SchedulerOverrides::default() {
            return of_sources;
        }
        let SchedulerOverrides { image, version, command, run_as_user, image_on_upgrade, args, mounts, dns_policy } =
            overrides;
        let one = |name: &str, text: &Option<String>| text.as_ref().map(|text| format!("{name} {text}"));
        let args = args.iter().map(|(name, value)| format!("arg {name}={value}"));
        let mounts = mounts.iter().map(|path| format!("mount {path}"));
        let user = run_as_user.map(|user| format!("user {user}"));
        let keep = (*image_on_upgrade == OnUpgrade::Keep).then(|| "on-upgrade keep".to_owned());
        let single = [one("image", image), one("version", version), one("dns", dns_policy), one("command", command)];
        let single = single.into_iter().chain([user, keep]).flatten();
        let parts: Vec<String> = single.chain(args).chain(mounts).chain([of_sources.to_string()]).collect();
        Self::of_parts(parts.iter().map(String::as_bytes))
    }

    /// Over the files of each source, in the order of the sources.
    pub fn of_sources<'a>(sources: impl IntoIterator<Item = &'a BTreeMap<String, Vec<u8>>>) -> Self {
        let sources: Vec<_> = sources.into_iter().map(|files| Self::of_files(files).to_string()).collect();
        Self::of_parts(sources.iter().map(String::as_bytes))
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

impl From<Digest> for String {
    fn from(digest: Digest) -> Self {
        digest.to_string()
    }
}

impl TryFrom<String> for Digest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let wrong = "a digest has 64 hexadecimal digits";
        let lower = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
        if text.len() != 64 || !text.as_bytes().iter().all(lower) {
            return Err(wrong);
        }
        let mut digest = [0; 32];
        for (byte, pair) in digest.iter_mut().zip(text.as_bytes().chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| wrong)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| wrong)?;
        }
        Ok(Self(digest))
    }
}

/// The revision of all that is written on a node except the generation: the composed files before `$(SCHEDPATCH_DIR)` is
/// expanded, and what the manifest shall say besides.
pub fn revision(files: &BTreeMap<String, Vec<u8>>, overrides: &SchedulerOverrides) -> String {
    let SchedulerOverrides { image, command, run_as_user, args, mounts, dns_policy, .. } = overrides;
    let of_files = Digest::of_files(files).0;
    let args: Vec<_> = args.iter().map(|(name, value)| format!("{name}={value}")).collect();
    let list = |parts: &[String]| Digest::of_parts(parts.iter().map(String::as_bytes)).0;
    let (args, mounts) = (list(&args), list(mounts));
    let text = |text: &Option<String>| text.clone().unwrap_or_default().into_bytes();
    let (image, dns_policy) = (text(image), text(dns_policy));
    let mut parts: Vec<&[u8]> = vec![EDIT_FORMAT.as_bytes(), &of_files, &image, &args, &mounts, &dns_policy];
    // what came later is there only where it is asked for, so that older revisions keep their names
    let program =
        (command.as_ref().map(|command| format!("command {command}")), run_as_user.map(|user| format!("user {user}")));
    parts.extend([&program.0, &program.1].into_iter().flatten().map(String::as_bytes));
    let mut revision = Digest::of_parts(parts).to_string();
    revision.truncate(REVISION_DIGITS);
    revision
}
