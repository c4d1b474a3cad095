//! What can go wrong while writing, and what a person can do about it.

use std::io;

use nix::errno::Errno;

use crate::finding::Finding;

/// Why nothing more was written.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// It must not be written
    #[error("{}", .0.message)]
    Refused(Finding),
    /// Somebody else wrote the target since it was read: look again, plan again
    #[error("{path} was changed by somebody else since it was read")]
    Changed {
        /// The target
        path: String,
    },
    /// Another schedpatch is writing
    #[error("another schedpatch is writing: {holder}")]
    Locked {
        /// The lock's file
        path: String,
        /// Who holds it, in words
        holder: String,
    },
    /// Too much time passed between the decision and the commit
    #[error("{path} was not replaced in time, so the decision to replace it may not hold any more")]
    TooLate {
        /// The target
        path: String,
    },
    /// Whoever starts the scheduler did not do what was asked of it
    #[error("cannot {doing} {path}: {why}")]
    Service {
        /// A verb
        doing: &'static str,
        /// The target
        path: String,
        /// In its own words
        why: String,
        /// Whether the target was replaced before
        committed: bool,
    },
    /// Whoever starts the scheduler may still need our files
    #[error("cannot remove the files of schedpatch yet, because systemd may still start k3s with them ({path}): {why}")]
    StillLoaded {
        /// The target
        path: String,
        /// In its own words
        why: String,
    },
    /// Whoever starts the scheduler would not start it with the new text
    #[error("cannot have k3s start with the new text of {path}: {why}; k3s was not restarted")]
    NotLoaded {
        /// The target
        path: String,
        /// What is loaded in its place
        why: String,
    },
    /// The system refused a call
    #[error("cannot {doing} {path}: {error}")]
    Io {
        /// A verb
        doing: &'static str,
        /// The file or directory
        path: String,
        /// What the system said
        error: io::Error,
        /// Whether the target was replaced before
        committed: bool,
    },
}

impl ApplyError {
    /// The rule of [`Self::NotLoaded`]
    pub(crate) const NOT_LOADED: &str = "not-loaded";

    /// The same, known to have come after the commit.
    #[must_use]
    pub(crate) fn after_commit(self) -> Self {
        match self {
            Self::Io { doing, path, error, .. } => Self::Io { doing, path, error, committed: true },
            other => other,
        }
    }

    /// For a person.
    pub fn finding(&self) -> Finding {
        match self {
            Self::Refused(finding) => finding.clone(),
            Self::Changed { path } => {
                let way_out = "find out who keeps writing this file, and run again when it is quiet";
                Finding::error("changed", self.to_string(), way_out).in_file(path)
            }
            Self::TooLate { path } => {
                let way_out = "the agent decides again; if this happens often, the disk or the API server is slow";
                Finding::error("too-late", self.to_string(), way_out).in_file(path)
            }
            Self::Locked { path, .. } => {
                let way_out = "wait for it, or give it more time with --lock-timeout";
                Finding::error("locked", self.to_string(), way_out).in_file(path)
            }
            Self::Service { path, committed, .. } => {
                let way_out = if *committed {
                    "the new text is in place, and the restart is tried again; or restart k3s yourself"
                } else {
                    "nothing was changed; mend it, or leave the restart to a person: --k3s-restart manual"
                };
                Finding::error("service-manager", self.to_string(), way_out).in_file(path)
            }
            Self::StillLoaded { path, .. } => {
                let way_out = "our edit is removed; let schedpatch ask systemd and run this again (the agent tries again by itself), or run \
                               systemctl daemon-reload, and then remove what is in the state directory";
                Finding::error("service-manager", self.to_string(), way_out).in_file(path)
            }
            Self::NotLoaded { path, .. } => {
                let way_out = "take ExecStart= out of that drop-in, or let the agent read it (chart value extraHostPaths); it is tried again";
                Finding::error(Self::NOT_LOADED, self.to_string(), way_out).in_file(path)
            }
            Self::Io { path, error, committed, .. } => {
                let state = if *committed {
                    "The new manifest is in place; run again to finish the bookkeeping"
                } else {
                    "The manifest is as it was; run again afterwards"
                };
                Finding::error("write", self.to_string(), format!("{}. {state}", way_out(error))).in_file(path)
            }
        }
    }
}

/// Gives a failed call its words.
pub(super) fn while_trying_to<T>(
    doing: &'static str,
    path: impl Into<String>,
    result: io::Result<T>,
) -> Result<T, ApplyError> {
    result.map_err(|error| ApplyError::Io { doing, path: path.into(), error, committed: false })
}

fn way_out(error: &io::Error) -> &'static str {
    match Errno::from_raw(error.raw_os_error().unwrap_or(0)) {
        Errno::ENOSPC | Errno::EDQUOT => "Free some space (and inodes) on that file system",
        Errno::EROFS => {
            "The file system is read-only: in a pod, mount the directory without readOnly; on a host, see dmesg for why"
        }
        Errno::EACCES | Errno::EPERM => {
            "Run as root. Where the directory belongs to another user (kubespray: kube), root in a container also needs \
             the capability DAC_OVERRIDE, and CHOWN and FOWNER where the file does; see also lsattr"
        }
        Errno::EIO => "The disk reports errors: see dmesg",
        Errno::EMFILE | Errno::ENFILE => "Too many files are open: raise the limit, or find out who holds them",
        Errno::EEXIST | Errno::EISDIR | Errno::ENOTDIR | Errno::ELOOP => {
            "Something that schedpatch did not write is in the way: move it elsewhere"
        }
        Errno::EBUSY => "Mount the directory, not the single file, since a mounted file cannot be replaced",
        _ => "See the message of the system",
    }
}
