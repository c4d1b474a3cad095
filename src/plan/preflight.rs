//! Whether the scheduler itself must check a text before it replaces the target. Pure.

use super::{Access, Direction, Plan, Step, StepKind};
use crate::compose;
use crate::finding::Finding;
use crate::host::HostPath;
use crate::observe::State;
use crate::revision::Digest;
use crate::settings::Preflight;
use crate::target::{self, Around, Context, PreflightManifest, PreflightRun};

/// A preflight that comes before a commit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedPreflight {
    /// What is tried
    pub manifest: PreflightManifest,
    /// Where its file is
    pub path: HostPath,
    /// Whether the scheduler gets another image than it has: without a verdict nothing follows then
    pub changes_image: bool,
}

/// The kubelet ends a preflight after so many seconds beyond the time that an image may take, even when no agent is there: also
/// the image that runs may be gone from the node, and must be pulled first.
const DEADLINE: u64 = 60;

/// Adds a preflight before the step that replaces the target, where one is needed.
pub(super) fn add(
    plan: &mut Plan,
    (state, around): (&State, &Around),
    settings: Preflight,
    direction: Direction,
    steps: &mut Vec<Step>,
) {
    let Preflight::On { timeout } = settings else { return };
    let Some(at) = steps.iter().position(|step| step.kind == StepKind::ReplaceTarget) else { return };
    let (Some(now), Ok(text)) = (&plan.target, std::str::from_utf8(&steps[at].after)) else { return };
    let context = Context { path: &now.path, around };
    let Ok(spec) = target::read(now.kind, text, context) else { return };
    let changes_image = spec.image != now.spec.image;
    let is_needed = match direction {
        Direction::Apply => changes_image || !is_proven(plan, state),
        // the image that ran before may be gone
        Direction::Restore | Direction::Sealed => changes_image,
        // so may one whose text somebody else replaced: the scheduler that runs instead must not end for it
        Direction::LastGood => changes_image && now.ours().is_none(),
        // what undoes a trial waits for nothing
        Direction::AfterFailure | Direction::Nudge | Direction::Judge => false,
    };
    if !is_needed {
        return;
    }
    let way_out = "nothing to do; what is applied is verified, and rolled back if it does not run";
    let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
    if !changes_image && original.is_some() && state.journal.preflights.cannot_judge == original {
        let message = "no preflight: even the scheduler that runs failed in one, so it cannot judge on this host";
        plan.findings.push(Finding::info("no-preflight", message, way_out));
        return;
    }
    let attempt = state.journal.preflights.attempts + 1;
    let subject = plan.revision.as_deref().unwrap_or("original");
    let run = PreflightRun { subject, attempt, deadline: timeout.as_secs() + DEADLINE };
    let Ok(Some(manifest)) = now.kind.preflight(text, &run) else { return };
    let of_image = || compose::find_version(None, &spec.image).ok();
    let version = plan.scheduler.clone().or_else(of_image).map(|known| known.version);
    if let Some(version) = version.filter(|version| version.opens_plain_port()) {
        let message = format!(
            "no preflight: kube-scheduler {version} opens its plain port even in one, where the running scheduler has it"
        );
        plan.findings.push(Finding::info("no-preflight", message, way_out));
        return;
    }
    let path = now.path.parent().join(&manifest.file);
    let why = "the scheduler itself checks the new text first, and ends; this file is removed afterwards".to_owned();
    let (access, after) = (Access::of_mode(0o600), manifest.content.clone().into_bytes());
    steps.insert(at, Step { kind: StepKind::Preflight, path: path.clone(), access, why, before: None, after });
    plan.preflight = Some(PlannedPreflight { manifest, path, changes_image });
}

/// Whether this very revision was proven with this very original: somebody else only took it out.
fn is_proven(plan: &Plan, state: &State) -> bool {
    let journal = &state.journal;
    let original = plan.original.as_ref().map(|text| Digest::of_bytes(text.as_bytes()));
    plan.revision.as_ref().is_some_and(|revision| journal.has_proven(revision)) && journal.original == original
}
