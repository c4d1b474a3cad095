//! How a step of the loop ends.

use std::time::Duration;

use crate::finding::Finding;
use crate::phase::NodeState;

/// What follows a step.
pub(super) enum Turn {
    /// Something changed: look again at once
    Again,
    /// Nothing more to do now
    Sleep(Rest),
}

/// What to report, and when to look again.
#[derive(Clone, Debug)]
pub(super) struct Rest {
    pub node_state: NodeState,
    pub after: Duration,
}

impl Rest {
    /// A refusal, tried again after this time.
    pub fn blocked(finding: &Finding, after: Duration) -> Self {
        Self { node_state: NodeState::blocked(finding), after }
    }
}

impl From<Rest> for Turn {
    fn from(rest: Rest) -> Self {
        Self::Sleep(rest)
    }
}
