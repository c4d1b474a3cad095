//! The preflight of what this node is about to commit: before it asks for its turn, the scheduler itself checks the new text.

use std::time::Duration;

use tokio::time::Instant;

use super::{Agent, ClientHandle, RETRY, Rest, Seen};
use crate::cluster;
use crate::finding::Finding;
use crate::host::HostPath;
use crate::journal::{Bad, Initiator};
use crate::phase::{NodeState, Phase};
use crate::plan::{Direction, Plan, PlannedPreflight, TargetNow};
use crate::reconcile::{self, Request};
use crate::revision::Digest;
use crate::rollout::Record;
use crate::settings::Preflight;
use crate::target::{Here, PreflightManifest, PreflightObserver, PreflightRun, PreflightState};
use crate::verify::{PreflightTrial, PreflightVerdict, RUNS_FOR};

/// How often the API is asked, even when the watch is silent.
const ASK_INTERVAL: Duration = Duration::from_secs(2);
/// First and longest pause after a preflight that could not be started.
const FIRST_PAUSE: Duration = Duration::from_secs(30);
const LAST_PAUSE: Duration = Duration::from_mins(10);
/// After so many preflights in a row that somebody removed, nothing follows from the next.
const MAX_VANISHED: u32 = 3;

/// The preflights of this process.
#[derive(Debug, Default)]
pub(super) struct Preflights {
    /// The one that goes on
    running: Option<Running>,
    /// What may be committed, and whether the scheduler accepted it: else nobody could judge it
    open: Option<(Digest, bool)>,
    /// How often in a row somebody removed one before it ended
    vanished: u32,
    /// What the gate said last, for who holds the host's lock and must not take it again
    last_closed: Option<Rest>,
    /// What could not be tried, and when it is tried again
    pause: Option<Pause>,
}

#[derive(Debug)]
struct Running {
    /// Identity of what shall be committed
    tried: Digest,
    path: HostPath,
    begun: Instant,
    trial: PreflightTrial,
    observer: Box<dyn PreflightObserver>,
    /// In a control run: the words with which the scheduler refused what shall be committed
    control: Option<String>,
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
    pub(super) async fn gate(&mut self, seen: &Seen, record: &Record, is_locked: bool) -> Gate {
        if is_locked {
            return self.preflights.last_closed.clone().map_or(Gate::Open, Gate::Closed);
        }
        let gate = match self.judge_release(seen).await {
            Gate::Closed(rest) if !record.must_restore(&self.options.node) => Gate::Closed(rest),
            _ => self.preflight(seen, record).await,
        };
        self.preflights.last_closed = if let Gate::Closed(rest) = &gate { Some(rest.clone()) } else { None };
        gate
    }

    /// Begins or goes on with the preflight that the next commit of this node needs.
    pub(super) async fn preflight(&mut self, seen: &Seen, record: &Record) -> Gate {
        let Some((plan, direction)) = self.plan_to_try(seen, record) else {
            self.end_preflight();
            return Gate::Open;
        };
        let (Some(planned), Some(target)) = (&plan.preflight, &plan.target) else { return Gate::Open };
        let tried = planned.manifest.tried;
        // what nobody judged may go only as long as the image stays
        let is_open = |(open, is_accepted): (Digest, bool)| open == tried && (is_accepted || !planned.changes_image);
        if self.preflights.open.is_some_and(is_open) {
            self.end_preflight();
            return Gate::Open;
        }
        let now = self.now();
        if let Some(pause) = self.preflights.pause.as_ref().filter(|pause| pause.tried == tried && now < pause.until) {
            return closed(pause.node_state.clone(), pause.until.saturating_sub(now));
        }
        if self.preflights.running.as_ref().is_some_and(|running| running.tried != tried) {
            self.end_preflight();
        }
        if self.preflights.running.is_none()
            && let Some(gate) = self.begin(&plan, target, planned, direction).await
        {
            return gate;
        }
        self.judge_preflight(seen, &plan, target, planned).await
    }

    /// The plan whose commit comes next, if it needs a preflight here.
    fn plan_to_try(&self, seen: &Seen, record: &Record) -> Option<(Plan, Direction)> {
        if !self.asks() || self.settings.preflight == Preflight::None {
            return None;
        }
        if record.must_restore(&self.options.node) {
            return None;
        }
        let has_failed = seen.plan.digest.is_some_and(|digest| record.has_failed(digest));
        let is_wanted = seen.plan.preflight.is_some() && seen.journal.hold.is_none() && !has_failed;
        is_wanted.then(|| (seen.plan.clone(), Direction::Apply))
    }

    /// Begins a preflight. Gives what follows where that is not possible.
    async fn begin(
        &mut self,
        plan: &Plan,
        target: &TargetNow,
        planned: &PlannedPreflight,
        direction: Direction,
    ) -> Option<Gate> {
        let ClientHandle(client) = self.outside.client.clone()?;
        if let Ok(Some(free)) = cluster::free_pods(&client, &self.options.node).await
            && free == 0
        {
            // a static pod beyond the limit makes the kubelet evict another pod
            let why = "this node runs as many pods as its kubelet allows, so no preflight can run";
            return Some(self.without_verdict(planned, why));
        }
        let manifest = planned.manifest.clone();
        match self.start(&manifest, direction, plan.revision.as_deref()) {
            Ok(true) => {
                tracing::info!(pod = manifest.identity.name, "the scheduler checks the new text before it is applied");
                self.follow(target, &manifest, planned.manifest.tried, None);
                None
            }
            Ok(false) => Some(closed(changed_meanwhile(), ASK_INTERVAL)),
            Err(finding) => Some(Gate::Closed(Rest::blocked(&finding, RETRY))),
        }
    }

    /// Writes the files of a preflight.
    fn start(
        &mut self,
        manifest: &PreflightManifest,
        direction: Direction,
        revision: Option<&str>,
    ) -> Result<bool, Finding> {
        let expected_revision = revision.filter(|_| direction == Direction::Apply);
        let request = Request { expected_revision, ..self.request(direction, Initiator::Agent) };
        reconcile::begin_preflight(&request, None, &self.env(), manifest, &mut |event| super::write::log(&event))
    }

    fn follow(&mut self, target: &TargetNow, manifest: &PreflightManifest, tried: Digest, control: Option<String>) {
        let Some(ClientHandle(client)) = &self.outside.client else { return };
        let here = Here { client, node: &self.options.node, host_root: &self.settings.host_root };
        let Some(observer) = target.kind.preflight_observer(&manifest.identity, &here) else { return };
        let timeout = match self.settings.preflight {
            Preflight::On { timeout } => timeout,
            Preflight::None => RUNS_FOR,
        };
        let (path, trial) = (target.path.parent().join(&manifest.file), PreflightTrial::new(timeout));
        self.preflights.running = Some(Running { tried, path, begun: Instant::now(), trial, observer, control });
    }

    /// Judges the preflight that goes on, and does what follows.
    async fn judge_preflight(
        &mut self,
        seen: &Seen,
        plan: &Plan,
        target: &TargetNow,
        planned: &PlannedPreflight,
    ) -> Gate {
        let now = self.now();
        let Some(running) = &mut self.preflights.running else { return Gate::Open };
        let (mut state, age) = running.observer.latest();
        // who acts on an end has asked, and the API answered
        if age > ASK_INTERVAL || matches!(state, PreflightState::Away(_) | PreflightState::Ended(_)) {
            state = running.observer.ask().await;
        }
        let is_removed = seen.taken > running.begun && !seen.snapshot.facts.preflights.contains(&running.path);
        let verdict = match running.trial.judge(&state, now) {
            PreflightVerdict::Wait(_) | PreflightVerdict::Obstructed(_) if is_removed => PreflightVerdict::Vanished,
            verdict => verdict,
        };
        let control = running.control.clone();
        match (verdict, control) {
            (PreflightVerdict::Wait(words), _) => {
                let node_state = NodeState::new(Phase::Preflight, "Preflight", words);
                closed(node_state, ASK_INTERVAL)
            }
            (PreflightVerdict::Obstructed(words), _) => {
                let message = format!(
                    "the preflight cannot be started: {words}; the scheduler runs as before, and the kubelet keeps trying"
                );
                closed(NodeState::new(Phase::Blocked, "PreflightObstructed", message), ASK_INTERVAL)
            }
            (PreflightVerdict::Passed(image), None) => {
                self.end_preflight();
                let image = image.map_or_else(String::new, |image| format!(" (image {image})"));
                tracing::info!("the scheduler accepts the new text{image}");
                self.pass(planned.manifest.tried, true)
            }
            (PreflightVerdict::Refused(words), None) if planned.changes_image && cannot_judge_here(seen, plan) => {
                self.end_preflight();
                let why = format!("even the scheduler that runs fails in a preflight on this host; this one: {words}");
                self.without_verdict(planned, &why)
            }
            (PreflightVerdict::Refused(words), None) if planned.changes_image => self.refuse(seen, plan, &words),
            (PreflightVerdict::Refused(words), None) => self.try_current(target, planned, words),
            // what runs passes, so the words are about what is new
            (PreflightVerdict::Passed(_), Some(words)) => self.refuse(seen, plan, &words),
            (PreflightVerdict::Refused(_), Some(words)) => self.cannot_judge(plan, planned, &words),
            (PreflightVerdict::Vanished, _) if self.preflights.vanished < MAX_VANISHED => {
                self.preflights.running = None;
                self.preflights.vanished += 1;
                Gate::Again
            }
            (PreflightVerdict::Vanished, _) => {
                self.end_preflight();
                self.preflights.vanished = 0;
                self.without_verdict(planned, "somebody removes its file each time")
            }
            (PreflightVerdict::Unjudged(why), _) => {
                self.end_preflight();
                self.without_verdict(planned, &why)
            }
        }
    }

    /// The scheduler refused the new text: tries the text in place the same way, to know whether a preflight can judge here.
    fn try_current(&mut self, target: &TargetNow, planned: &PlannedPreflight, words: String) -> Gate {
        let (attempt, deadline) = (planned.manifest.attempt + 1, RUNS_FOR.as_secs());
        let run = PreflightRun { subject: "current", attempt, deadline };
        let Ok(Some(manifest)) = target.kind.preflight(&target.text, &run) else {
            return self.without_verdict(planned, "the text in place cannot be tried");
        };
        self.preflights.running = None;
        match self.start(&manifest, Direction::Judge, None) {
            Ok(false) => closed(changed_meanwhile(), ASK_INTERVAL),
            Ok(true) => {
                self.follow(target, &manifest, planned.manifest.tried, Some(words));
                let message = "the scheduler refuses the new text; the agent tries the text in place, to be sure";
                closed(NodeState::new(Phase::Preflight, "Preflight", message), ASK_INTERVAL)
            }
            Err(finding) => Gate::Closed(Rest::blocked(&finding, RETRY)),
        }
    }

    /// Marks a revision that the scheduler refuses; what runs was never touched.
    fn refuse(&mut self, seen: &Seen, plan: &Plan, words: &str) -> Gate {
        self.end_preflight();
        self.reporting.counts.preflights_refused += 1;
        let Some(revision) = plan.revision.clone() else {
            let message =
                format!("our edit is not removed, because the scheduler refuses what was there before: {words}");
            return closed(NodeState::new(Phase::Blocked, "PreflightFailed", message), RETRY);
        };
        let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
        let bad = Bad {
            reason: words.to_owned(),
            since: (self.options.clock)(),
            // a revision that ran before is refused with this original only
            original: original.filter(|_| seen.journal.has_proven(&revision)),
            digest: plan.digest,
            retries: seen.journal.retries,
            is_reported: false,
            by_preflight: true,
        };
        tracing::warn!(revision, "the scheduler refuses the new text, which is not applied: {words}");
        let request = self.request(Direction::Judge, Initiator::Agent);
        match reconcile::amend(&request, &self.env(), &|journal| journal.refused(&revision, bad.clone())) {
            Ok(_) => Gate::Again,
            Err(finding) => Gate::Closed(Rest::blocked(&finding, RETRY)),
        }
    }

    /// Even what runs fails in a preflight: it says nothing on this host.
    fn cannot_judge(&mut self, plan: &Plan, planned: &PlannedPreflight, words: &str) -> Gate {
        self.end_preflight();
        tracing::warn!("a preflight cannot judge on this host, even the scheduler that runs fails in it: {words}");
        if let Some(original) = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes())) {
            let request = self.request(Direction::Judge, Initiator::Agent);
            let amended = reconcile::amend(&request, &self.env(), &|journal| journal.without_preflight(original));
            if let Err(finding) = amended {
                tracing::warn!("cannot remember that: {}", NodeState::blocked(&finding).message);
            }
        }
        self.pass(planned.manifest.tried, false)
    }

    /// Nothing follows from a preflight: what has the image that runs is applied and verified, another image is not.
    fn without_verdict(&mut self, planned: &PlannedPreflight, why: &str) -> Gate {
        let tried = planned.manifest.tried;
        if !planned.changes_image {
            tracing::warn!("the preflight gave no verdict ({why}); the new text is applied and verified without it");
            return self.pass(tried, false);
        }
        let times = self.preflights.pause.as_ref().filter(|pause| pause.tried == tried).map_or(0, |pause| pause.times);
        let pause = (FIRST_PAUSE * 2_u32.pow(times.min(5))).min(LAST_PAUSE);
        let message = format!(
            "the preflight of another image gave no verdict: {why}; the scheduler runs as before, and the agent tries again, less \
             and less often. To go on without it: --preflight none"
        );
        let node_state = NodeState::new(Phase::Blocked, "PreflightUnclear", message);
        let until = self.now() + pause;
        self.preflights.pause = Some(Pause { tried, until, times: times + 1, node_state: node_state.clone() });
        closed(node_state, pause)
    }

    fn pass(&mut self, tried: Digest, is_accepted: bool) -> Gate {
        (self.preflights.open, self.preflights.pause, self.preflights.vanished) = (Some((tried, is_accepted)), None, 0);
        Gate::Open
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

/// Whether a preflight was seen to say nothing with this original.
fn cannot_judge_here(seen: &Seen, plan: &Plan) -> bool {
    let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
    original.is_some() && seen.journal.preflights.cannot_judge == original
}

/// What was planned does not hold any more.
fn changed_meanwhile() -> NodeState {
    NodeState::new(Phase::Waiting, "AsksForItsTurn", "what is wanted has changed meanwhile; the agent looks again")
}

fn closed(node_state: NodeState, after: Duration) -> Gate {
    Gate::Closed(Rest { node_state, after })
}
