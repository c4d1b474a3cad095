//! What one look at the host found, and what follows from it for the commit that is in place.

use tokio::time::Instant;

use crate::journal::{Bad, Commit, Journal};
use crate::observe::{Fingerprint, Snapshot};
use crate::plan::Plan;
use crate::revision::Digest;

/// What one look found.
pub(super) struct Seen {
    pub snapshot: Snapshot,
    pub plan: Plan,
    /// The journal, without the marks of other originals
    pub journal: Journal,
    /// Whether there is nothing to write, to record or to clean up
    pub settled: bool,
    /// Whether there is nothing to write or to record
    pub is_recorded: bool,
    /// Whether the sources were read too
    pub is_whole: bool,
    /// When the look began
    pub taken: Instant,
}

/// What the agent keeps of its last look.
#[derive(Debug, Default)]
pub(super) struct LastLook {
    pub snapshot: Option<Snapshot>,
    /// Fingerprint of the files in the snapshot, taken before the look
    pub fingerprint: Option<Fingerprint>,
    /// The text beside which unused files could not be removed: no reason to try it on every turn
    pub cleanup_failed_for: Option<Digest>,
}

impl Seen {
    /// Digest of the text that is in place.
    pub fn text(&self) -> Option<Digest> {
        self.plan.target.as_ref().map(|target| target.digest)
    }

    /// Whether the scheduler is part of a service, as on k3s.
    pub fn is_service(&self) -> bool {
        self.plan.target.as_ref().is_some_and(|target| target.spec.service.is_some())
    }

    /// Generation of our edit in the target, if there is one.
    pub fn generation(&self) -> Option<u64> {
        self.plan.target.as_ref().and_then(|target| target.ours()).map(|ours| ours.generation)
    }

    /// Whether the text in place is exactly what schedpatch committed last.
    pub fn is_current(&self) -> bool {
        self.text().is_some_and(|text| self.journal.is_current(text))
    }

    /// Whether this very text was proven to run.
    pub fn was_proven(&self) -> bool {
        self.journal.is_proven() && self.is_current()
    }

    /// Whether the revision in place was proven to run, in this text or in another.
    pub fn has_run(&self) -> bool {
        let ours = self.plan.target.as_ref().and_then(|target| target.ours());
        ours.is_some_and(|ours| self.journal.has_proven(&ours.revision))
    }

    /// Whether a commit is in place that was not proven. Others may have edited its text since.
    pub fn is_unproven(&self) -> bool {
        let generation = self.generation();
        let is_in_place = |commit: &Option<Commit>| {
            generation.is_some() && commit.as_ref().map(|commit| commit.generation) == generation
        };
        let Journal { current, last_good, hold, .. } = &self.journal;
        let is_unproven =
            if self.is_current() { !self.was_proven() } else { is_in_place(current) && !is_in_place(last_good) };
        is_unproven && hold.is_none()
    }

    /// Whether the text in place was proven, and the place of its trial is still there: the target must get the text, or a restart
    /// of the host would bring the earlier one back.
    pub fn must_keep(&self) -> bool {
        let target = self.plan.target.as_ref();
        let mut files = self.snapshot.facts.files();
        let file = target.and_then(|target| files.find(|file| file.path == target.path));
        self.was_proven() && self.journal.hold.is_none() && file.is_some_and(|file| file.trial.is_some())
    }

    /// Whether the commit in place was made together with this mark, or before it.
    pub fn came_by_rollback(&self, bad: &Bad) -> bool {
        self.journal.current.as_ref().is_some_and(|commit| bad.since >= commit.since)
    }

    /// The revision that was proven last, where somebody else took it out of the target and no hold is set.
    pub fn lost_revision(&self) -> Option<String> {
        let Journal { current, last_good, hold, .. } = &self.journal;
        let is_gone = self.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
        last_good.as_ref().filter(|_| is_gone && hold.is_none() && current.is_some()).map(|good| good.revision.clone())
    }
}
