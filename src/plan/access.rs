//! Who may read a file of a revision. The composed configuration is for everybody; what came beside it (keys, CAs) is for
//! the scheduler alone. Pure.

use crate::finding::Finding;
use crate::observe::FileAccess;
use crate::target::RunAs;

/// The mode and the owner that a file shall have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// Its permission bits
    pub mode: u32,
    /// Its user; none for the user who writes it
    pub user: Option<u32>,
    /// Its group; none for the group of who writes it
    pub group: Option<u32>,
}

impl Access {
    /// Of the composed configuration, which a scheduler that is not root reads too. It holds no credential.
    pub(crate) const CONFIG: Self = Self::of_mode(0o644);

    /// This mode, for a file of our own.
    pub(crate) const fn of_mode(mode: u32) -> Self {
        Self { mode, user: None, group: None }
    }

    /// Of a file beside the configuration: only the scheduler's user may read it, and who writes it, to check it later.
    ///
    /// Root needs nothing more. For another user a group that it is in is enough, so that the file stays root's own: an agent
    /// without the capability `DAC_OVERRIDE` could not read back a file of which neither user nor group is its own.
    pub(super) fn of_side_file(run_as: RunAs) -> Option<Self> {
        if run_as.is_unknown() {
            return None;
        }
        Some(match (run_as.is_root(), run_as.group) {
            (true, _) => Self::of_mode(0o600),
            (false, Some(group)) => Self { mode: 0o640, user: None, group: Some(group) },
            (false, None) => Self { mode: 0o640, user: run_as.user, group: None },
        })
    }

    /// Whether a file has it.
    pub(super) fn is_had_by(self, file: &FileAccess) -> bool {
        let is = |wanted: Option<u32>, found: u32| wanted.is_none_or(|wanted| wanted == found);
        self.mode == file.mode && is(self.user, file.user) && is(self.group, file.group)
    }

    /// The owner in words, where it is not who writes the file: `user:group`.
    pub(super) fn owner(self) -> Option<String> {
        let shown = |id: Option<u32>| id.map_or_else(String::new, |id| id.to_string());
        (self.user.is_some() || self.group.is_some()).then(|| format!("{}:{}", shown(self.user), shown(self.group)))
    }
}

/// Nobody but the image knows the scheduler's user.
pub(super) fn unknown_user() -> Finding {
    let message = "the manifest says runAsNonRoot and names no runAsUser, so nobody knows which user must read the files \
                   beside the configuration, and they are not made readable for everybody";
    let way_out = "add runAsUser to the scheduler's securityContext, or take the other files out of the source and show \
                   them to the scheduler with --scheduler-mount";
    Finding::error("side-file-user", message, way_out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_side_file_is_readable_by_the_schedulers_user_and_nobody_else() {
        let run_as = |user, group| RunAs { user, group, non_root: false };
        let access = |user, group| Access::of_side_file(run_as(user, group)).expect("known");
        for root in [access(None, None), access(Some(0), None), access(Some(0), Some(7)), access(None, Some(7))] {
            assert_eq!(root, Access { mode: 0o600, user: None, group: None }, "no CHOWN is needed for root");
        }
        assert_eq!(access(Some(1000), Some(7)), Access { mode: 0o640, user: None, group: Some(7) });
        assert_eq!(access(Some(1000), None), Access { mode: 0o640, user: Some(1000), group: None });
        assert_eq!(Access::of_side_file(RunAs { user: None, group: Some(7), non_root: true }), None);
    }
}
