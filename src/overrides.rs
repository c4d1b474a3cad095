//! What a person asks of the scheduler beside its configuration.

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
