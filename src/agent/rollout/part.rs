//! What taking part in the rollout comes to.

use std::time::Duration;

use super::super::turn::Rest;
use crate::phase::NodeState;

/// Whether something may be committed now.
#[derive(Debug)]
pub(in crate::agent) enum Permission {
    /// Yes: there is nobody to agree with
    Free,
    /// Only repairs, because the API does not answer
    Away(String),
    /// No; this is why, and when to look again
    Denied(Rest),
}

/// What came of taking part.
pub(in crate::agent) enum Part {
    /// Something changed: look again at once
    Again,
    /// Nothing else is to be done on this node now
    Refused(Rest),
    /// Whether the loop may commit, and when to take part again at the latest
    Done(Permission, Option<Duration>),
}

impl Part {
    pub(super) fn denied(node_state: NodeState, after: Duration) -> Self {
        Self::Done(Permission::Denied(Rest { node_state, after }), Some(after))
    }

    /// The same for a node that must go back or be restored: what is in place is up to date by its own measure, and would be
    /// reported as Ready.
    pub(super) fn said_aloud(self) -> Self {
        match self {
            Self::Done(Permission::Denied(rest), after) => {
                Self::Refused(Rest { after: after.map_or(rest.after, |own| own.min(rest.after)), ..rest })
            }
            part => part,
        }
    }
}
