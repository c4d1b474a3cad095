//! The node's phase, and what to do next. Pure: observations come in, a decision comes out.

use serde::Serialize;

use crate::finding::Finding;
use crate::journal::{Bad, Journal};
use crate::plan::Plan;
use crate::verify::{Cause, Failure, Verdict};

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
    /// The scheduler checks a new text, and runs as before
    Preflight,
    /// In the middle of writing
    Applying,
    /// In the middle of proving
    Verifying,
    /// Applied, but the API and the scheduler cannot be asked
    Unknown,
    /// The text is in place, and a person must restart the scheduler
    RestartRequired,
    /// Proven
    Ready,
    /// The revision failed here; what ran before runs again, proven
    RolledBack,
    /// Someone else keeps rewriting the file, or what was proven does not run any more
    Degraded,
    /// Being taken out on request
    Restoring,
    /// Taken out on request
    Restored,
}

impl Phase {
    /// All of them, for metrics and documents.
    pub const ALL: [Self; 13] = [
        Self::Pending,
        Self::Blocked,
        Self::Waiting,
        Self::Preflight,
        Self::Applying,
        Self::Verifying,
        Self::Unknown,
        Self::RestartRequired,
        Self::Ready,
        Self::RolledBack,
        Self::Degraded,
        Self::Restoring,
        Self::Restored,
    ];

    /// The public name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Pending => "Pending",
            Self::Blocked => "Blocked",
            Self::Waiting => "Waiting",
            Self::Preflight => "Preflight",
            Self::Applying => "Applying",
            Self::Verifying => "Verifying",
            Self::Unknown => "Unknown",
            Self::RestartRequired => "RestartRequired",
            Self::Ready => "Ready",
            Self::RolledBack => "RolledBack",
            Self::Degraded => "Degraded",
            Self::Restoring => "Restoring",
            Self::Restored => "Restored",
        }
    }

    /// Whether a person should look.
    pub fn is_trouble(self) -> bool {
        matches!(self, Self::Blocked | Self::RestartRequired | Self::RolledBack | Self::Degraded)
    }
}

/// Where this node is and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NodeState {
    /// The phase
    pub phase: Phase,
    /// Why, in CamelCase, for machines
    pub reason: String,
    /// Why, in words
    pub message: String,
    /// Whether this very text of the manifest was proven to run before
    pub was_proven: bool,
}

impl NodeState {
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
pub enum Decision {
    /// Nothing to do but to say so
    Stay(NodeState),
    /// Write what is wanted
    Apply(Change),
    /// Verify the text in place, which is what is wanted
    Verify,
    /// What is wanted failed here before: verify the text in place instead
    VerifyLastGood(Fault),
    /// The revision in place failed here before and was not rolled back
    RollBack(Fault),
}

/// A revision that failed here, and why.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The revision
    pub revision: String,
    /// In words
    pub reason: String,
    /// Whether it never ran: the scheduler refused it in a preflight
    pub by_preflight: bool,
}

impl Fault {
    /// What a mark says.
    pub fn of(revision: &str, bad: &Bad) -> Self {
        Self { revision: revision.to_owned(), reason: bad.reason.clone(), by_preflight: bad.by_preflight }
    }
}

/// What writing means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// A revision that was not proven on this node
    New,
    /// The revision that was last proven here; somebody else changed the file, or our edit must be repaired
    Known,
    /// Only files of ours: nothing is restarted
    Files,
}

/// Decides by a plan towards what is wanted. `journal` is settled: a commit in flight is judged. `settled`: nothing is to be written.
pub fn decide(plan: &Plan, journal: &Journal, settled: bool) -> Decision {
    let stands = plan.target.as_ref().and_then(|target| target.ours());
    if let Some(hold) = &journal.hold {
        let held = format!("held since {} by {}: schedpatch apply ends it", hold.since, hold.by);
        return Decision::Stay(match stands {
            None if plan.target.is_some() => NodeState::new(Phase::Restored, "Held", held),
            None => NodeState::new(Phase::Blocked, "Held", format!("{held}; the manifest cannot be found or read")),
            Some(ours) => {
                let message = format!("{held}; revision {} is in place and is left alone", ours.revision);
                NodeState::new(Phase::Blocked, "Held", message)
            }
        });
    }
    let fault = |revision: &String| journal.bad.get(revision).map(|bad| Fault::of(revision, bad));
    let failed = stands.and_then(|ours| fault(&ours.revision));
    if let Some(error) = plan.error().filter(|_| plan.is_refused()) {
        return match (failed, plan.revision.as_ref().and_then(fault)) {
            (Some(failed), _) => Decision::RollBack(failed),
            (None, Some(failed)) => Decision::VerifyLastGood(failed),
            (None, None) => Decision::Stay(NodeState::blocked(error)),
        };
    }
    let Some(revision) = &plan.revision else {
        let message = "the sources hold no KubeSchedulerConfiguration; the scheduler keeps what it has";
        return Decision::Stay(NodeState::new(Phase::Pending, "NoSource", message));
    };
    if settled {
        return Decision::Verify;
    }
    let is_known = journal.last_good.as_ref().is_some_and(|good| good.revision == *revision);
    Decision::Apply(match plan.commit() {
        None => Change::Files,
        Some(_) if is_known => Change::Known,
        Some(_) => Change::New,
    })
}

/// What a verdict asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Say so and look again later
    Say(NodeState),
    /// Write down that it runs, and look again
    Prove,
    /// Commit once more
    Nudge,
    /// Take it back
    RollBack(Failure),
    /// The original fails as well, so the revision is not at fault: remove its mark
    Forgive(Failure),
    /// The original runs again: apply what waited for it
    Resume,
}

/// What is being proven.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Subject {
    /// What is wanted
    Wanted {
        /// Whether this very text was proven before
        was_proven: bool,
        /// Whether an image that cannot be pulled is waited for: it is not ours, or this revision ran with it before
        waits_for_image: bool,
    },
    /// What runs instead of a revision that failed
    LastGood {
        /// What failed
        failed: Fault,
        /// Whether this very text was proven before, or needs no proof in the journal
        was_proven: bool,
        /// Whether it is the original, and was not seen to run since the revision failed: then its failure clears the revision
        may_clear: bool,
    },
    /// The original, which failed as well; what is wanted waits until it runs
    Original {
        /// How it failed
        reason: String,
    },
}

impl Subject {
    /// Whether this very text was proven before.
    pub fn was_proven(&self) -> bool {
        match self {
            Self::Wanted { was_proven, .. } | Self::LastGood { was_proven, .. } => *was_proven,
            Self::Original { .. } => true,
        }
    }

    /// Whether a verdict about it may act on the host, so that the API must be asked for each.
    pub fn is_on_trial(&self) -> bool {
        match self {
            Self::Wanted { was_proven, .. } => !was_proven,
            Self::LastGood { was_proven, may_clear, .. } => !was_proven || *may_clear,
            Self::Original { .. } => true,
        }
    }
}

/// Decides by a verdict.
pub fn after_verdict(verdict: &Verdict, subject: &Subject) -> Action {
    match subject {
        Subject::Wanted { was_proven, waits_for_image } => {
            after_verdict_of_wanted(verdict, *was_proven, *waits_for_image)
        }
        Subject::LastGood { failed, was_proven, may_clear } => {
            after_verdict_of_last_good(verdict, failed, *was_proven, *may_clear)
        }
        Subject::Original { reason } => after_verdict_of_original(verdict, reason),
    }
}

fn after_verdict_of_wanted(verdict: &Verdict, was_proven: bool, waits_for_image: bool) -> Action {
    let say = |phase, reason: &str, message: &str| Action::Say(NodeState::new(phase, reason, message));
    match verdict {
        Verdict::Proven(_) if was_proven => say(Phase::Ready, "Proven", "the running scheduler carries this revision"),
        Verdict::Proven(_) => Action::Prove,
        Verdict::Failed(failure) if was_proven => {
            let message = format!("this revision was proven and has stopped running: {}", failure.message);
            say(Phase::Degraded, failure.cause.reason(), &message)
        }
        // our edit has nothing to do with it, and without our edit the image would be missing too
        Verdict::Failed(failure) if waits_for_image && failure.cause == Cause::NotPulled => {
            let message = format!("waiting for the scheduler's image: {}", failure.message);
            say(Phase::Degraded, failure.cause.reason(), &message)
        }
        Verdict::Failed(failure) => Action::RollBack(failure.clone()),
        // committing again what was proven could restart a healthy scheduler
        Verdict::Nudge if was_proven => not_shown(),
        Verdict::Nudge => Action::Nudge,
        Verdict::Wait(why, _) => say(Phase::Verifying, "NotYetProven", why),
        Verdict::RestartRequired(command) => restart_required(command),
        Verdict::Unknown(why) => {
            let unknown = NodeState::new(Phase::Unknown, "NobodyToAsk", why);
            Action::Say(NodeState { was_proven, ..unknown })
        }
        Verdict::Dead(why) => say(Phase::Unknown, "SchedulerDead", why),
    }
}

fn after_verdict_of_last_good(verdict: &Verdict, failed: &Fault, was_proven: bool, may_clear: bool) -> Action {
    let say = |phase, reason: &str, message: &str| Action::Say(NodeState::new(phase, reason, message));
    let Fault { revision, reason, by_preflight } = failed;
    match verdict {
        Verdict::Proven(_) if was_proven && *by_preflight => {
            let message = format!(
                "the scheduler refuses revision {revision}: {reason}; it was not applied, and the scheduler runs as before. Change \
                 the configuration, or have it tried again with schedpatch rollout retry"
            );
            say(Phase::Blocked, "PreflightFailed", &message)
        }
        Verdict::Proven(_) if was_proven => {
            let message = format!(
                "revision {revision} failed: {reason}; the scheduler runs as before. Change the configuration, or \
                 have this one tried again with schedpatch rollout retry"
            );
            say(Phase::RolledBack, "RevisionFailed", &message)
        }
        Verdict::Proven(_) => Action::Prove,
        Verdict::Failed(failure) if may_clear => Action::Forgive(failure.clone()),
        Verdict::Failed(failure) => {
            let message = format!(
                "rollback failed: the previous configuration does not start: {}; before that, revision {revision} failed: {reason}",
                failure.message
            );
            say(Phase::Degraded, failure.cause.reason(), &message)
        }
        Verdict::Nudge if was_proven => not_shown(),
        Verdict::Nudge => Action::Nudge,
        Verdict::Wait(why, _) => say(Phase::Verifying, "RollingBack", why),
        Verdict::RestartRequired(command) => restart_required(command),
        Verdict::Unknown(why) => say(Phase::Unknown, "RollingBack", why),
        Verdict::Dead(why) => say(Phase::Unknown, "SchedulerDead", why),
    }
}

fn after_verdict_of_original(verdict: &Verdict, reason: &str) -> Action {
    let say = |phase, reason: &str, message: &str| Action::Say(NodeState::new(phase, reason, message));
    let message = format!(
        "the scheduler does not start without our edit either: {reason}; repair the manifest, the configuration is \
         applied once the scheduler runs"
    );
    match verdict {
        Verdict::Proven(_) => Action::Resume,
        Verdict::Failed(_) | Verdict::Wait(..) | Verdict::Nudge => say(Phase::Degraded, "OriginalFails", &message),
        Verdict::RestartRequired(command) => restart_required(command),
        Verdict::Unknown(why) => say(Phase::Unknown, "NobodyToAsk", why),
        Verdict::Dead(why) => say(Phase::Unknown, "SchedulerDead", why),
    }
}

fn restart_required(command: &str) -> Action {
    let message =
        format!("the configuration is in place and takes effect when k3s restarts; run on this node: {command}");
    Action::Say(NodeState::new(Phase::RestartRequired, "RestartRequired", message))
}

fn not_shown() -> Action {
    let message = "this revision was proven, and no scheduler of it is shown any more";
    Action::Say(NodeState::new(Phase::Degraded, "NotShown", message))
}

/// `bad-revision` as machines like it: `BadRevision`.
fn camel(rule: &str) -> String {
    let parts = rule.split('-').map(|part| {
        let (first, rest) = part.split_at(part.len().min(1));
        first.to_uppercase() + rest
    });
    parts.collect()
}
