//! Looking at the host: a snapshot, and the plan that follows from it.

use tokio::time::Instant;

use super::{Agent, Seen};
use crate::apply;
use crate::finding::Finding;
use crate::journal::{Initiator, Journal};
use crate::plan::Direction;
use crate::reconcile;

impl Agent {
    /// Looks at everything and plans towards what is wanted. Whoever replaces the target may be in the middle of that.
    pub(super) async fn look(&self) -> Result<Seen, Finding> {
        for _ in 1..reconcile::MAX_ATTEMPTS {
            let seen = self.look_once()?;
            if !reconcile::is_being_replaced(&seen.snapshot, &seen.plan) {
                return Ok(seen);
            }
            tokio::time::sleep(reconcile::QUIET).await;
        }
        self.look_once()
    }

    pub(super) fn look_once(&self) -> Result<Seen, Finding> {
        self.look_towards(Direction::Apply)
    }

    /// Looks at the host and our own directory alone.
    pub(super) fn look_at_host(&self) -> Result<Seen, Finding> {
        self.look_towards(Direction::Judge)
    }

    pub(super) fn look_towards(&self, direction: Direction) -> Result<Seen, Finding> {
        let taken = Instant::now();
        let (snapshot, plan) =
            reconcile::look_once(&self.request(direction, Initiator::Agent), self.last.snapshot.as_ref())?;
        let mut journal = snapshot.state.journal.clone();
        if let Some(now) = &plan.target {
            let original = if now.ours().is_none() { Some(now.digest) } else { journal.original };
            journal = original.into_iter().fold(journal, Journal::with_marks_for);
        }
        let settled = apply::is_settled(&plan, &snapshot, direction, &Initiator::Agent);
        let is_recorded = settled || apply::is_recorded(&plan, &snapshot, direction, &Initiator::Agent);
        Ok(Seen { snapshot, plan, journal, settled, is_recorded, is_whole: direction == Direction::Apply, taken })
    }
}
