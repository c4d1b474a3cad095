//! The preflight of what this node is about to commit: before it asks for its turn, the scheduler itself checks the new text.

mod verdict;

use std::time::Duration;

use tokio::time::Instant;

use super::{Agent, ClientHandle, RETRY, Rest, Seen};
use crate::cluster;
use crate::finding::Finding;
use crate::host::HostPath;
use crate::journal::Initiator;
use crate::phase::{NodeState, Phase};
use crate::plan::{Direction, Plan, PlannedPreflight, TargetNow};
use crate::reconcile::{self, Request, Tried};
use crate::revision::Digest;
use crate::rollout::{ChangeKind, NeededChange, Record};
use crate::settings::Preflight;
use crate::target::{Here, PreflightManifest, PreflightObserver};
use crate::verify::{PreflightTrial, RUNS_FOR};

/// How often the API is asked, even when the watch is silent.
const ASK_INTERVAL: Duration = Duration::from_secs(2);

/// The preflights of this process.
#[derive(Debug, Default)]
pub(super) struct Preflights {
    /// The one that goes on
    running: Option<Running>,
    /// What may be committed
    open: Option<Accepted>,
    /// What is tried, by its identity
    subject: Option<Digest>,
    /// How often in a row one of it had to begin anew: somebody removed it, or the API went away meanwhile
    vanished: u32,
    /// What the gate said last, for who holds the host's lock and must not take it again
    last_closed: Option<Rest>,
    /// What could not be tried, and when it is tried again
    pause: Option<Pause>,
    /// How often people asked to try again
    retries: u64,
}

#[derive(Debug)]
struct Running {
    /// Identity of what shall be committed
    tried: Digest,
    path: HostPath,
    begun: Instant,
    trial: PreflightTrial,
    observer: Box<dyn PreflightObserver>,
    /// In a control run: what came of what shall be committed
    control: Option<Doubt>,
}

/// What a preflight let through.
#[derive(Clone, Copy, Debug)]
struct Accepted {
    tried: Digest,
    /// Whether the scheduler accepted it; else nobody could judge it
    by_scheduler: bool,
    /// When
    at: Duration,
}

/// What came of a new text, until the text in place was tried in the same way.
#[derive(Clone, Debug)]
enum Doubt {
    /// The scheduler refuses it, in these words
    Refused(String),
    /// It did not end, for this reason
    Endless(String),
}

/// The kubelet removes an image that no container uses. What was accepted longer ago than this is tried again, so that the image
/// is there when the old scheduler stops.
const FRESH: Duration = Duration::from_mins(5);

/// What is tried, and for which change.
struct Subject<'a> {
    plan: &'a Plan,
    target: &'a TargetNow,
    planned: &'a PlannedPreflight,
    direction: Direction,
}

impl Subject<'_> {
    /// Whether people want our edit out: they need no verdict where none can be had.
    fn is_restore(&self) -> bool {
        self.direction == Direction::Restore
    }
}

#[derive(Debug)]
struct Pause {
    tried: Digest,
    until: Duration,
    times: u32,
    node_state: NodeState,
}

/// Whether the node may ask for its turn.
#[derive(Debug)]
pub(super) enum Gate {
    Open,
    /// Not yet, or not at all
    Closed(Rest),
    /// Something changed: look again at once
    Again,
}

impl Gate {
    /// Why it is closed, if it is.
    pub fn closed(self) -> Option<Rest> {
        match self {
            Self::Closed(rest) => Some(rest),
            Self::Open | Self::Again => None,
        }
    }
}

impl Preflights {
    /// The API does not answer now.
    pub fn note_away(&mut self) {
        if let Some(running) = &mut self.running {
            running.trial.note_away();
        }
    }

    /// Whether the scheduler checks a text now.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Waits for news of the preflight that goes on; for ever if there is none.
    pub async fn changed(&mut self) {
        match &mut self.running {
            Some(running) => running.observer.changed().await,
            None => std::future::pending().await,
        }
    }
}

impl Agent {
    /// Whether this node may ask for its turn, as far as that depends on itself. Whoever holds the host's lock gets the last answer.
    pub(super) async fn gate(
        &mut self,
        seen: &Seen,
        record: &Record,
        needed: Option<NeededChange>,
        is_locked: bool,
    ) -> Gate {
        if is_locked {
            return self.preflights.last_closed.clone().map_or(Gate::Open, Gate::Closed);
        }
        let is_forward = needed.is_none_or(|needed| matches!(needed.change, ChangeKind::New | ChangeKind::Repair));
        let gate = match self.judge_release(seen).await {
            Gate::Closed(rest) if is_forward => Gate::Closed(rest),
            _ => self.preflight(seen, record, needed).await,
        };
        self.preflights.last_closed = if let Gate::Closed(rest) = &gate { Some(rest.clone()) } else { None };
        gate
    }

    /// The text that the scheduler accepted, or that nobody could judge.
    pub(super) fn tried(&self) -> Tried {
        Tried::Only(self.preflights.open.map(|open| open.tried))
    }

    /// Begins or goes on with the preflight that the next commit of this node needs.
    async fn preflight(&mut self, seen: &Seen, record: &Record, needed: Option<NeededChange>) -> Gate {
        let (plan, direction) = match self.plan_to_try(seen, record, needed) {
            Ok(Some(found)) => found,
            Ok(None) => {
                self.end_preflight();
                return Gate::Open;
            }
            Err(finding) => return Gate::Closed(Rest::blocked(&finding, RETRY)),
        };
        let (Some(planned), Some(target)) = (&plan.preflight, &plan.target) else { return Gate::Open };
        let subject = Subject { plan: &plan, target, planned, direction };
        let tried = planned.manifest.tried;
        if std::mem::replace(&mut self.preflights.retries, record.retries) != record.retries {
            // a person insists
            self.preflights.pause = None;
        }
        if self.preflights.subject.replace(tried) != Some(tried) {
            self.preflights.vanished = 0;
        }
        let now = self.now();
        // what nobody judged may go only as long as the image stays; while the rollout is paused nothing would come of another try
        let is_fresh = |open: Accepted| open.by_scheduler && (record.paused || now.saturating_sub(open.at) < FRESH);
        let is_open = |open: Accepted| open.tried == tried && (!planned.changes_image || is_fresh(open));
        if self.preflights.open.is_some_and(is_open) {
            self.end_preflight();
            return Gate::Open;
        }
        if let Some(pause) = self.preflights.pause.as_ref().filter(|pause| pause.tried == tried && now < pause.until) {
            return closed(pause.node_state.clone(), pause.until.saturating_sub(now));
        }
        if self.preflights.running.as_ref().is_some_and(|running| running.tried != tried) {
            self.end_preflight();
        }
        if self.preflights.running.is_none()
            && let Some(gate) = self.begin(&subject).await
        {
            return gate;
        }
        self.judge_preflight(seen, &subject).await
    }

    /// The plan whose commit comes next, if it needs a preflight here.
    fn plan_to_try(
        &self,
        seen: &Seen,
        record: &Record,
        needed: Option<NeededChange>,
    ) -> Result<Option<(Plan, Direction)>, Finding> {
        if self.settings.preflight == Preflight::None {
            return Ok(None);
        }
        if let Some(back) = needed.and_then(|needed| needed.way_back(seen)) {
            let plan = self.look_towards(back)?.plan;
            return Ok(plan.preflight.is_some().then_some((plan, back)));
        }
        let has_failed = seen.plan.digest.is_some_and(|digest| record.has_failed(digest));
        let is_wanted = seen.plan.preflight.is_some() && seen.journal.hold.is_none() && !has_failed;
        let is_restore = record.must_restore(&self.options.node);
        Ok((is_wanted && !is_restore).then(|| (seen.plan.clone(), Direction::Apply)))
    }

    /// Begins a preflight. Gives what follows where that is not possible.
    async fn begin(&mut self, subject: &Subject<'_>) -> Option<Gate> {
        self.outside.client.as_ref()?;
        if self.is_full().await {
            let why = "this node runs as many pods as its kubelet allows, so no preflight can run";
            return Some(if subject.is_restore() {
                self.go_anyway(subject, why)
            } else {
                self.without_verdict(subject, why)
            });
        }
        let manifest = &subject.planned.manifest;
        match self.start(manifest, subject.direction, subject.plan.revision.as_deref()) {
            Ok(true) => {
                tracing::info!(pod = manifest.identity.name, "the scheduler checks the new text before it is applied");
                self.follow(subject.target, manifest, manifest.tried, None);
                None
            }
            Ok(false) => Some(closed(changed_meanwhile(), ASK_INTERVAL)),
            Err(finding) => Some(Gate::Closed(Rest::blocked(&finding, RETRY))),
        }
    }

    /// Whether one more static pod would make the kubelet evict another pod.
    async fn is_full(&self) -> bool {
        let Some(ClientHandle(client)) = &self.outside.client else { return false };
        matches!(cluster::free_pods(client, &self.options.node).await, Ok(Some(0)))
    }

    /// Writes the files of a preflight.
    fn start(
        &mut self,
        manifest: &PreflightManifest,
        direction: Direction,
        revision: Option<&str>,
    ) -> Result<bool, Finding> {
        // who asks for the removal of everything ends a hold with it
        let initiator = if direction == Direction::Restore { Initiator::Person } else { Initiator::Agent };
        let expected_revision = revision.filter(|_| direction == Direction::Apply);
        let request = Request { expected_revision, ..self.request(direction, initiator) };
        reconcile::begin_preflight(&request, None, &self.env(), manifest, &mut |event| super::write::log(&event))
    }

    fn follow(&mut self, target: &TargetNow, manifest: &PreflightManifest, tried: Digest, control: Option<Doubt>) {
        let Some(ClientHandle(client)) = &self.outside.client else { return };
        let (node, host_root) = (self.options.node.as_str(), self.settings.host_root.as_path());
        let here = Here { client, node, host_root, probe: &|_| None };
        let Some(observer) = target.kind.preflight_observer(&manifest.identity, &here) else { return };
        let timeout = match self.settings.preflight {
            Preflight::On { timeout } => timeout,
            Preflight::None => RUNS_FOR,
        };
        let (path, trial) = (target.path.parent().join(&manifest.file), PreflightTrial::new(timeout));
        self.preflights.running = Some(Running { tried, path, begun: Instant::now(), trial, observer, control });
    }

    /// Removes the files of preflights that nobody waits for: another process may have left them.
    pub(super) fn sweep_preflights(&mut self, seen: &Seen) -> bool {
        let is_left = self.preflights.running.is_none() && !seen.snapshot.facts.preflights.is_empty();
        is_left && self.is_of_another_release(seen).is_none() && self.remove_preflights()
    }

    /// Ends the preflight that goes on, if there is one.
    pub(super) fn end_preflight(&mut self) {
        if self.preflights.running.take().is_some() {
            self.remove_preflights();
        }
    }

    fn remove_preflights(&mut self) -> bool {
        let request = self.request(Direction::Judge, Initiator::Agent);
        match reconcile::end_preflights(&request, None, &self.env()) {
            Ok(()) => true,
            Err(finding) => {
                tracing::warn!(
                    "cannot remove the preflight's file, will retry: {}",
                    NodeState::blocked(&finding).message
                );
                false
            }
        }
    }
}

/// What was planned does not hold any more.
fn changed_meanwhile() -> NodeState {
    NodeState::new(Phase::Waiting, "AsksForItsTurn", "what is wanted has changed meanwhile; the agent looks again")
}

fn closed(node_state: NodeState, after: Duration) -> Gate {
    Gate::Closed(Rest { node_state, after })
}
