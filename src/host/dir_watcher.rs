//! Watches directories for the agent. A change while the agent is busy is kept until it asks.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use notify::event::{EventKind, ModifyKind};
use notify::{Config, EventHandler, EventKindMask, RecommendedWatcher, RecursiveMode, Watcher as _};
use tokio::sync::Notify;

/// Who writes a file in place is done when so long nothing was written.
const QUIET: Duration = Duration::from_millis(100);
/// Who never stops is not waited for.
const MAX_QUIETS: usize = 20;

#[derive(Debug, Default)]
struct Changed {
    news: Mutex<Pending>,
    notify: Notify,
}

/// What changed since somebody asked.
#[derive(Debug, Default)]
struct Pending {
    /// An empty path means that anything may have changed
    paths: BTreeSet<PathBuf>,
    /// Whether a file was written in place, so that it may be half a file
    in_place: bool,
}

impl Changed {
    fn ring(&self, paths: Vec<PathBuf>, in_place: bool) {
        let mut news = self.news.lock().unwrap_or_else(PoisonError::into_inner);
        news.in_place |= in_place;
        news.paths.extend(paths);
        self.notify.notify_one();
    }

    fn take(&self) -> Pending {
        std::mem::take(&mut *self.news.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

struct Handler(Arc<Changed>);

impl EventHandler for Handler {
    fn handle_event(&mut self, event: notify::Result<notify::Event>) {
        match event {
            Ok(event) if !event.need_rescan() => {
                let writes = matches!(event.kind, EventKind::Create(_) | EventKind::Modify(ModifyKind::Data(_)));
                let in_place = writes && !event.paths.iter().all(|path| is_ignorable(path));
                self.0.ring(event.paths, in_place);
            }
            _ => self.0.ring(vec![PathBuf::new()], false),
        }
    }
}

/// Who sees the changes.
#[derive(Debug, Default)]
enum Eye {
    #[default]
    None,
    System(RecommendedWatcher),
    /// A [`Ringer`], which says what is watched
    Ringer(Ringer),
}

/// Tells of changes in the place of the system, and like the system only of those in watched directories.
#[derive(Clone, Debug)]
pub struct Ringer {
    changed: Arc<Changed>,
    watched: Dirs,
    refused: Dirs,
}

type Dirs = Arc<Mutex<BTreeSet<PathBuf>>>;

impl Ringer {
    /// From the next look on, this directory cannot be watched.
    pub fn refuse(&self, dir: &Path) {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner).insert(dir.to_owned());
    }

    /// Something happened to this path; says whether anybody watches it.
    pub fn ring(&self, path: &Path) -> bool {
        let watched = self.watched.lock().unwrap_or_else(PoisonError::into_inner);
        let is_watched = path.parent().is_some_and(|dir| watched.contains(dir));
        if is_watched {
            self.changed.ring(vec![path.to_owned()], false);
        }
        is_watched
    }
}

/// Directories that are watched.
#[derive(Debug, Default)]
pub struct DirWatcher {
    changed: Arc<Changed>,
    watcher: Eye,
    watched: BTreeSet<PathBuf>,
    /// Those that cannot be watched
    failed: BTreeSet<PathBuf>,
    /// Whether what was told last was written in place
    in_place: bool,
}

impl DirWatcher {
    /// DirWatcher that a [`Ringer`] rings.
    pub fn rung() -> (Self, Ringer) {
        let (changed, watched, refused) = <(Arc<Changed>, Dirs, Dirs)>::default();
        let ringer = Ringer { changed: Arc::clone(&changed), watched, refused };
        (Self { changed, watcher: Eye::Ringer(ringer.clone()), ..Self::default() }, ringer)
    }

    /// Watches these directories and no others; says whether the watch is new, and why one cannot be watched. One that was
    /// replaced is watched anew.
    pub fn keep(&mut self, dirs: &BTreeSet<PathBuf>) -> (bool, Option<String>) {
        if *dirs == self.watched && !matches!(self.watcher, Eye::None) {
            return (false, None);
        }
        if let Eye::Ringer(ringer) = &self.watcher {
            let refused = ringer.refused.lock().unwrap_or_else(PoisonError::into_inner);
            let done: BTreeSet<_> = dirs.difference(&refused).cloned().collect();
            let trouble = dirs.intersection(&refused).next().map(|dir| format!("{}: refused", dir.display()));
            let is_new = done != self.watched;
            ringer.watched.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&done);
            self.watched = done;
            return (is_new, trouble);
        }
        if let (Eye::System(watcher), true) = (&mut self.watcher, dirs.iter().eq(self.watched.union(&self.failed))) {
            // only what could not be watched before is tried again
            let failed = std::mem::take(&mut self.failed);
            let (done, trouble) = watch(watcher, &failed);
            self.failed = failed.difference(&done).cloned().collect();
            let is_new = !done.is_empty();
            self.watched.extend(done);
            return (is_new, trouble);
        }
        // access is not asked for: the kubelet opens every file here every 20 seconds
        let config = Config::default().with_event_kinds(EventKindMask::CORE);
        let watcher = RecommendedWatcher::new(Handler(Arc::clone(&self.changed)), config);
        let mut watcher = match watcher {
            Ok(watcher) => watcher,
            Err(error) => return (false, Some(error.to_string())),
        };
        let (done, trouble) = watch(&mut watcher, dirs);
        self.failed = dirs.difference(&done).cloned().collect();
        self.watched = done;
        self.watcher = Eye::System(watcher);
        (true, trouble)
    }

    /// Waits until something changes, and tells what.
    pub async fn next(&mut self) -> BTreeSet<PathBuf> {
        loop {
            let paths = self.take();
            if !paths.is_empty() {
                return paths;
            }
            self.changed.notify.notified().await;
        }
    }

    /// Waits until who writes in place is done; after a rename there is nothing to wait for.
    pub async fn quiet(&mut self) {
        for _ in 0..MAX_QUIETS {
            if !std::mem::take(&mut self.in_place) {
                return;
            }
            tokio::time::sleep(QUIET).await;
            self.take();
        }
    }

    fn take(&mut self) -> BTreeSet<PathBuf> {
        let Pending { paths, in_place } = self.changed.take();
        // a directory that is gone is watched again once it is back
        self.watched.retain(|dir| !paths.contains(dir));
        self.in_place |= in_place;
        paths
    }
}

/// Those that are watched now, and why one is not.
fn watch(watcher: &mut RecommendedWatcher, dirs: &BTreeSet<PathBuf>) -> (BTreeSet<PathBuf>, Option<String>) {
    let (mut done, mut trouble) = (BTreeSet::new(), None);
    for dir in dirs {
        match watcher.watch(dir, RecursiveMode::NonRecursive) {
            Ok(()) => drop(done.insert(dir.clone())),
            Err(error) => trouble = Some(format!("{}: {error}", dir.display())),
        }
    }
    (done, trouble)
}

/// Whether a change says nothing: to an unfinished file of ours, or to what the kubelet prepares beside `..data` before it
/// swaps a ConfigMap and removes afterwards. Who looked at that would be busy when the swap comes.
pub fn is_ignorable(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    super::is_unfinished(name) || name.starts_with("..") && name != "..data"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_swap_of_a_config_map_counts() {
        let of_no_account = |name: &str| is_ignorable(&Path::new("/etc/schedpatch/source").join(name));
        assert!(of_no_account("..2026_11_17_05_40_35.123456789") && of_no_account("..data_tmp"));
        assert!(of_no_account(".kube-scheduler.yaml.schedpatch"));
        for news in ["..data", "config.yaml", ".kube-scheduler.yaml.swp"] {
            assert!(!of_no_account(news), "{news}");
        }
        assert!(!is_ignorable(Path::new("")), "anything may have changed");
        assert!(!is_ignorable(Path::new("/etc/schedpatch/source")), "the directory itself");
    }
}
