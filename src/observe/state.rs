//! Our own directory on the host: the generation so far, and which revision files are there already.

use std::collections::BTreeMap;
use std::fs;
use std::io;

use serde::Deserialize;

use super::host::{self, HostRoot};
use crate::finding::Finding;
use crate::revision::Digest;

/// What the state directory says.
#[derive(Clone, Debug, Default)]
pub struct State {
    /// The last generation that was committed here
    pub generation: u64,
    /// Digest of every file under `revisions/`, by its path on the host
    pub revision_files: BTreeMap<String, Digest>,
}

#[derive(Deserialize)]
struct Journal {
    generation: u64,
}

/// Reads the state directory; one that is not there says nothing.
pub(super) fn read(root: &HostRoot, dir: &str) -> Result<State, Finding> {
    let journal_path = format!("{dir}/state.json");
    let failed = |path: &str, why: String| {
        let way_out = "mend or remove it; without it the generation is read from the manifest";
        Finding::error("state", format!("cannot read the state: {why}"), way_out).in_file(path)
    };
    let generation = match host::read_small(root, &journal_path) {
        Ok(bytes) => {
            let journal: Journal =
                serde_json::from_slice(&bytes).map_err(|error| failed(&journal_path, error.to_string()))?;
            journal.generation
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => 0,
        Err(error) => return Err(failed(&journal_path, error.to_string())),
    };
    let revisions = format!("{dir}/revisions");
    let revision_files = read_revisions(root, &revisions).map_err(|error| failed(&revisions, error.to_string()))?;
    Ok(State { generation, revision_files })
}

fn read_revisions(root: &HostRoot, dir: &str) -> io::Result<BTreeMap<String, Digest>> {
    let mut files = BTreeMap::new();
    let Ok(real) = root.resolve(dir) else { return Ok(files) };
    for revision in fs::read_dir(real)? {
        let revision = revision?;
        if !revision.file_type()?.is_dir() {
            continue;
        }
        for file in fs::read_dir(revision.path())? {
            let file = file?;
            if file.file_type()?.is_file() {
                let path = format!("{dir}/{}/{}", revision.file_name().display(), file.file_name().display());
                files.insert(path, Digest::of_bytes(&host::read_small_file(&file.path())?));
            }
        }
    }
    Ok(files)
}
