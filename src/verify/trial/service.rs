//! What only holds for a scheduler inside of a service, which somebody starts anew whenever it ends.

use std::time::Duration;

use super::{Cause, MAX_ENDS, STUCK, Trial, Verdict};
use crate::target::{Observation, UNKNOWN_START};

/// A service that ends so often before its scheduler was seen to stay does not run either, even if it answers for a moment each time.
const MAX_RESTARTS: u32 = 4;

impl Trial {
    /// What only holds for a service: a scheduler that answers has come up; one that is started anew twice without an answer fails,
    /// whoever else can be asked, and so does one that answers and never stays; and nothing else but its silence is evidence.
    pub(super) fn judge_service(
        &mut self,
        observation: &Observation,
        healthy: Option<bool>,
        now: Duration,
    ) -> Option<Verdict> {
        let service = self.expected.service.clone()?;
        let (Observation::Running(running) | Observation::Local(running, _)) = observation else { return None };
        let restarts = running.instance.as_ref().and_then(|instance| instance.restarts);
        if healthy == Some(true) {
            (self.restarts, self.asked) = (restarts, Duration::ZERO);
        }
        if service.restart_by_hand.is_some() && self.is_foreign(observation) {
            // a server that ends before a person has restarted it says nothing about a text that it never had
            (self.restarts, self.restarts_before) = (restarts, restarts);
        }
        // a count that is smaller is of a later start by a person
        let since = |base: Option<u32>| base.filter(|base| restarts.is_some_and(|now| now >= *base)).or(restarts);
        (self.restarts, self.restarts_before) = (since(self.restarts), since(self.restarts_before));
        let grown = |base: Option<u32>| restarts.unwrap_or_default().saturating_sub(base.unwrap_or_default());
        let why = if grown(self.restarts) as usize >= MAX_ENDS {
            Some("k3s ended twice, and its scheduler did not answer in between")
        } else if grown(self.restarts_before) >= MAX_RESTARTS && !self.is_confirmed {
            Some("k3s ended again and again, and its scheduler never stayed ready")
        } else {
            None
        };
        if let Some(why) = why {
            self.ready = None;
            let instance = running.instance.clone().unwrap_or_default();
            return Some(self.failed(Cause::Ended, why, &instance));
        }
        if let Observation::Local(_, why) = observation {
            self.ready = None;
            let until = *self.alone_since.get_or_insert(now) + self.limits.timeout;
            return (now < until).then(|| Verdict::Wait(why.clone(), until));
        }
        self.alone_since = None;
        let start =
            running.instance.as_ref().map(|instance| &instance.id).filter(|id| !id.is_empty() && *id != UNKNOWN_START);
        let is_earlier = start.is_some() && start == self.earlier_instance.as_ref();
        if self.is_ours(running) && !is_earlier {
            return None;
        }
        self.ready = None;
        Some(match service.restart_by_hand {
            Some(command) => {
                // only the first one: the next start shows the arguments of this one for some seconds
                if self.earlier_instance.is_none() && service.reads_again {
                    self.earlier_instance = start.cloned();
                }
                Verdict::RestartRequired(command)
            }
            // it has come up, so it is not at fault that nobody shows what it was started with
            None if healthy == Some(true) => Verdict::Wait(self.expected.words.earlier.to_owned(), now + STUCK),
            None => self.judge_time(self.expected.words.earlier, now),
        })
    }

    /// Whether what runs is known to be something else than the text in place.
    fn is_foreign(&self, observation: &Observation) -> bool {
        match observation {
            Observation::Running(running) => !self.is_ours(running),
            Observation::Local(running, _) => {
                let expected = self.expected.config.as_deref().unwrap_or_default();
                running.config.as_deref().is_some_and(|config| config != expected)
            }
            _ => false,
        }
    }
}
