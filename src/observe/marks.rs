//! Whether anything may have changed since a look, for much less than a look: by what the system notes of files.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Snapshot;
use crate::journal::{REVISIONS_DIR, STATE_FILE, TEXTS_DIR};
use crate::settings::Settings;

/// Which file it is, when it last changed, and its size.
type Mark = (u64, u64, i64, i64, u64);

/// What the system notes of the files that a look read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marks(Vec<(PathBuf, Mark)>);

impl Marks {
    /// The marks of what a look found; none if not all of it can be seen, and who needs to know must look.
    pub fn of(settings: &Settings, snapshot: &Snapshot) -> Option<Self> {
        let marked = paths(settings, snapshot).into_iter().map(|path| Some((path.clone(), mark(&path)?)));
        marked.collect::<Option<_>>().map(Self)
    }
}

/// A change of content, of a name or of rights moves the time of change, which nobody can set.
fn mark(path: &Path) -> Option<Mark> {
    let seen = fs::symlink_metadata(path).ok()?;
    Some((seen.dev(), seen.ino(), seen.ctime(), seen.ctime_nsec(), seen.size()))
}

fn paths(settings: &Settings, snapshot: &Snapshot) -> Vec<PathBuf> {
    let on_host = |path: &str| settings.host_root.join(path.trim_start_matches('/'));
    let in_state = |name: &str| on_host(&settings.state_dir).join(name);
    let mut paths: Vec<PathBuf> = vec![on_host(&settings.state_dir)];
    paths.extend([STATE_FILE, TEXTS_DIR, REVISIONS_DIR].map(in_state));
    paths.extend(snapshot.state.revisions.iter().map(|revision| in_state(REVISIONS_DIR).join(revision)));
    paths.extend(snapshot.state.revision_files.keys().map(|path| on_host(path)));
    for (dir, files) in &snapshot.facts.manifests {
        if let Ok(Some(files)) = files {
            paths.push(on_host(dir));
            paths.extend(files.iter().map(|file| on_host(&file.path)));
        }
    }
    paths.extend(snapshot.bases.keys().map(|path| on_host(path)));
    for (dir, source) in settings.sources.iter().zip(&snapshot.sources) {
        // a ConfigMap's files change by its one link
        let link = dir.join("..data");
        paths.push(dir.clone());
        if fs::symlink_metadata(&link).is_ok() {
            paths.push(link);
        } else {
            paths.extend(source.files.keys().map(|name| dir.join(name)));
        }
    }
    paths
}
