//! Whether the extenders of a Ready node take connections. A scheduler that cannot reach one runs and is Ready, and schedules
//! nothing or ignores the extender: that is shown beside Ready, never as a phase.

use std::time::Duration;

use tokio::time::Instant;

use super::events::Events;
use super::{Reach, Report};
use crate::phase::Phase;

/// How often they are asked again: an agent at rest makes hardly any system call.
const INTERVAL: Duration = Duration::from_mins(10);
/// The pause while an extender does not take connections: a person who starts it should not have to wait.
const UNREACHABLE_INTERVAL: Duration = Duration::from_secs(20);
/// The pause once an extender has been unreachable for [`SOON`]: nobody is about to start it.
const LASTING_INTERVAL: Duration = Duration::from_mins(2);
const SOON: Duration = Duration::from_mins(5);

/// What is known of the extenders.
#[derive(Debug, Default)]
pub(super) struct Extenders {
    /// When they were asked last, and where they were; none while the node is not Ready
    asked: Option<(Instant, Vec<String>)>,
    /// `scheme://host:port` of those that did not take a connection
    unreachable: Vec<String>,
    /// Since when one of them does not
    since: Option<Instant>,
}

impl Extenders {
    /// Those that did not take a connection, for an annotation; none if all did.
    pub fn unreachable(&self) -> Option<String> {
        (!self.unreachable.is_empty()).then(|| self.unreachable.join(", "))
    }

    fn interval(&self) -> Duration {
        match self.since {
            None => INTERVAL,
            Some(since) if since.elapsed() < SOON => UNREACHABLE_INTERVAL,
            Some(_) => LASTING_INTERVAL,
        }
    }

    /// Whether they should be asked now: the node has become Ready, their places changed, or the last answer is old. What
    /// was known of a node that is not Ready any more is dropped.
    pub fn is_due(&mut self, report: &Report) -> bool {
        if report.node_state.phase != Phase::Ready || report.extenders.is_empty() {
            let had_answers = !self.unreachable.is_empty();
            *self = Self::default();
            return had_answers;
        }
        self.asked.as_ref().is_none_or(|(asked, urls)| asked.elapsed() >= self.interval() || *urls != report.extenders)
    }

    /// Asks, and tells what has changed.
    pub async fn ask(&mut self, report: &Report, events: &mut Events) {
        if report.node_state.phase != Phase::Ready || report.extenders.is_empty() {
            return;
        }
        let answers = Reach::default().ask(&report.extenders).await.to_vec();
        let before = std::mem::take(&mut self.unreachable);
        for (url, is_up) in answers {
            let was_down = before.contains(&url);
            if !is_up && !was_down {
                let message = format!(
                    "the extender {url} does not take connections from this node, so the scheduler cannot ask it; \
                     start it, or check urlPrefix and the node's DNS and firewall"
                );
                tracing::warn!("{message}");
                events.add("ExtenderUnreachable", &message, true);
            } else if is_up && was_down {
                let message = format!("the extender {url} takes connections again");
                tracing::info!("{message}");
                events.add("ExtenderReachable", &message, false);
            }
            if !is_up {
                self.unreachable.push(url);
            }
        }
        let now = Instant::now();
        self.since = if self.unreachable.is_empty() { None } else { self.since.or(Some(now)) };
        self.asked = Some((now, report.extenders.clone()));
    }

    /// Done when they should be asked again; never, if there is nobody to ask.
    pub async fn wait(&self) {
        match &self.asked {
            Some((asked, _)) => tokio::time::sleep_until(*asked + self.interval()).await,
            None => std::future::pending().await,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_extender_that_is_away_is_asked_again_soon_and_after_five_minutes_less_often() {
        for (is_away, minutes, seconds) in [(false, 0, 600), (true, 0, 20), (true, 5, 120)] {
            let since = is_away.then(Instant::now);
            tokio::time::advance(Duration::from_mins(minutes)).await;
            let began = Instant::now();
            Extenders { asked: Some((began, Vec::new())), since, ..Extenders::default() }.wait().await;
            assert_eq!(began.elapsed().as_secs(), seconds);
        }
    }
}
