//! Files of ours that nothing needs any more. Pure.

use std::collections::BTreeSet;

use crate::journal::Journal;
use crate::observe::Snapshot;
use crate::plan::Plan;
use crate::revision::Digest;

/// Unused files of ours.
pub(super) struct Garbage<'s> {
    pub texts: Vec<&'s str>,
    pub revisions: Vec<&'s str>,
}

impl<'s> Garbage<'s> {
    /// Of what was there before, all that neither the journal nor any manifest as it was seen names.
    pub fn of(journal: &Journal, snapshot: &'s Snapshot, plan: &Plan) -> Self {
        let Snapshot { state, facts, .. } = snapshot;
        if state.damaged.is_some() {
            // who cannot read what is needed removes nothing
            return Self { texts: Vec::new(), revisions: Vec::new() };
        }
        let texts: Vec<String> = journal.texts().iter().map(Digest::to_string).collect();
        let revisions = journal.revisions();
        let is_needed = |name: &str| {
            revisions.contains(name)
                || plan.revision.as_deref() == Some(name)
                || facts.mentioning(name).next().is_some()
        };
        Self {
            texts: names(&state.text_names).filter(|name| !texts.iter().any(|text| text == name)).collect(),
            revisions: names(&state.revisions).filter(|name| !is_needed(name)).collect(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.texts.is_empty() && self.revisions.is_empty()
    }
}

fn names(set: &BTreeSet<String>) -> impl Iterator<Item = &str> {
    set.iter().map(String::as_str)
}
