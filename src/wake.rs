//! What wakes the agent besides the cluster: changes in directories. A wake while the agent is busy is kept.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use notify::{Config, EventHandler, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Paths that changed since somebody asked; an empty path stands for "anything may have".
#[derive(Debug, Default)]
struct Changed {
    paths: Mutex<BTreeSet<PathBuf>>,
    bell: Notify,
}

impl Changed {
    fn ring(&self, paths: impl IntoIterator<Item = PathBuf>) {
        self.paths.lock().unwrap_or_else(PoisonError::into_inner).extend(paths);
        self.bell.notify_one();
    }
}

struct Ear(Arc<Changed>);

impl EventHandler for Ear {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if event.need_rescan() => self.0.ring([PathBuf::new()]),
            Ok(event) => self.0.ring(event.paths),
            Err(_) => self.0.ring([PathBuf::new()]),
        }
    }
}

/// Directories that are watched.
#[derive(Debug, Default)]
pub struct Wakes {
    changed: Arc<Changed>,
    watcher: Option<RecommendedWatcher>,
    watched: BTreeSet<PathBuf>,
}

impl Wakes {
    /// Watches these directories and no others; says why one cannot be watched. One that was replaced is watched anew.
    pub fn keep(&mut self, dirs: &BTreeSet<PathBuf>) -> Result<(), String> {
        if *dirs == self.watched && self.watcher.is_some() {
            return Ok(());
        }
        self.watched.clear();
        // access is not asked for: the kubelet opens every file here every 20 seconds
        let config = Config::default().with_event_kinds(EventKindMask::CORE);
        let watcher = RecommendedWatcher::new(Ear(Arc::clone(&self.changed)), config);
        let mut watcher = watcher.map_err(|error| error.to_string())?;
        let mut trouble = None;
        for dir in dirs {
            match watcher.watch(dir, RecursiveMode::NonRecursive) {
                Ok(()) => drop(self.watched.insert(dir.clone())),
                Err(error) => trouble = Some(format!("{}: {error}", dir.display())),
            }
        }
        self.watcher = Some(watcher);
        trouble.map_or(Ok(()), Err)
    }

    /// Waits until something changes, and tells what.
    pub async fn next(&mut self) -> BTreeSet<PathBuf> {
        loop {
            let paths = std::mem::take(&mut *self.changed.paths.lock().unwrap_or_else(PoisonError::into_inner));
            // a directory that is gone is watched again once it is back
            self.watched.retain(|dir| !paths.contains(dir));
            if !paths.is_empty() {
                return paths;
            }
            self.changed.bell.notified().await;
        }
    }
}

/// Whether a change says nothing: to an unfinished file of ours, or to what the kubelet prepares beside `..data` before it
/// swaps a ConfigMap and removes afterwards. Who looked at that would be busy when the swap comes.
pub fn is_of_no_account(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    crate::journal::is_unfinished(name) || name.starts_with("..") && name != "..data"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_swap_of_a_config_map_counts() {
        let of_no_account = |name: &str| is_of_no_account(&Path::new("/etc/schedpatch/source").join(name));
        assert!(of_no_account("..2026_11_17_05_40_35.123456789") && of_no_account("..data_tmp"));
        assert!(of_no_account(".kube-scheduler.yaml.schedpatch"));
        for news in ["..data", "config.yaml", ".kube-scheduler.yaml.swp"] {
            assert!(!of_no_account(news), "{news}");
        }
        assert!(!is_of_no_account(Path::new("")), "anything may have changed");
        assert!(!is_of_no_account(Path::new("/etc/schedpatch/source")), "the directory itself");
    }
}
