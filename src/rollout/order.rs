//! Who goes first, and who must not go now.

use super::record::ChangeKind;
use super::view::{AgentState, Other, View};
use super::want::NeededChange;

/// Why a node does not begin.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// It is another node's turn
    Turn {
        /// Whose
        node: String,
        /// What for
        change: ChangeKind,
    },
    /// A person paused the rollout
    Paused,
    /// The rollout stopped on another node, which goes on first
    Stopped {
        /// Which
        node: String,
        /// Why
        words: String,
    },
    /// A commit did not happen here a moment ago, or what is wanted was taken back without blame
    BackOff,
    /// What is wanted has changed a moment ago, and more may follow
    MoreMayFollow,
    /// The scheduler itself checks what this node would commit
    Preflight,
    /// The API does not list this node, so that others would not know of its turn
    NotListed,
    /// A newer agent is about to come to this node
    Outdated,
    /// This node's scheduler leads, and another node can go first
    Yields {
        /// Which
        node: String,
    },
    /// No other scheduler is healthy now, and one may be soon; on k3s that is the whole server
    LastHealthy,
    /// A change here restarts a member of etcd, and another one is not there, or not for long enough
    Quorum {
        /// Which; none if all are there, but not for long enough
        node: Option<String>,
    },
    /// There are two members of etcd, and both are needed
    TwoMembers,
    /// There is no record yet, and another node may have begun before it was lost
    FirstTurn,
    /// The record was lost, and others may know more
    Rebuilding {
        /// The node that may still be in the middle of a change
        node: Option<String>,
    },
}

/// Why this node does not take a turn for a change that it needs.
pub(super) fn why_wait(view: &View<'_>, wanted: NeededChange) -> Option<Waiting> {
    let View { record, me, waited, limits, .. } = view;
    if let Some(waiting) = must_not_go(view, wanted) {
        return Some(waiting);
    }
    if let Some(stopped) = record.stopped.as_ref().filter(|stopped| Some(stopped.digest) == wanted.digest)
        && wanted.change == ChangeKind::New
        && view.other(&stopped.node).is_some_and(|other| !other.is_blocked)
    {
        return Some(Waiting::Stopped { node: stopped.node.clone(), words: stopped.words.clone() });
    }
    let goes_first =
        |other: &&Other| other.agent == AgentState::Running && other.is_ready && needs(other, wanted, view);
    let first = view.others.iter().find(goes_first).filter(|_| me.is_leader && waited.record < limits.patience)?;
    Some(Waiting::Yields { node: first.name.clone() })
}

/// Why this node must not commit, even if the turn is its own.
pub(super) fn must_not_go(view: &View<'_>, wanted: NeededChange) -> Option<Waiting> {
    let View { record, me, others, waited, limits, .. } = view;
    let is_new = wanted.change == ChangeKind::New;
    let is_last = me.is_healthy && others.iter().all(|other| !other.is_healthy());
    if !me.is_listed {
        Some(Waiting::NotListed)
    } else if me.backs_off
        || me.is_fought_over && matches!(wanted.change, ChangeKind::New | ChangeKind::Repair)
        || is_new && me.too_soon_for.is_some() && me.too_soon_for == wanted.digest
    {
        Some(Waiting::BackOff)
    } else if is_new && me.may_want_more {
        Some(Waiting::MoreMayFollow)
    } else if is_new && record.paused {
        Some(Waiting::Paused)
    } else if is_new && me.is_outdated {
        Some(Waiting::Outdated)
    } else if let Some(waiting) = quorum(view) {
        Some(waiting)
    } else if is_last && !others.is_empty() && waited.health < limits.patience {
        Some(Waiting::LastHealthy)
    } else if me.awaits_preflight {
        Some(Waiting::Preflight)
    } else {
        None
    }
}

/// Whether the cluster's data could stand still if a member of etcd restarts here.
fn quorum(view: &View<'_>) -> Option<Waiting> {
    let View { me, others, waited, limits, .. } = view;
    if !me.etcd.restarts {
        return None;
    }
    let members: Vec<&Other> = others.iter().filter(|other| other.etcd.runs).collect();
    match members.as_slice() {
        [] => None,
        [_] if !me.etcd.may_lose_quorum => Some(Waiting::TwoMembers),
        _ => match members.iter().find(|other| !other.keeps_quorum()) {
            Some(other) => Some(Waiting::Quorum { node: Some(other.name.clone()) }),
            None => (waited.members < limits.quorum).then_some(Waiting::Quorum { node: None }),
        },
    }
}

/// Whether another node still has to make the same change.
fn needs(other: &Other, wanted: NeededChange, view: &View<'_>) -> bool {
    let is_restore = wanted.change == ChangeKind::Restore;
    if view.record.forgotten.contains(&other.name) || view.record.must_restore(&other.name) != is_restore {
        return false;
    }
    match wanted.change {
        ChangeKind::New => !other.is_blocked && other.wanted == wanted.digest && other.proven != wanted.digest,
        ChangeKind::Back => other.proven == view.me.in_place,
        ChangeKind::Restore => other.scheduler.revision.is_some(),
        ChangeKind::Repair => false,
    }
}
