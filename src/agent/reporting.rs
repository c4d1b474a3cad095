//! What the agent reports: one report, replaced whenever something changes.

use tokio::sync::watch;
use tokio::time::Instant;

use super::{Agent, Seen};
use crate::apply::{ForeignWrite, Receipt};
use crate::phase::{NodeState, Phase};
use crate::report::{Counts, Report};
use crate::target::Observation;

/// Where the agent reports to.
#[derive(Debug)]
pub(super) struct Reporting {
    pub report: watch::Sender<Report>,
    /// When the last turn ended, for `/livez`
    pub turned: watch::Sender<Instant>,
    pub counts: Counts,
}

impl Reporting {
    pub fn new(report: watch::Sender<Report>, turned: watch::Sender<Instant>) -> Self {
        Self { report, turned, counts: Counts::default() }
    }
}

impl Agent {
    /// Reports where this node is, and logs it if that is news.
    /// The image of the running scheduler, by its digest, where a person asked for another one.
    fn running_image(&mut self) -> Option<String> {
        let (_, observer) = self.watched.scheduler.as_mut().filter(|_| self.settings.overrides.image.is_some())?;
        match observer.latest().0 {
            Observation::Running(running) => running.instance?.image,
            _ => None,
        }
    }

    pub(super) fn say(&mut self, seen: Option<&Seen>, node_state: NodeState) {
        let before = self.reporting.report.borrow().clone();
        let is_news = (before.node_state.phase, &before.node_state.reason) != (node_state.phase, &node_state.reason)
            || before.node_state.message != node_state.message && node_state.phase != Phase::Verifying;
        let since = if before.node_state.phase == node_state.phase { before.since } else { (self.options.clock)() };
        let mut report = Report { node_state, since, counts: self.reporting.counts.clone(), ..before };
        report.scheduler_image = self.running_image().or(report.scheduler_image);
        if let Some(Seen { plan, journal, is_whole, .. }) = seen {
            let target = plan.target.as_ref();
            let ours = target.and_then(|target| target.ours());
            let proven = seen.is_some_and(Seen::was_proven);
            report.digest = plan.digest.or(report.digest);
            // other sources may come to the same revision, and are then proven with it
            report.verified_digest = if report.node_state.phase == Phase::Ready {
                plan.digest
            } else {
                journal.last_good.as_ref().filter(|_| proven).and_then(|good| good.digest)
            };
            report.revision = ours.map(|ours| ours.revision.clone());
            report.generation = ours.map(|ours| ours.generation);
            report.platform = plan.platform;
            if *is_whole {
                report.scheduler_version = plan.scheduler.as_ref().map(|known| known.text.clone());
                report.extenders.clone_from(&plan.extenders);
            }
        }
        if is_news {
            report.log();
        }
        self.reporting.report.send_replace(report);
    }

    /// Logs what happened once, and leaves it for an event.
    pub(super) fn notice(&mut self, reason: &str, message: String) {
        tracing::warn!(reason, "{message}");
        self.reporting.report.send_modify(|report| report.notice(reason, message, true));
    }

    /// Tells of a write of somebody else that our commit replaced in the same instant.
    pub(super) fn notice_overwritten(&mut self, receipt: &Receipt) {
        if receipt.foreign_write != ForeignWrite::Lost {
            return;
        }
        self.reporting.counts.overwritten += 1;
        let what = match &receipt.kept {
            Some(path) => format!("their text is kept in {path} on this node"),
            None => "what they wrote is lost: have them write it again".to_owned(),
        };
        let message = format!("somebody else wrote the manifest in the instant before the agent replaced it; {what}");
        self.notice("Overwritten", message);
    }
}
