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

/// Whether a change is that of an unfinished file of ours.
pub fn is_own(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(crate::journal::is_unfinished)
}
