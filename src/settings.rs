//! What was asked for, checked once; no other module reads flags or the environment.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use crate::finding::Finding;
use crate::host::HostPath;
pub use crate::overrides::{OnUpgrade, SchedulerOverrides};
use crate::platform::{self, Platforms, Target};
use crate::target::TargetKind;

/// Everything that steers a plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Root of the host's file tree
    pub host_root: PathBuf,
    /// Directories with what the user wants
    pub sources: Vec<PathBuf>,
    /// What the user wants as the API has it, or why it has nothing; it counts instead of the directories
    pub given: Option<Result<Vec<Source>, Finding>>,
    /// The platforms to look for
    pub platforms: Platforms,
    /// A platform by name, or `None` to detect it
    pub platform: Option<String>,
    /// The file to edit, as the host sees it
    pub target: Option<HostPath>,
    /// The kubelet's manifest directory, where it is not the platform's own
    pub manifest_dir: Option<HostPath>,
    /// Our directory on the host
    pub state_dir: HostPath,
    /// What amounts to root on the node
    pub overrides: SchedulerOverrides,
    /// Rules of the lint that a person insists on breaking
    pub accept: Vec<String>,
    /// Try a revision again that failed here
    pub retry: bool,
    /// Whether the scheduler itself checks a new text first
    pub preflight: Preflight,
}

/// Whether the scheduler itself checks a new text before the target is touched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Preflight {
    /// It does not: a new text is only verified once it is in place
    #[default]
    None,
    /// It does, beside the one that runs
    On {
        /// So long its image may take to be pulled
        timeout: Duration,
    },
}

/// The files of one source by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Source {
    /// The directory, as given; of a single file the one that it is in
    pub dir: String,
    /// Name and content of every file
    pub files: BTreeMap<String, Vec<u8>>,
}

/// Where state is kept on the host, unless a flag says otherwise.
pub const STATE_DIR: &str = "/var/lib/schedpatch";

impl Settings {
    /// Settings with which nothing is wanted, and everything is looked for in its usual place.
    pub fn new(host_root: impl Into<PathBuf>) -> Self {
        Self {
            host_root: host_root.into(),
            sources: Vec::new(),
            given: None,
            platforms: platform::ALL,
            platform: None,
            target: None,
            manifest_dir: None,
            state_dir: STATE_DIR.into(),
            overrides: SchedulerOverrides::default(),
            accept: Vec::new(),
            retry: false,
            preflight: Preflight::None,
        }
    }

    /// The kind of the targets in a directory: that of the platform whose directory it is, else of the platform that was named.
    pub fn kind_in(&self, dir: &str) -> Option<&'static dyn TargetKind> {
        let in_dir = |platform: &platform::Platform| match platform.target {
            Target::InDir { kind, dir } => Some((kind, dir)),
            Target::Refused { .. } => None,
        };
        let all = || self.platforms.iter().filter_map(|platform| in_dir(platform));
        let own = all().find(|(_, own)| *own == dir);
        let named = || self.platform.as_ref().and_then(|id| in_dir(platform::named(self.platforms, id)?));
        own.or_else(named).or_else(|| all().next()).map(|(kind, _)| kind)
    }

    /// The manifest directory that was asked for, directly or as that of the target.
    pub fn manifest_dir(&self) -> Option<HostPath> {
        self.manifest_dir.clone().or_else(|| self.target.as_ref().map(HostPath::parent))
    }
}
