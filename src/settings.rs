//! What was asked for, checked once; no other module reads flags or the environment.

use std::path::PathBuf;

use crate::host::HostPath;

/// Everything that steers a plan.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Root of the host's file tree
    pub host_root: PathBuf,
    /// Directories with what the user wants
    pub sources: Vec<PathBuf>,
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
}

/// What amounts to root on the node, and so comes from flags alone, never from a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerOverrides {
    /// Another image for the scheduler
    pub image: Option<String>,
    /// The scheduler's version, where the tag of its image does not tell
    pub version: Option<String>,
    /// Further flags of the scheduler: name without dashes, and value
    pub args: Vec<(String, String)>,
    /// Further paths of the host that the scheduler sees
    pub mounts: Vec<String>,
    /// Another DNS policy for its pod
    pub dns_policy: Option<String>,
}

impl SchedulerOverrides {
    /// Whether something is wished of the manifest, so that there is work even without a configuration.
    pub fn change_the_manifest(&self) -> bool {
        self.image.is_some() || !self.args.is_empty() || !self.mounts.is_empty() || self.dns_policy.is_some()
    }
}

impl Settings {
    /// The manifest directory that was asked for, directly or as that of the target.
    pub fn manifest_dir(&self) -> Option<HostPath> {
        self.manifest_dir.clone().or_else(|| self.target.as_ref().map(HostPath::parent))
    }
}
