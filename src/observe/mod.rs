//! Stage 1: what is there now. Reads only, and everything in one go: the plan is made from this and nothing else.

mod around;
mod fingerprint;
mod manifests;
mod release;
mod sources;
mod state;

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

pub use fingerprint::Fingerprint;
pub use sources::Source;
pub use state::{FileAccess, RevisionFile, State};

use crate::finding::Finding;
use crate::host::{self, HostPath, HostRoot};
use crate::journal::LOCK_FILE;
use crate::platform::{HostFacts, Marker, Platform, Target};
use crate::settings::Settings;
use crate::target::{self, Context, HostMount, Restartable, Specs, TargetFile};
use around::Reader;
use manifests::Listing;

/// Everything that a plan is made from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// What shows the platform, and the manifests
    pub facts: HostFacts,
    /// What the user wants, or why it cannot be read; nothing where only the host was looked at
    pub sources: Result<Vec<Source>, Finding>,
    /// What we did before
    pub state: State,
    /// What the files say that may be about a scheduler
    pub specs: Specs,
    /// Configuration files that schedulers here already have, by their path on the host; or why they cannot be read
    pub bases: BTreeMap<String, Result<Vec<u8>, String>>,
    /// The paths that the scheduler shall see besides, or why one cannot be mounted
    pub mounts: Result<Vec<HostMount>, Finding>,
}

/// How much is looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scope {
    /// The host and our own directory: enough to judge what runs, and to take our edit out
    Host,
    /// The sources too
    All,
}

/// Looks at the host and at the sources.
pub fn take_snapshot(settings: &Settings) -> Result<Snapshot, Finding> {
    take_snapshot_after(settings, Scope::All, None)
}

/// Like [`take_snapshot`], but reuses what an earlier snapshot knows about manifests that have not changed.
pub fn take_snapshot_after(settings: &Settings, scope: Scope, before: Option<&Snapshot>) -> Result<Snapshot, Finding> {
    let root = HostRoot::new(&settings.host_root);
    root.resolve("/").and_then(std::fs::read_dir).map_err(|error| no_host_root(&settings.host_root, &error))?;
    let mut facts = HostFacts { given_dir: settings.manifest_dir(), ..HostFacts::default() };
    for marker in settings.platforms.iter().flat_map(|platform| platform.markers) {
        match marker {
            Marker::Path(path) => {
                if root.exists(path) {
                    facts.paths.insert(path);
                }
            }
            Marker::Line(path, _) => {
                if let Some(text) = root.text(path) {
                    facts.texts.insert(path, text);
                }
            }
            Marker::SchedulerIn(_) => {}
        }
    }
    let reader = Reader::new(&root, before.and_then(|before| before.facts.around.program.as_ref()));
    for dir in manifest_dirs(settings, &facts) {
        let listing = manifests::read_dir(&root, &dir);
        let files = listing.map(|listing| {
            let Listing { files, preflights, hidden } = listing.unwrap_or_else(Listing::absent);
            facts.preflights.extend(preflights);
            files_of_kind(settings, &dir, files, &hidden)
        });
        let files = files.map(|mut files| {
            if let Some(kind) = settings.kind_in(&dir) {
                kind.look_around(files.as_deref_mut().unwrap_or_default(), &reader);
            }
            files
        });
        facts.manifests.insert(dir, files);
    }
    facts.around = reader.found();
    let mut state = state::read(&root, &settings.state_dir)?;
    let of_journal = state.recorded.target.as_ref().map(HostPath::parent);
    let others: BTreeSet<HostPath> = platform_dirs(settings, &facts).into_iter().chain(of_journal).collect();
    for dir in others.iter().filter(|dir| !facts.manifests.contains_key(*dir)) {
        let listing = manifests::read_dir(&root, dir).ok().flatten().unwrap_or_default();
        facts.elsewhere.extend(listing.files.unwrap_or_default());
        facts.preflights.extend(listing.preflights);
    }
    state.settle(|target| facts.digest_of(target));
    let is_same = |before: &&Snapshot| before.facts.manifests == facts.manifests && before.facts.around == facts.around;
    let same = before.filter(is_same);
    let specs = same.map_or_else(|| read_specs(settings, &facts), |before| before.specs.clone());
    note_restart(settings, &facts, &specs, &mut state);
    let bases = match same {
        Some(before) => read_bases(&root, before.bases.keys().cloned()),
        None => read_bases(&root, base_paths(settings, &facts, &specs).into_iter()),
    };
    let (mounts, sources) = match scope {
        Scope::Host => (Ok(Vec::new()), Ok(Vec::new())),
        Scope::All => (
            settings.overrides.mounts.iter().map(|path| find_mount(&root, path)).collect(),
            settings.given.clone().unwrap_or_else(|| settings.sources.iter().map(|dir| sources::read(dir)).collect()),
        ),
    };
    Ok(Snapshot { facts, sources, state, specs, bases, mounts })
}

/// A restart that was asked for has happened once something else runs. Whoever cannot be asked says nothing.
fn note_restart(settings: &Settings, facts: &HostFacts, specs: &Specs, state: &mut State) {
    let target = state.journal.target.as_ref().filter(|_| state.journal.awaits_restart());
    let Some(target) = target.cloned() else { return };
    let Some(Ok(spec)) = specs.get(target.as_str()) else { return };
    let restarter = settings.kind_in(&target.parent()).and_then(|kind| kind.activation(spec).restarter());
    let Some(restarter) = restarter else { return };
    if let Some(text) = facts.digest_of(&target).filter(|_| restarter.must_load()) {
        let generation = spec.ours.as_ref().map(|ours| ours.generation);
        state.journal = std::mem::take(&mut state.journal).without_lost_text(text, generation);
    }
    let at = Restartable { host_root: &settings.host_root, target: &target, spec };
    // first whether it is under way: what happens after this question is seen by the next
    let Ok(is_pending) = restarter.is_pending(&at) else { return };
    let Ok(running) = restarter.instance(&at) else { return };
    let mut journal = std::mem::take(&mut state.journal).restarted(&running, restarter.must_load());
    if !is_pending && restarter.must_load() {
        journal = journal.lost_restart();
    }
    state.journal = journal;
}

/// Whether our directory is there.
pub(crate) fn exists(settings: &Settings) -> bool {
    HostRoot::new(&settings.host_root).exists(&settings.state_dir)
}

/// The host's root cannot be used.
pub(crate) fn no_host_root(root: &Path, error: &io::Error) -> Finding {
    let message = format!("cannot read the host root: {error}");
    let way_out = "give the host's root directory with --host-root DIR";
    Finding::error("host-root", message, way_out).in_file(root.display().to_string())
}

/// The line of the last schedpatch that had the lock, for people.
pub(crate) fn last_writer(settings: &Settings) -> Option<String> {
    let text = HostRoot::new(&settings.host_root).text(&settings.state_dir.join(LOCK_FILE))?;
    Some(text.trim().to_owned()).filter(|line| !line.is_empty())
}

/// Every place in our own tree at which a change may lead a host path elsewhere, or change what is there.
pub(crate) fn places(settings: &Settings, path: &str) -> BTreeSet<PathBuf> {
    HostRoot::new(&settings.host_root).trail(path)
}

/// The same for a path of our own tree.
pub(crate) fn own_places(path: &Path) -> BTreeSet<PathBuf> {
    HostRoot::new("/").trail(&path.display().to_string())
}

/// The content of a file in our own tree, as long as it is a small regular one.
pub(crate) fn own_content(path: &Path) -> io::Result<Vec<u8>> {
    host::read_small_file(path)
}

fn read_specs(settings: &Settings, facts: &HostFacts) -> Specs {
    let read = |(path, text): (&HostPath, &str)| {
        let kind = settings.kind_in(&path.parent())?;
        Some((path.to_string(), target::read(kind, text, Context { path, around: &facts.around })))
    };
    candidates(settings, facts).filter_map(read).collect()
}

/// Path and text of the files that may be about a scheduler.
fn candidates<'a>(settings: &'a Settings, facts: &'a HostFacts) -> impl Iterator<Item = (&'a HostPath, &'a str)> {
    let is_candidate = |file: &&TargetFile| {
        settings.kind_in(&file.path.parent()).map_or_else(|| file.names_scheduler(), |kind| kind.is_candidate(file))
    };
    facts.files().filter(is_candidate).filter_map(|file| Some((&file.path, file.text.as_deref().ok()?)))
}

/// The files of a directory that matter for its kind of target; one of our own is there even before it is written.
fn files_of_kind(
    settings: &Settings,
    dir: &HostPath,
    files: Option<Vec<TargetFile>>,
    hidden: &BTreeSet<String>,
) -> Option<Vec<TargetFile>> {
    let Some(kind) = settings.kind_in(dir) else { return files };
    let files = files.map(|files| files.into_iter().filter(|file| kind.keeps_neighbours() || kind.is_candidate(file)));
    let files: Option<Vec<TargetFile>> = files.map(Iterator::collect);
    match kind.own_file() {
        Some(name) if files.as_ref().is_none_or(Vec::is_empty) => {
            let path = dir.join(name);
            let has_leftover = hidden.contains(&host::unfinished(name));
            Some(vec![TargetFile {
                path,
                text: Ok(String::new()),
                mode: 0o600,
                is_link: false,
                has_leftover,
                trial: None,
            }])
        }
        _ => files,
    }
}

/// The configuration files that the schedulers' own flags name, through the mounts of their containers.
fn base_paths(settings: &Settings, facts: &HostFacts, specs: &Specs) -> Vec<String> {
    let of_scheduler = |(path, text): (&HostPath, &str)| {
        let spec = specs.get(path.as_str())?.as_ref().ok()?;
        let kind = settings.kind_in(&path.parent())?;
        let original = if spec.ours.is_none() {
            spec.clone()
        } else {
            target::read_original(kind, text, Context { path, around: &facts.around }).ok()?
        };
        original.host_path(original.config()?.1)
    };
    candidates(settings, facts).filter_map(of_scheduler).collect()
}

fn read_bases(root: &HostRoot, paths: impl Iterator<Item = String>) -> BTreeMap<String, Result<Vec<u8>, String>> {
    paths.map(|path| (path.clone(), host::read_small(root, &path).map_err(|error| error.to_string()))).collect()
}

fn find_mount(root: &HostRoot, path: &str) -> Result<HostMount, Finding> {
    let metadata = root.resolve(path).and_then(std::fs::metadata).map_err(|error| {
        let message = format!("cannot be mounted into the scheduler: {error}");
        Finding::error("mount", message, "give a path that is there on every control-plane node").in_file(path)
    })?;
    Ok(HostMount { path: path.to_owned(), is_dir: metadata.is_dir() })
}

/// The directories to look into: the given one, else those of all platforms.
fn manifest_dirs(settings: &Settings, facts: &HostFacts) -> BTreeSet<HostPath> {
    if let Some(dir) = settings.manifest_dir() {
        return BTreeSet::from([dir]);
    }
    platform_dirs(settings, facts)
}

fn platform_dirs(settings: &Settings, facts: &HostFacts) -> BTreeSet<HostPath> {
    let is_marked = |platform: &Platform| {
        let is_there = |marker: &Marker| matches!(marker, Marker::Path(path) if facts.has(path));
        settings.platform.as_deref() == Some(platform.id) || platform.markers.iter().any(is_there)
    };
    let dirs = settings.platforms.iter().filter_map(|platform| match platform.target {
        Target::InDir { kind, dir } if !kind.needs_marker() || is_marked(platform) => Some(HostPath::from(dir)),
        Target::InDir { .. } | Target::Refused { .. } => None,
    });
    dirs.collect()
}
