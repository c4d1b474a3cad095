//! Notices when files are replaced: by looking at them, which works for mounted ConfigMaps and Secrets alike.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Pause between two looks. The kubelet takes up to a minute to show a changed ConfigMap anyway.
const PAUSE: Duration = Duration::from_secs(2);

/// What a file looks like from outside; clocks that jump do not matter, since any difference counts.
type Look = Option<(u64, u64, i64, i64)>;

/// Files that are looked at together.
#[derive(Debug)]
pub struct Files {
    paths: Vec<PathBuf>,
    looks: Vec<Look>,
}

impl Files {
    /// Remembers what these files look like now.
    pub fn new(paths: Vec<PathBuf>) -> Self {
        let looks = paths.iter().map(|path| look(path)).collect();
        Self { paths, looks }
    }

    /// Waits until one of them is another file, or gone, or back.
    pub async fn changed(&mut self) {
        loop {
            tokio::time::sleep(PAUSE).await;
            if self.has_changed() {
                return;
            }
        }
    }

    fn has_changed(&mut self) -> bool {
        let looks: Vec<Look> = self.paths.iter().map(|path| look(path)).collect();
        let has_changed = looks != self.looks;
        self.looks = looks;
        has_changed
    }
}

fn look(path: &Path) -> Look {
    let about = std::fs::metadata(path).ok()?;
    Some((about.ino(), about.len(), about.mtime(), about.mtime_nsec()))
}

#[cfg(test)]
#[allow(clippy::disallowed_methods, reason = "a test makes and breaks its own files")]
mod tests {
    use super::*;

    #[test]
    fn a_swapped_link_is_noticed_as_the_kubelet_swaps_it() {
        let dir = std::env::temp_dir().join(format!("schedpatch-watchfile-{}", std::process::id()));
        let (one, two) = (dir.join("one"), dir.join("two"));
        for (place, text) in [(&one, "a"), (&two, "b")] {
            std::fs::create_dir_all(place).expect("made");
            std::fs::write(place.join("file"), text).expect("written");
        }
        let data = dir.join("..data");
        let link = |to: &Path| {
            std::os::unix::fs::symlink(to, dir.join("new")).expect("linked");
            std::fs::rename(dir.join("new"), &data).expect("renamed");
        };
        link(&one);
        let mut files = Files::new(vec![data.join("file")]);
        assert!(!files.has_changed());
        link(&two);
        assert!(files.has_changed() && !files.has_changed());
        std::fs::remove_file(&data).expect("removed");
        assert!(files.has_changed() && !files.has_changed());
        std::fs::remove_dir_all(&dir).expect("removed");
    }
}
