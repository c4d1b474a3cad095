//! Whether what stands runs: by the mirror pod, and by the scheduler itself where that is needed.

use std::time::Duration;

use super::{Agent, ClientHandle, HEALTH_INTERVAL, Proof, Rest, Seen};
use crate::phase::{self, Next, Phase, Subject};
use crate::verify::{Expectation, Health, Known, Limits, PodWatch, Sight, Trial, Verdict, see};

/// How soon the API is asked again that did not answer.
const ASK_AGAIN: Duration = Duration::from_secs(5);

impl Agent {
    /// Judges what stands and does what follows from it. `besides`: what to say of the node while that is not what is wanted.
    pub(super) async fn verify(&mut self, seen: &Seen, subject: &Subject, besides: Option<Rest>) -> Option<Rest> {
        let mut verdict = self.judge(seen, subject, None).await?;
        if matches!(verdict, Verdict::Proven(_)) && !subject.was_proven() {
            // a watch may be silent because nothing happens, or because nothing comes through: a proof is asked for
            match self.ask_for_pod().await {
                None => {}
                // the trial goes on where it was: nothing speaks against it
                Some(Sight::Away(why)) => verdict = Verdict::Unknown(format!("the API does not answer: {why}")),
                sight => verdict = self.judge(seen, subject, sight).await?,
            }
        }
        if let (Verdict::Proven(_), Some((_, trial))) = (&verdict, &mut self.trial) {
            trial.confirmed();
        }
        let mut after = match &verdict {
            Verdict::Wait(_, until) => until.saturating_sub(self.now()),
            // the watch tells when the API is back, but it may not know that it was away
            Verdict::Unknown(_) if self.asks() => ASK_AGAIN,
            _ => self.options.resync,
        };
        if self.asks_scheduler(seen) && !matches!(verdict, Verdict::Proven(_)) {
            after = after.min(HEALTH_INTERVAL);
        }
        match (phase::judged(&verdict, subject), besides) {
            (Next::Say(standing), Some(rest)) if standing.phase != Phase::Degraded => {
                Some(Rest { after: after.min(rest.after), ..rest })
            }
            (Next::Say(standing), rest) => {
                Some(Rest { standing, after: rest.map_or(after, |rest| after.min(rest.after)) })
            }
            (Next::Prove, _) => self.prove(seen),
            (Next::Nudge, _) => self.nudge(seen),
            (Next::RollBack(failure), _) => self.roll_back(seen, failure),
        }
    }

    /// Judges what stands by what the cluster and, where needed, the scheduler itself say.
    async fn judge(&mut self, seen: &Seen, subject: &Subject, asked: Option<Sight>) -> Option<Verdict> {
        let target = seen.plan.target.as_ref()?;
        let version = seen.plan.scheduler.as_ref().map(|known| known.version);
        let expected = Expectation::of(&target.pod, &self.options.node, version);
        let known = self.sight(&expected);
        let sight = asked.unwrap_or(known);
        let healthy = if self.asks_scheduler(seen) { self.ask_scheduler(&expected).await } else { None };
        let is_old = subject.was_proven() && (matches!(subject, Subject::Wanted { .. }) || self.failure.is_none());
        if self.trial.as_ref().is_none_or(|(text, trial)| *text != target.digest || *trial.expected() != expected) {
            let settle = if is_old { Duration::ZERO } else { self.options.limits.settle };
            let failed = self.failure.as_ref().and_then(|failure| failure.container.clone());
            let trial = Trial::new(expected, Limits { settle, ..self.options.limits }, failed);
            self.trial = Some((target.digest, trial));
        }
        let now = self.now();
        self.trial.as_mut().map(|(_, trial)| trial.judge(&sight, healthy, now))
    }

    /// The pod as it is known; begins to follow it.
    fn sight(&mut self, expected: &Expectation) -> Sight {
        let (Proof::MirrorPod, Some(ClientHandle(client))) = (self.options.proof, &self.client) else {
            return Sight::Unasked;
        };
        let place = format!("{}/{}", expected.namespace, expected.name);
        if self.pod.as_ref().is_none_or(|(known, _)| *known != place) {
            self.pod = Some((place, PodWatch::begin(client.clone(), &expected.namespace, &expected.name)));
        }
        let Some((_, pod)) = &mut self.pod else { return Sight::Unasked };
        match &*pod.known.borrow_and_update() {
            Known::NotYet => Sight::NotYet,
            Known::Away(why) => Sight::Away(why.clone()),
            Known::Absent => Sight::Absent,
            Known::Pod(pod) => Sight::Pod(see(pod, expected)),
        }
    }

    /// The pod as the API has it in this moment; none where nobody is asked.
    async fn ask_for_pod(&self) -> Option<Sight> {
        let ((_, pod), (_, trial)) = (self.pod.as_ref()?, self.trial.as_ref()?);
        Some(match pod.ask().await {
            Ok(Some(pod)) => Sight::Pod(see(&pod, trial.expected())),
            Ok(None) => Sight::Absent,
            Err(why) => Sight::Away(why),
        })
    }

    /// Whether anybody is asked at all.
    pub(super) fn asks(&self) -> bool {
        self.options.proof == Proof::MirrorPod && self.client.is_some()
    }

    /// Whether the scheduler must answer itself: nobody asks it for the kubelet, or the API is away.
    fn asks_scheduler(&self, seen: &Seen) -> bool {
        let has_probe = seen.plan.target.as_ref().is_some_and(|target| target.pod.has_readiness_probe);
        let is_away = || self.pod.as_ref().is_some_and(|(_, pod)| matches!(*pod.known.borrow(), Known::Away(_)));
        self.asks() && (!has_probe || is_away())
    }

    async fn ask_scheduler(&mut self, expected: &Expectation) -> Option<bool> {
        let url = &expected.health_url;
        if self.health.as_ref().is_none_or(|(known, _)| known != url) {
            self.health = Some((url.clone(), Health::at(url)?));
        }
        Some(self.health.as_ref()?.1.is_well().await)
    }
}
