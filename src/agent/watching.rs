//! What wakes the agent: watched directories, and a fingerprint of files for the slow timer.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use super::{Agent, Seen};
use crate::cluster::ConfigMaps;
use crate::host::dir_watcher::{DirWatcher, is_ignorable};
use crate::host::{HostPath, HostRoot};
use crate::journal::{LOCK_FILE, STATE_FILE};
use crate::observe::{self, Fingerprint};
use crate::phase::Phase;
use crate::revision::Digest;
use crate::target::{Identity, Observer};
use crate::verify::Health;

/// What the agent watches.
#[derive(Debug)]
pub(super) struct Watched {
    pub dirs: DirWatcher,
    /// Why not every directory can be watched
    pub trouble: Option<String>,
    /// Files whose content the agent knows, by their place in its own tree: its own writes are no news
    pub known_files: Vec<(PathBuf, Digest)>,
    /// The scheduler, by what it is called
    pub scheduler: Option<(Identity, Box<dyn Observer>)>,
    /// The scheduler's own endpoint, by its address
    pub health: Option<(String, Health)>,
    /// The sources, where they come through the API
    pub config_maps: Option<ConfigMaps>,
    /// Why they may not be read there
    pub forbidden: Option<String>,
}

impl Watched {
    pub fn new(dirs: DirWatcher) -> Self {
        Self {
            dirs,
            trouble: None,
            known_files: Vec::new(),
            scheduler: None,
            health: None,
            config_maps: None,
            forbidden: None,
        }
    }
}

impl Agent {
    /// Keeps the watches where they are needed; says whether there are new ones.
    pub(super) fn watch_over(&mut self, seen: &Seen) -> bool {
        let dirs = self.dirs_to_watch(seen);
        let state_file = format!("{}/{STATE_FILE}", self.settings.state_dir);
        let target = seen.plan.target.as_ref().map(|target| (target.path.as_str(), target.digest));
        let journal = seen.snapshot.state.digest.map(|digest| (state_file.as_str(), digest));
        let known = target.into_iter().chain(journal);
        self.watched.known_files = known.filter_map(|(path, digest)| Some((self.on_host(path)?, digest))).collect();
        let (is_new, trouble) = self.watched.dirs.keep(&dirs);
        if let Some(why) = trouble.as_ref().filter(|why| self.watched.trouble.as_ref() != Some(why)) {
            let every = self.options.resync.as_secs();
            tracing::warn!("cannot watch everything ({why}); checking every {every} s instead");
        }
        self.watched.trouble = trouble;
        is_new
    }

    /// Links are followed as the host would, and the directory of each link on the way is watched too: it may be pointed
    /// elsewhere.
    fn dirs_to_watch(&self, seen: &Seen) -> BTreeSet<PathBuf> {
        let of_files = seen.snapshot.bases.keys().map(String::as_str).chain(seen.journal.target.as_deref());
        let of_dirs = seen.snapshot.facts.manifest_dirs().chain([self.settings.state_dir.as_str()]);
        let mut dirs = BTreeSet::new();
        let around = seen.snapshot.facts.around.files.keys().map(HostPath::as_str);
        for path in of_files.chain(around).filter_map(|path| path.rsplit_once('/').map(|(dir, _)| dir)).chain(of_dirs) {
            // a directory that is gone for a while shows up in what it is made in
            let is_target = seen.journal.target.as_deref().is_some_and(|target| target.starts_with(path));
            let is_there = self.on_host(path).is_some_and(|dir| dir.is_dir());
            if is_there || is_target {
                dirs.extend(observe::places(&self.settings, path).iter().filter_map(|place| watchable(place)));
            }
        }
        for source in self.settings.sources.iter().filter(|_| self.settings.given.is_none()) {
            let source = std::path::absolute(source).unwrap_or_else(|_| source.clone());
            dirs.extend(observe::own_places(&source).iter().filter_map(|place| watchable(place)));
        }
        dirs
    }

    /// Where a path of the host is in the agent's own tree.
    fn on_host(&self, path: &str) -> Option<PathBuf> {
        HostRoot::new(&self.settings.host_root).resolve(path).ok()
    }

    /// Whether somebody else changed something that matters.
    pub(super) fn is_news(&self, paths: &BTreeSet<PathBuf>) -> bool {
        let is_known = |path: &PathBuf| {
            let known = self.watched.known_files.iter().find(|(known, _)| known == path).map(|(_, digest)| *digest);
            known.is_some() && known == observe::own_content(path).ok().map(|bytes| Digest::of_bytes(&bytes))
        };
        !paths.iter().all(|path| is_ignorable(path) || self.is_own_lock(path) || is_known(path))
    }

    /// Taking the lock writes its file, and that alone changes nothing.
    fn is_own_lock(&self, path: &Path) -> bool {
        path.file_name().is_some_and(|name| name == LOCK_FILE)
            && self.on_host(&self.settings.state_dir).is_some_and(|dir| path.parent() == Some(dir.as_path()))
    }

    /// Takes a fingerprint and looks once more: it is valid only if the snapshot did not change meanwhile.
    pub(super) fn take_fingerprint(&mut self, seen: &Seen) {
        if self.last.fingerprint.is_none() && self.reporting.report.borrow().node_state.phase == Phase::Ready {
            let fingerprint = self.fingerprint_now();
            self.last.fingerprint =
                fingerprint.filter(|_| self.look_once().is_ok_and(|again| again.snapshot == seen.snapshot));
        }
    }

    pub(super) fn fingerprint_now(&self) -> Option<Fingerprint> {
        Fingerprint::of(&self.settings, self.last.snapshot.as_ref()?)
    }

    /// Whether anything may have changed that a look would see; asked when no event came.
    pub(super) fn has_changed(&self) -> bool {
        self.last.fingerprint.is_none() || self.last.fingerprint != self.fingerprint_now()
    }
}

/// The directory in which changes of a place show: itself, or for anything else the one that holds it.
fn watchable(place: &Path) -> Option<PathBuf> {
    let is_dir = std::fs::symlink_metadata(place).is_ok_and(|metadata| metadata.is_dir());
    if is_dir { Some(place.to_owned()) } else { place.parent().map(Path::to_owned) }
}
