//! What taking part in the rollout comes to.

use std::time::Duration;

use super::super::turn::Rest;
use super::super::{Agent, Seen};
use crate::phase::{NodeState, Phase};

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

impl Permission {
    /// What an uninstall says that waits for a person's restart: also what follows the restart.
    pub(in crate::agent) fn waits_for_person(self) -> Option<Rest> {
        let is_by_person = |state: &NodeState| state.phase == Phase::Restoring && state.reason == "RestartRequired";
        match self {
            Self::Denied(rest) if is_by_person(&rest.node_state) => Some(rest),
            _ => None,
        }
    }
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

impl Agent {
    /// What a node says that has nothing to do. An uninstall that is not finished holds the node too, and says what it waits for.
    pub(in crate::agent) fn rest_of_stay(
        &mut self,
        seen: &Seen,
        permission: Permission,
        node_state: NodeState,
    ) -> Rest {
        let after = self.options.resync;
        match permission {
            Permission::Denied(rest) if rest.node_state.phase == Phase::Restoring => rest,
            Permission::Away(why) if self.is_uninstalling(seen) => {
                let message = format!("our edit is removed, and the rest waits until the API answers: {why}");
                Rest { node_state: NodeState::new(Phase::Restoring, "Uninstalling", message), after }
            }
            _ => Rest { node_state: self.sources_missing(&node_state).unwrap_or(node_state), after },
        }
    }
}
