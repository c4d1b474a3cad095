//! Whether the text in place runs: by what is observed, and by the scheduler itself where that is needed.

use std::time::Duration;

use super::{Agent, ClientHandle, HEALTH_INTERVAL, Proof, Rest, Seen, Turn};
use crate::compose::{self, Version};
use crate::finding::Finding;
use crate::phase::{self, Action, NodeState, Phase, Subject};
use crate::plan::TargetNow;
use crate::target::{Expectation, Here, Observation, Probe};
use crate::verify::{Cause, Failure, Health, Limits, Trial, Verdict};

/// How soon the API is asked again that did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);
/// However long that lasts, it is asked this often.
const LEAST_OFTEN: Duration = Duration::from_secs(30);
/// How often the API is asked during a trial, even when the watch is silent.
const ASK_INTERVAL: Duration = Duration::from_secs(10);
/// During a trial an answer counts for so long.
const FRESH: Duration = Duration::from_secs(2);

/// Whether what is known is enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ask {
    /// If it is fresh, or this is no trial
    WhenOld,
    /// Never: the API has to answer now
    Now,
}

impl Agent {
    /// Judges what is in place and does what follows. `meanwhile` is what the node reports while a commit is judged that is not
    /// what is wanted.
    pub(super) async fn verify(&mut self, seen: &Seen, subject: &Subject, meanwhile: Option<Rest>) -> Turn {
        if let Some(rest) = self.rest_while_restarting(seen) {
            return Turn::Sleep(rest);
        }
        self.withdraw_readiness(seen, subject);
        let Some(mut verdict) = self.judge(seen, subject, Ask::WhenOld).await else { return Turn::Again };
        let is_grave = matches!(verdict, Verdict::Failed(_));
        if is_grave || subject.is_on_trial() && matches!(verdict, Verdict::Proven(_) | Verdict::Nudge) {
            // a watch may be silent because nothing happens, or because nothing comes through: who acts, or says that something is
            // broken, has asked
            let Some(answered) = self.judge(seen, subject, Ask::Now).await else { return Turn::Again };
            verdict = answered;
            if let Some(why) = self.why_stale(&verdict).await {
                verdict = Verdict::Unknown(why);
            }
        }
        if let (Verdict::Proven(_), Some((_, trial))) = (&verdict, &mut self.work.trial) {
            trial.confirmed();
        }
        let is_in_vain = !matches!(verdict, Verdict::Wait(..) | Verdict::Proven(_));
        self.work.asked_in_vain = if is_in_vain { self.work.asked_in_vain.saturating_add(1) } else { 0 };
        let mut after = match &verdict {
            Verdict::Wait(_, until) if self.asks() => until.saturating_sub(self.now()).min(ASK_INTERVAL),
            Verdict::Wait(_, until) => until.saturating_sub(self.now()),
            // the watch tells when the API is back, but it may not know that it was away
            Verdict::Unknown(_) | Verdict::Dead(_) if self.asks() => self.patience(),
            _ if subject.is_on_trial() => self.patience(),
            _ => self.options.resync,
        };
        if self.asks_scheduler(seen) && matches!(verdict, Verdict::Wait(..)) {
            after = after.min(HEALTH_INTERVAL);
        }
        match (phase::after_verdict(&verdict, subject), meanwhile) {
            // nothing goes on before a person has run the command, which an uninstall says itself
            (Action::Say(node_state), Some(rest))
                if node_state.phase == Phase::RestartRequired && rest.node_state.phase != Phase::Restoring =>
            {
                let message = format!("{}; {}", rest.node_state.message, node_state.message);
                let node_state = NodeState { message, ..node_state };
                Turn::Sleep(Rest { node_state, after: after.min(rest.after) })
            }
            (Action::Say(node_state), Some(rest)) if node_state.phase != Phase::Degraded => {
                Turn::Sleep(Rest { after: after.min(rest.after), ..rest })
            }
            (Action::Say(node_state), rest) => {
                Turn::Sleep(Rest { node_state, after: rest.map_or(after, |rest| after.min(rest.after)) })
            }
            // what others made of a commit is recorded by the pass that applies, not by this one
            (Action::Prove, Some(rest)) if !seen.is_current() => Turn::Sleep(rest),
            (Action::Prove, _) => self.prove(seen),
            (Action::Nudge, _) => self.nudge(seen).await,
            (Action::RollBack(failure), _) => self.roll_back(seen, failure),
            (Action::Forgive(failure), _) => self.forgive(seen, &failure),
            (Action::Resume, _) => {
                self.work.failing_original = None;
                Turn::Again
            }
        }
    }

    /// Nothing follows from what runs before the restart that was asked for.
    fn rest_while_restarting(&self, seen: &Seen) -> Option<Rest> {
        let target = seen.plan.target.as_ref()?;
        let restarter = target.kind.activation(&target.spec).restarter()?;
        if !restarter.must_load() || !seen.journal.awaits_restart() {
            return None;
        }
        let node_state = match &self.work.restart_failed {
            Some(why) if seen.journal.is_restart_due() => {
                let message = format!("the restart that makes the new text effective is tried again: {why}");
                NodeState::new(Phase::Unknown, "RestartFailed", message)
            }
            _ => NodeState::new(Phase::Verifying, "Restarting", "k3s is being restarted"),
        };
        Some(Rest { node_state, after: HEALTH_INTERVAL })
    }

    /// What was said of another revision does not hold for this one, however long the API takes to answer.
    fn withdraw_readiness(&mut self, seen: &Seen, subject: &Subject) {
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours()).map(|ours| &ours.revision);
        let report = self.reporting.report.borrow();
        let is_of_another = subject.is_on_trial() || report.revision.as_ref() != ours;
        let must_withdraw = report.node_state.is_ready() && is_of_another;
        drop(report);
        if must_withdraw {
            self.say(Some(seen), NodeState::new(Phase::Verifying, "NotYetProven", "the API is being asked"));
        }
    }

    /// Somebody else may have replaced what was said to be ready: that does not hold while the API is asked about the rest.
    pub(super) fn withdraw_what_is_gone(&mut self, seen: &Seen) {
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours()).map(|ours| &ours.revision);
        let report = self.reporting.report.borrow();
        let must_withdraw = report.node_state.phase == Phase::Ready && report.revision.as_ref() != ours;
        drop(report);
        if must_withdraw {
            self.say(Some(seen), NodeState::new(Phase::Verifying, "NotYetProven", "the API is being asked"));
        }
    }

    /// The longer the API has nothing new to say, the less often it is asked; news of the pod begin anew.
    fn patience(&self) -> Duration {
        (ASK_AGAIN * 2_u32.pow(self.work.asked_in_vain.saturating_sub(1).min(3))).min(LEAST_OFTEN)
    }

    /// Why nothing follows from what was observed: it may be of some time ago. An end is an end all the same.
    async fn why_stale(&mut self, verdict: &Verdict) -> Option<String> {
        let is_news = matches!(verdict, Verdict::Failed(Failure { cause: Cause::Ended, .. }));
        if is_news || !matches!(verdict, Verdict::Proven(_) | Verdict::Failed(_) | Verdict::Nudge) {
            return None;
        }
        let (_, observer) = self.watched.scheduler.as_mut()?;
        let why = observer.why_stale().await?;
        if let Some((_, trial)) = &mut self.work.trial {
            trial.was_stale();
        }
        Some(why)
    }

    /// Judges what is in place by what the cluster and, where needed, the scheduler itself say.
    pub(super) async fn judge(&mut self, seen: &Seen, subject: &Subject, ask: Ask) -> Option<Verdict> {
        let target = seen.plan.target.as_ref()?;
        let expected = target.expectation();
        let observation = self.observation(target, subject, ask).await;
        let healthy = if self.asks_scheduler(seen) { self.ask_scheduler(target, &expected).await } else { None };
        let is_old = subject.was_proven()
            && match subject {
                Subject::Wanted { .. } => true,
                Subject::LastGood { .. } => self.work.failure.is_none(),
                Subject::Original { .. } => false,
            };
        if self.work.trial.as_ref().is_none_or(|(text, trial)| *text != target.digest || *trial.expected() != expected)
        {
            let settle = if is_old { Duration::ZERO } else { self.options.limits.settle };
            let failed = self.work.failure.as_ref().and_then(|failure| failure.instance.clone());
            let trial = Trial::new(expected, Limits { settle, ..self.options.limits }, failed);
            self.work.trial = Some((target.digest, trial));
        }
        let now = self.now();
        let verdict = self.work.trial.as_mut().map(|(_, trial)| trial.judge(&observation, healthy, now));
        self.work.runs = matches!(verdict, Some(Verdict::Proven(_))).then_some(target.digest);
        verdict
    }

    /// Why the scheduler would not read a new text, where only the cluster shows that.
    pub(super) async fn objection(&mut self, seen: &Seen) -> Option<Finding> {
        let target = seen.plan.target.as_ref().filter(|_| seen.is_service())?;
        let subject = Subject::Wanted { was_proven: true, waits_for_image: false };
        self.observation(target, &subject, Ask::WhenOld).await;
        let (_, observer) = self.watched.scheduler.as_mut()?;
        observer.objection(&target.path).await
    }

    /// The scheduler as it is known, or as it is now; begins to follow it.
    async fn observation(&mut self, target: &TargetNow, subject: &Subject, ask: Ask) -> Observation {
        let (Proof::Observation, Some(ClientHandle(client))) = (self.options.proof, &self.outside.client) else {
            return Observation::Unasked;
        };
        if self.watched.scheduler.as_ref().is_none_or(|(known, _)| *known != target.spec.identity) {
            let find = &self.outside.scheduler.0;
            let probe = |url: &str| find(url).map(probe_of);
            let (node, host_root) = (self.options.node.as_str(), self.settings.host_root.as_path());
            let here = Here { client, node, host_root, probe: &probe };
            let observer = target.kind.observer(&target.spec, &here);
            self.watched.scheduler = Some((target.spec.identity.clone(), observer));
        }
        let Some((_, observer)) = &mut self.watched.scheduler else { return Observation::Unasked };
        let (known, age) = observer.latest();
        let is_fresh = age <= FRESH || !subject.is_on_trial();
        if ask == Ask::Now || !known.is_answer() || !is_fresh { observer.ask().await } else { known }
    }

    /// Whether anybody is asked at all.
    pub(super) fn asks(&self) -> bool {
        self.options.proof == Proof::Observation && self.outside.client.is_some()
    }

    /// Whether the scheduler must answer itself: nobody else asks it whether it is ready, or the API is away.
    fn asks_scheduler(&self, seen: &Seen) -> bool {
        let has_probe = seen.plan.target.as_ref().is_some_and(|target| target.spec.has_readiness_probe);
        let is_away = || self.watched.scheduler.as_ref().is_some_and(|(_, observer)| observer.is_away());
        self.asks() && (!has_probe || is_away())
    }

    async fn ask_scheduler(&mut self, target: &TargetNow, expected: &Expectation) -> Option<bool> {
        let given = self.settings.overrides.version.as_deref();
        let version = compose::find_version(given, &target.spec.image).ok().map(|known| known.version);
        let path = match version.is_some_and(Version::has_livez) {
            // nobody else asks the scheduler of a service whether it is ready
            true if expected.service.is_some() => "readyz",
            true => "livez",
            false => "healthz",
        };
        let url = format!("{}/{path}", expected.endpoint);
        if self.watched.health.as_ref().is_none_or(|(known, _)| *known != url) {
            self.watched.health = Some((url.clone(), (self.outside.scheduler.0)(&url)?));
        }
        Some(self.watched.health.as_ref()?.1.is_well().await)
    }
}

/// A way to ask an endpoint, for an observer.
fn probe_of(health: Health) -> Probe {
    Probe(Box::new(move || {
        let health = health.clone();
        Box::pin(async move { health.is_well().await })
    }))
}
