//! Another schedpatch that writes on this host: a second release, or an agent that was left behind. A person who runs
//! `schedpatch apply` or `restore` is none.

use std::time::Duration;

use super::limit::Limit;
use super::{Agent, Seen};
use crate::observe;

/// How the line of an agent begins in the lock's file.
const AN_AGENT: &str = "schedpatch run";

/// More commits of another agent than this within an hour are a fight.
const MAX_COMMITS: usize = 3;

/// What others committed here.
#[derive(Clone, Debug)]
pub(super) struct Others {
    /// The highest generation that is known: seen before, or committed by this agent
    known: u64,
    /// Whether this agent has committed
    has_committed: bool,
    commits: Limit,
    who: String,
}

impl Default for Others {
    fn default() -> Self {
        let commits = Limit::new(MAX_COMMITS, Duration::from_hours(1));
        Self { known: 0, has_committed: false, commits, who: String::new() }
    }
}

impl Others {
    /// This agent committed.
    pub fn committed(&mut self, generation: Option<u64>) {
        self.known = self.known.max(generation.unwrap_or_default());
        self.has_committed = true;
    }

    /// How long to keep quiet if another agent wrote too often, and who that is.
    pub fn too_many(&mut self, now: Duration) -> Option<(Duration, &str)> {
        self.commits.wait(now).map(|after| (after, self.who.as_str()))
    }

    /// Another generation is in place. Says whether somebody else must have committed it.
    fn is_foreign(&mut self, generation: Option<u64>) -> bool {
        let generation = generation.unwrap_or_default();
        let is_foreign = self.has_committed && generation > self.known;
        self.known = self.known.max(generation);
        is_foreign
    }
}

impl Agent {
    /// Notes a commit that another agent made since this one did.
    pub(super) fn note_others(&mut self, seen: &Seen) {
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
        if !self.pace.others.is_foreign(ours.map(|ours| ours.generation)) {
            return;
        }
        let is_in_journal =
            seen.journal.current.as_ref().map(|commit| commit.generation) == ours.map(|ours| ours.generation);
        let who = match observe::last_writer(&self.settings) {
            Some(line) if is_in_journal && line.starts_with(AN_AGENT) && !self.is_own_line(&line) => line,
            // a person, by the command line; or this agent, which took the lock since and had nothing to write
            Some(_) if is_in_journal => return,
            _ => format!("it keeps its state elsewhere than in {}", self.settings.state_dir),
        };
        tracing::warn!("another schedpatch replaced the manifest: {who}");
        self.pace.others.who = who;
        let now = self.now();
        self.pace.others.commits.note(now);
    }

    fn is_own_line(&self, line: &str) -> bool {
        line.starts_with(&format!("schedpatch {},", self.command))
    }
}
