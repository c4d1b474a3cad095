//! What was asked for, checked once; no other module reads flags or the environment.

use std::path::PathBuf;

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
    pub target: Option<String>,
    /// The kubelet's manifest directory, where it is not the platform's own
    pub manifest_dir: Option<String>,
    /// Our directory on the host
    pub state_dir: String,
    /// The scheduler's version, where its image does not tell
    pub scheduler_version: Option<String>,
}

impl Settings {
    /// The manifest directory that was asked for, directly or as that of the target.
    pub fn manifest_dir(&self) -> Option<String> {
        let of_target = || {
            let (dir, _) = self.target.as_ref()?.rsplit_once('/')?;
            Some(if dir.is_empty() { "/".to_owned() } else { dir.to_owned() })
        };
        self.manifest_dir.clone().or_else(of_target)
    }
}
