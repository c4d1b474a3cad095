//! The file that commands without `--target` mean: the one that schedpatch has changed.

use crate::host::{HostPath, HostRoot};
use crate::observe;
use crate::plan::{self, Direction};
use crate::platform::K3sOptions;
use crate::settings::Settings;

/// The settings with the target of the journal, where none is given and the usual search finds another file or none. After
/// `apply --target FILE` that file is the one to look at and to restore.
pub(super) fn with_known_target(settings: Settings, k3s: K3sOptions) -> Settings {
    if settings.target.is_some() || settings.manifest_dir.is_some() {
        return settings;
    }
    // what cannot be read is reported by the command itself
    let Ok(snapshot) = observe::take_snapshot(&settings) else { return settings };
    let journal = &snapshot.state.journal;
    let is_there = |path: &HostPath| HostRoot::new(&settings.host_root).exists(path);
    let known = journal.target.clone().filter(|path| journal.is_busy() && is_there(path));
    let Some(known) = known else { return settings };
    let settings = Settings { platforms: k3s.for_target(&known).platforms(), ..settings };
    let found = plan::make(&snapshot, &settings, Direction::Restore).target;
    if found.is_some_and(|found| found.path == known) { settings } else { Settings { target: Some(known), ..settings } }
}
