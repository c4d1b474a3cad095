//! What a node says while the rollout does not let it begin.

use super::super::peers::Peers;
use super::super::{Release, Seen};
use super::AWAY;
use crate::cluster::{CONTROL_PLANE_LABELS, LEASE_NAME, LEASE_NAMESPACE};
use crate::phase::{NodeState, Phase};
use crate::report::short;
use crate::rollout::{ChangeKind, Me, Record, RecordError, Waiting};

fn waiting(reason: &str, message: impl Into<String>) -> NodeState {
    NodeState::new(Phase::Waiting, reason, message)
}

/// Why a node does not begin what it needs.
pub(super) fn of_waiting(why: &Waiting, peers: &Peers, node: &str) -> NodeState {
    match why {
        Waiting::Turn { node, change } => {
            let what = match change {
                ChangeKind::New => "gets the new configuration",
                ChangeKind::Back => "goes back to the configuration before",
                ChangeKind::Repair => "puts our edit back",
                ChangeKind::Restore => "removes our edit",
            };
            waiting(
                "AnotherNode",
                format!(
                    "waiting for node {node}, which {what}; one scheduler changes at a time. If {node} is lost: delete the Node, \
                     or schedpatch rollout forget {node}"
                ),
            )
        }
        Waiting::Paused => waiting("Paused", "the rollout is paused; schedpatch rollout resume lets it go on"),
        Waiting::Stopped { node, words } => waiting(
            "Stopped",
            format!(
                "the rollout stopped on node {node}, which tries again: {words}; schedpatch rollout forget {node} lets the \
                 others go on without it"
            ),
        ),
        Waiting::Quorum { node } => quorum(node.as_deref()),
        Waiting::TwoMembers => two_members(),
        Waiting::MoreMayFollow => {
            waiting("SourceChanged", "the sources have just changed; the agent waits some seconds whether more follows")
        }
        Waiting::Preflight => NodeState::new(Phase::Preflight, "Preflight", "the scheduler checks the new text"),
        Waiting::BackOff => came_to_nothing("the target was not replaced"),
        Waiting::NotListed => {
            let names = if peers.names.is_empty() { "none".to_owned() } else { peers.names.join(", ") };
            let message = format!(
                "the API lists no control-plane node {node:?} (it lists: {names}), so the others would not know of its turn; \
                 see --node-name and the label {} of this node",
                CONTROL_PLANE_LABELS[0],
            );
            NodeState::new(Phase::Blocked, "NotListed", message)
        }
        Waiting::Outdated => {
            waiting("Outdated", "the DaemonSet has a newer template; the agent that comes next begins")
        }
        Waiting::Yields { node } => {
            waiting("Leader", format!("this node's scheduler leads, so node {node} goes first: scheduling pauses once"))
        }
        Waiting::LastHealthy => last_healthy(peers.others.iter().any(|other| other.is_server)),
        Waiting::FirstTurn => first_turn(),
        Waiting::Rebuilding { node } => {
            let who = node.as_ref().map_or_else(
                || "others may know more of it".to_owned(),
                |node| {
                    let way_out = format!("if {node} is lost: delete the Node, or schedpatch rollout forget {node}");
                    format!("node {node} may be in the middle of a change; {way_out}")
                },
            );
            waiting("Rebuilding", format!("the record in the Lease {LEASE_NAMESPACE}/{LEASE_NAME} was lost, and {who}"))
        }
    }
}

/// Nobody has had a turn.
fn first_turn() -> NodeState {
    let message = format!(
        "the Lease {LEASE_NAMESPACE}/{LEASE_NAME} has no record yet; the agent waits some seconds whether another node has begun already"
    );
    waiting("FirstTurn", message)
}

/// What a person must do before an uninstall is done.
pub(super) fn restart_to_restore(command: &str, is_removed: bool) -> NodeState {
    let why = if is_removed {
        "our edit is removed, and k3s may run with it until it restarts"
    } else {
        "the last change takes effect when k3s restarts; the agent removes our edit after that, and then k3s must restart once more"
    };
    NodeState::new(Phase::Restoring, "RestartRequired", format!("{why}; run on this node: {command}"))
}

/// What a person must do where nobody knows whether systemd has reloaded its units.
pub(super) fn still_loaded(command: &str, why: &str, state_dir: &str) -> NodeState {
    let message = format!("{why}; the agent tries again, or run on this node: {command} && rm -r {state_dir}/*");
    NodeState::new(Phase::Restoring, "RestartRequired", message)
}

/// What a node says that needs nothing, or must not have what is wanted.
pub(super) fn of_rest(record: &Record, me: &Me, seen: &Seen) -> NodeState {
    if record.must_restore(&me.name) {
        let is_alone = record.uninstall.as_ref().is_some_and(|asked| !asked.nodes.is_empty());
        let way_on = if is_alone {
            "schedpatch uninstall --cancel applies the configuration again"
        } else {
            "helm uninstall takes the agent away"
        };
        let message = format!("everything of schedpatch was removed from this node on request; {way_on}");
        return NodeState::new(Phase::Restored, "Uninstalled", message);
    }
    let failed = record.failed.iter().find(|failed| Some(failed.digest) == me.wanted);
    if let Some(failed) = failed {
        let is_lost = me.in_place.is_none() && me.last_sealed.as_ref().is_some_and(|sealed| !sealed.can_return);
        let runs = if is_lost {
            "this node runs without our edit, because somebody else has changed the target since the configuration before was \
             proven"
        } else {
            "this node runs what was proven before"
        };
        let message = format!(
            "configuration {} failed on node {}: {}; {runs}. Change the configuration, or try it again with schedpatch rollout \
             retry",
            short(&failed.digest),
            failed.node,
            failed.words
        );
        let node_state = NodeState::new(Phase::RolledBack, "FailedElsewhere", message);
        return NodeState { was_proven: seen.was_proven(), ..node_state };
    }
    waiting("NotNow", "the rollout asks for nothing on this node now")
}

/// What is wanted could not be started here, and nobody is to blame.
pub(super) fn tries_again(why: &str) -> NodeState {
    let message = format!("{why}; the scheduler runs as before, and the agent tries again, less and less often");
    NodeState::new(Phase::RolledBack, "TriesAgain", message)
}

/// There is no Lease.
pub(super) fn lease_missing() -> NodeState {
    let message = format!(
        "the Lease {LEASE_NAMESPACE}/{LEASE_NAME}, which lets one node change at a time, is not there: the chart brings it, and \
         schedpatch rollout init makes it"
    );
    waiting("LeaseMissing", message)
}

/// A missing permission.
pub(super) fn lease_forbidden(why: &str) -> NodeState {
    let message = format!(
        "this agent may not read and update the Lease {LEASE_NAMESPACE}/{LEASE_NAME}: {why}; the chart's role gives it that right"
    );
    NodeState::new(Phase::Blocked, "LeaseForbidden", message)
}

/// A missing permission to see the other nodes.
pub(super) fn peers_forbidden(right: &str) -> NodeState {
    let message = format!(
        "this agent may not {right}; without it the agent does not know whether another node changes now, so it changes nothing; \
         the chart's roles give it that right"
    );
    NodeState::new(Phase::Blocked, "PeersForbidden", message)
}

/// The API has not answered for a moment.
pub(super) fn api_away(why: &str) -> NodeState {
    let message = format!(
        "the API does not answer: {why}; the agent begins nothing, and repairs drift without a turn once this has lasted {} s",
        AWAY.as_secs()
    );
    waiting("ApiAway", message)
}

/// The API server does not know this agent.
pub(super) fn token_refused(why: &str) -> NodeState {
    let message = format!(
        "the API server refuses this agent's token: {why}; the kubelet renews the token and the agent tries again; if this lasts, \
         delete the agent's pod"
    );
    NodeState::new(Phase::Blocked, "TokenRefused", message)
}

/// The DaemonSet was deleted without its pods.
pub(super) fn daemon_set_missing(release: &Release) -> NodeState {
    let name = release.daemon_set.as_deref().unwrap_or_default();
    let message = format!(
        "the DaemonSet {}/{name}, which runs this agent, was deleted, so the agent changes nothing: install the chart again, or \
         remove everything with schedpatch restore --purge on each node",
        release.namespace
    );
    waiting("DaemonSetMissing", message)
}

/// A record that this agent cannot use.
pub(super) fn unreadable(error: &RecordError) -> NodeState {
    let message = format!("the record in the Lease {LEASE_NAMESPACE}/{LEASE_NAME} cannot be used: {error}");
    match error {
        RecordError::Newer(_) => waiting("NewerRollout", message),
        RecordError::Malformed(_) => {
            let way_out = "remove its annotation schedpatch.io/rollout; the agents rebuild it";
            NodeState::new(Phase::Blocked, "RolloutUnreadable", format!("{message}; {way_out}"))
        }
    }
}

/// A standby that delays its cache is not ready until it leads, so nothing could be proven there.
pub(super) fn delays_cache() -> NodeState {
    let message = "the configuration says delayCacheUntilActive: true, with which a standby scheduler is not ready until it leads, \
                   so nothing can be proven on several control-plane nodes; remove that line";
    NodeState::new(Phase::Blocked, "DelaysCache", message)
}

/// Nobody could say when the next node may change.
pub(super) fn proves_nothing() -> NodeState {
    let message = "with --verify none nobody sees when a scheduler runs again, so several control-plane nodes could change at \
                   once; set the value verify to mirror-pod";
    NodeState::new(Phase::Blocked, "ProvesNothing", message)
}

/// A commit did not happen, and is tried again.
pub(super) fn came_to_nothing(why: &str) -> NodeState {
    let message = format!("the last try came to nothing: {why}; the agent tries again in a moment");
    NodeState::new(Phase::Waiting, "BackOff", message)
}

/// Nobody else serves now.
fn last_healthy(are_servers: bool) -> NodeState {
    waiting(
        "LastHealthy",
        if are_servers {
            "no other server is Ready and not cordoned now, and one may be soon: a restart of k3s here would stop the API"
        } else {
            "no other scheduler is ready now, and one may be soon: scheduling would stop"
        },
    )
}

/// A restart here would take a member of etcd away while another one is missed.
fn quorum(missing: Option<&str>) -> NodeState {
    let message = match missing {
        Some(node) => {
            format!(
                "a restart of k3s here stops a member of etcd, and {node}, which runs another, is not Ready or is cordoned"
            )
        }
        None => {
            "every other server that runs etcd must have been Ready for a minute before k3s restarts here".to_owned()
        }
    };
    NodeState::new(Phase::Waiting, "Quorum", message)
}

/// Both members of etcd are needed.
fn two_members() -> NodeState {
    let message = "there are two servers that run etcd, and a restart of either stops the API for a moment; agree to that with the \
                   value rollout.allowQuorumLoss (flag --allow-quorum-loss), or add a third server";
    NodeState::new(Phase::Waiting, "QuorumOfTwo", message)
}
