//! Where this node is, and what is to be done next. Pure: what was seen comes in, one word and one act come out.

use serde::Serialize;

use crate::finding::Finding;
use crate::journal::Journal;
use crate::plan::Plan;
use crate::verify::{Failure, Verdict};

/// Where this node is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub enum Phase {
    /// Nothing looked at yet, or no source
    #[default]
    Pending,
    /// Refused; the reason says the way out
    Blocked,
    /// Another node, or the API, must come first
    Waiting,
    /// In the middle of writing
    Applying,
    /// In the middle of proving
    Verifying,
    /// Applied, but nobody can be asked
    Unknown,
    /// Proven
    Ready,
    /// The revision failed here; what ran before runs again, proven
    RolledBack,
    /// Someone else keeps rewriting the file, or what was proven does not run any more
    Degraded,
    /// Taken out on request
    Restored,
}

impl Phase {
    /// All of them, for metrics and documents.
    pub const ALL: [Self; 10] = [
        Self::Pending,
        Self::Blocked,
        Self::Waiting,
        Self::Applying,
        Self::Verifying,
        Self::Unknown,
        Self::Ready,
        Self::RolledBack,
        Self::Degraded,
        Self::Restored,
    ];

    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Blocked => "Blocked",
            Self::Waiting => "Waiting",
            Self::Applying => "Applying",
            Self::Verifying => "Verifying",
            Self::Unknown => "Unknown",
            Self::Ready => "Ready",
            Self::RolledBack => "RolledBack",
            Self::Degraded => "Degraded",
            Self::Restored => "Restored",
        }
    }

    /// Whether a person should look.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Blocked | Self::RolledBack | Self::Degraded)
    }
}

/// Where this node is and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The phase
    pub phase: Phase,
    /// Why, in CamelCase, for machines
    pub reason: String,
    /// Why, in words
    pub message: String,
    /// Whether this very text of the manifest was proven to run before
    pub was_proven: bool,
}

impl Standing {
    /// A phase with its reason.
    pub fn new(phase: Phase, reason: impl Into<String>, message: impl Into<String>) -> Self {
        Self { phase, reason: reason.into(), message: message.into(), was_proven: false }
    }

    /// A refusal.
    pub fn blocked(finding: &Finding) -> Self {
        let place = finding.file.as_ref().map_or_else(String::new, |file| match finding.line {
            Some(line) => format!("{file}:{line}: "),
            None => format!("{file}: "),
        });
        let message = format!("{place}{}; {}", finding.message, finding.way_out);
        Self::new(Phase::Blocked, camel(finding.rule), message)
    }

    /// What /readyz says.
    pub fn is_ready(&self) -> bool {
        match self.phase {
            Phase::Ready | Phase::Restored => true,
            Phase::Unknown => self.was_proven,
            _ => false,
        }
    }
}

/// What the look at the host asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Course {
    /// Nothing to do but to say so
    Stay(Standing),
    /// Write what is wanted
    Apply(Change),
    /// Prove what stands, which is what is wanted
    Verify,
    /// What is wanted failed here before: prove what stands instead
    VerifyLastGood(String),
    /// What stands failed here before, and nobody came to take it back
    RollBack(String),
}

/// What writing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A revision that was not proven on this node
    New,
    /// The revision that was last proven here; somebody else changed the file, or ours is to be mended
    Known,
    /// Only files of ours: nothing is restarted
    Files,
}

/// Decides by a plan towards what is wanted. `journal` is settled: work in flight is judged. `settled`: nothing is to be written.
pub fn course(plan: &Plan, journal: &Journal, settled: bool) -> Course {
    let stands = plan.target.as_ref().and_then(|target| target.ours());
    if let Some(hold) = &journal.hold {
        let held = format!("held since {} by {}: schedpatch apply ends it", hold.since, hold.by);
        return Course::Stay(match stands {
            None if plan.target.is_some() => Standing::new(Phase::Restored, "Held", held),
            None => Standing::new(Phase::Blocked, "Held", format!("{held}; the manifest cannot be found or read")),
            Some(ours) => {
                let message = format!("{held}; revision {} stands, and is left alone", ours.revision);
                Standing::new(Phase::Blocked, "Held", message)
            }
        });
    }
    let failed = stands.and_then(|ours| journal.bad.get(&ours.revision)).map(|bad| bad.reason.clone());
    if let Some(error) = plan.findings.iter().find(|_| plan.has_errors()) {
        return match (failed, plan.revision.as_ref().and_then(|wanted| journal.bad.get(wanted))) {
            (Some(reason), _) => Course::RollBack(reason),
            (None, Some(bad)) => Course::VerifyLastGood(bad.reason.clone()),
            (None, None) => Course::Stay(Standing::blocked(error)),
        };
    }
    let Some(revision) = &plan.revision else {
        let message = "the sources hold no KubeSchedulerConfiguration; what stands stays";
        return Course::Stay(Standing::new(Phase::Pending, "NoSource", message));
    };
    if settled {
        return Course::Verify;
    }
    let is_known = journal.last_good.as_ref().is_some_and(|good| good.revision == *revision);
    Course::Apply(match plan.commit() {
        None => Change::Files,
        Some(_) if is_known => Change::Known,
        Some(_) => Change::New,
    })
}

/// What a verdict asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// Say so and look again later
    Say(Standing),
    /// Write down that it runs, and look again
    Prove,
    /// Commit once more
    Nudge,
    /// Take it back
    RollBack(Failure),
}

/// What was being proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What is wanted; whether this very text was proven before
    Wanted {
        /// Whether this very text was proven before
        was_proven: bool,
    },
    /// What runs instead of a revision that failed
    LastGood {
        /// Why it failed
        reason: String,
        /// Whether this very text was proven before, or needs no proof in the journal
        was_proven: bool,
    },
}

impl Subject {
    /// Whether this very text was proven before.
    pub fn was_proven(&self) -> bool {
        let (Self::Wanted { was_proven } | Self::LastGood { was_proven, .. }) = self;
        *was_proven
    }
}

/// Decides by a verdict.
pub fn judged(verdict: &Verdict, subject: &Subject) -> Next {
    let standing = |phase, reason: &str, message: &str| Standing::new(phase, reason, message);
    match (subject, verdict) {
        (Subject::Wanted { was_proven }, Verdict::Proven(_)) => {
            let ready = standing(Phase::Ready, "Proven", "the running scheduler carries this revision");
            if *was_proven { Next::Say(ready) } else { Next::Prove }
        }
        (Subject::LastGood { reason, was_proven }, Verdict::Proven(_)) => {
            let back = standing(Phase::RolledBack, "RevisionFailed", reason);
            if *was_proven { Next::Say(back) } else { Next::Prove }
        }
        (Subject::Wanted { was_proven: false }, Verdict::Failed(failure)) => Next::RollBack(failure.clone()),
        (Subject::Wanted { was_proven: true }, Verdict::Failed(failure)) => {
            let message = format!("this revision was proven and does not run any more: {}", failure.message);
            Next::Say(standing(Phase::Degraded, failure.reason, &message))
        }
        (Subject::LastGood { reason, .. }, Verdict::Failed(failure)) => {
            let message =
                format!("what ran before does not run again: {}; the revision failed: {reason}", failure.message);
            Next::Say(standing(Phase::Degraded, failure.reason, &message))
        }
        // who committed what was proven once more would restart a scheduler that may well run
        (Subject::Wanted { was_proven: true } | Subject::LastGood { was_proven: true, .. }, Verdict::Nudge) => {
            let message = "this revision was proven, and the kubelet shows no pod of it any more";
            Next::Say(standing(Phase::Degraded, "NotShown", message))
        }
        (_, Verdict::Nudge) => Next::Nudge,
        (Subject::Wanted { .. }, Verdict::Wait(why, _)) => Next::Say(standing(Phase::Verifying, "NotYetProven", why)),
        (Subject::LastGood { .. }, Verdict::Wait(why, _)) => Next::Say(standing(Phase::Verifying, "RollingBack", why)),
        (Subject::Wanted { was_proven }, Verdict::Unknown(why)) => {
            let unknown = standing(Phase::Unknown, "NobodyToAsk", why);
            Next::Say(Standing { was_proven: *was_proven, ..unknown })
        }
        (_, Verdict::Dead(why)) => Next::Say(standing(Phase::Unknown, "SchedulerDead", why)),
        (Subject::LastGood { .. }, Verdict::Unknown(why)) => Next::Say(standing(Phase::Unknown, "RollingBack", why)),
    }
}

/// `bad-revision` as machines like it: `BadRevision`.
fn camel(rule: &str) -> String {
    let parts = rule.split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_uppercase() + rest
    });
    parts.collect()
}
