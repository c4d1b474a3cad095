//! Where a new text is tried before it is written into the target, for kinds that can. Pure.

use super::{Direction, Plan, Step, StepKind, Target};
use crate::host::HostPath;
use crate::observe::State;
use crate::target::{Context, OnTrial, Refusal};

/// What becomes of the place of a trial.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedTrial {
    /// The place
    pub place: HostPath,
    /// What the commit puts there in place of writing the target; nothing: the place is cleared
    pub content: Option<Vec<u8>>,
    /// Whether what is there means nothing any more
    pub is_stale: bool,
}

/// Adds the trial of a new text, or what follows an earlier one.
pub(super) fn add(
    plan: &mut Plan,
    state: &State,
    target: &Target<'_>,
    direction: Direction,
    steps: &mut Vec<Step>,
) -> Result<(), Refusal> {
    let file = target.chosen.file;
    let on_trial = file.trial.as_ref();
    plan.on_disk = on_trial.map(|trial| trial.on_disk.clone());
    if let Some(step) = steps.iter().find(|step| step.kind == StepKind::ReplaceTarget) {
        let goes_forward = matches!(direction, Direction::Apply | Direction::Nudge);
        let after = String::from_utf8_lossy(&step.after).into_owned();
        let on_disk = on_trial.map_or(target.chosen.text, |trial| &trial.on_disk);
        let at = Context { path: &file.path, around: target.around };
        let trial = if goes_forward { target.kind.trial(on_disk, &after, at)? } else { None };
        plan.loads = target.read(&after).and_then(|after| after.spec()).ok().and_then(|spec| config(&spec));
        plan.trial = match (trial, on_trial) {
            (Some((place, content)), _) => Some(PlannedTrial { place, content: Some(content), is_stale: false }),
            (None, Some(trial)) => {
                Some(PlannedTrial { place: trial.place.clone(), content: None, is_stale: trial.is_stale })
            }
            (None, None) => None,
        };
        return Ok(());
    }
    plan.loads = config(&target.chosen.spec);
    let Some(OnTrial { place, on_disk, is_stale }) = on_trial else { return Ok(()) };
    let is_proven = state.journal.is_proven() && state.journal.is_current(target.chosen.digest);
    if *is_stale || is_proven {
        plan.trial = Some(PlannedTrial { place: place.clone(), content: None, is_stale: *is_stale });
    }
    if is_proven && !is_stale {
        let why = "the text is proven: the target gets it, and the trial ends without a restart".to_owned();
        let (before, after) = (Some(on_disk.as_bytes().to_vec()), target.chosen.text.as_bytes().to_vec());
        let (path, access) = (file.path.clone(), super::Access::of_mode(file.mode));
        steps.push(Step { kind: StepKind::Keep, path, access, why, before, after });
    }
    Ok(())
}

fn config(spec: &crate::target::SchedulerSpec) -> Option<String> {
    spec.config().map(|(_, path)| path.to_owned())
}

impl Plan {
    /// What the target itself holds before this step, whatever is on trial.
    pub fn on_disk<'a>(&'a self, step: &'a Step) -> &'a [u8] {
        self.on_disk.as_ref().map_or_else(|| step.before.as_deref().unwrap_or_default(), String::as_bytes)
    }
}
