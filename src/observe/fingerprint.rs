//! Whether anything may have changed since a look, for much less than a look: by what the system notes of files.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Snapshot;
use crate::host::{HostPath, HostRoot};
use crate::journal::{REVISIONS_DIR, STATE_FILE, TEXTS_DIR};
use crate::settings::Settings;

/// Which file it is, when it last changed, and its size.
type Mark = (u64, u64, i64, i64, u64);

/// What the system notes of the files that a look read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fingerprint(Vec<(PathBuf, Mark)>);

impl Fingerprint {
    /// The marks of what a look found; none if not all of it can be seen, and who needs to know must look.
    pub fn of(settings: &Settings, snapshot: &Snapshot) -> Option<Self> {
        // sources that could not be read may be readable now
        snapshot.sources.as_ref().ok()?;
        let marked = paths(settings, snapshot)?.into_iter().map(|path| Some((path.clone(), mark(&path)?)));
        marked.collect::<Option<_>>().map(Self)
    }
}

/// A change of content, name or rights moves the ctime, which no program can set.
fn mark(path: &Path) -> Option<Mark> {
    let seen = fs::symlink_metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.ctime(), seen.ctime_nsec(), seen.size()))
}

/// Every file and link that a look goes by; none if one of them is not there any more.
fn paths(settings: &Settings, snapshot: &Snapshot) -> Option<BTreeSet<PathBuf>> {
    let root = HostRoot::new(&settings.host_root);
    let in_state = |name: &str| settings.state_dir.join(name);
    let mut paths = BTreeSet::new();
    let mut on_host: Vec<HostPath> = vec![settings.state_dir.clone()];
    on_host.extend([STATE_FILE, TEXTS_DIR, REVISIONS_DIR].map(in_state));
    on_host.extend(snapshot.state.revisions.iter().map(|revision| in_state(&format!("{REVISIONS_DIR}/{revision}"))));
    on_host.extend(snapshot.state.revision_files.keys().cloned().map(HostPath::from));
    for (dir, files) in &snapshot.facts.manifests {
        if let Ok(Some(files)) = files {
            // a file of our own need not be there, nor its directory
            let (own, there) = files.iter().partition::<Vec<_>, _>(|file| file.text.as_deref() == Ok(""));
            paths.extend(own.iter().flat_map(|file| root.trail(&file.path)));
            on_host.extend(there.iter().map(|file| file.path.clone()));
            if own.is_empty() {
                on_host.push(dir.clone());
            }
        }
    }
    on_host.extend(snapshot.bases.keys().cloned().map(HostPath::from));
    on_host.extend(settings.overrides.mounts.iter().cloned().map(HostPath::from));
    for path in &on_host {
        root.resolve(path).ok()?;
        paths.extend(root.trail(path));
    }
    // what is not there yet shows in the directory above it
    paths.extend(snapshot.facts.around.looked.iter().flat_map(|path| root.trail(path)));
    let sources = snapshot.sources.as_deref().unwrap_or_default();
    for (dir, source) in settings.sources.iter().zip(sources) {
        // a ConfigMap's files change by its one link
        let link = dir.join("..data");
        paths.insert(dir.clone());
        if !dir.is_dir() {
            paths.insert(fs::canonicalize(dir).ok()?);
        } else if fs::symlink_metadata(&link).is_ok() {
            paths.insert(link);
        } else {
            paths.extend(source.files.keys().map(|name| dir.join(name)));
        }
    }
    Some(paths)
}
