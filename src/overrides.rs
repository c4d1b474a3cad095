//! What a person asks of the scheduler beside its configuration.

/// What amounts to root on the node, and so comes from flags alone, never from a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchedulerOverrides {
    /// Another image for the scheduler
    pub image: Option<String>,
    /// The scheduler's version, where the tag of its image does not tell
    pub version: Option<String>,
    /// The scheduler's program in that image, where it is not called `kube-scheduler`
    pub command: Option<String>,
    /// The user that the scheduler runs as
    pub run_as_user: Option<u32>,
    /// What becomes of another image when the cluster is upgraded
    pub image_on_upgrade: OnUpgrade,
    /// Further flags of the scheduler: name without dashes, and value
    pub args: Vec<(String, String)>,
    /// Further paths of the host that the scheduler sees
    pub mounts: Vec<String>,
    /// Another DNS policy for its pod
    pub dns_policy: Option<String>,
}

/// What becomes of another image for the scheduler when an upgrade of the cluster brings another minor release.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnUpgrade {
    /// It is not put back: an image of another release may not work with the new one
    #[default]
    Remove,
    /// It stays
    Keep,
}

impl SchedulerOverrides {
    /// Whether something is wished of the manifest, so that there is work even without a configuration.
    pub fn change_the_manifest(&self) -> bool {
        let has_another_program = self.image.is_some() || self.command.is_some() || self.run_as_user.is_some();
        has_another_program || !self.args.is_empty() || !self.mounts.is_empty() || self.dns_policy.is_some()
    }
}
