//! Stage 2: what must change. Pure and deterministic: the same snapshot gives the same plan, and an up-to-date host gives none.

mod access;
mod diff;
mod forward;
mod json;
mod preflight;
mod secrets;
mod show;
mod trial;
mod undo;
mod upgrade;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use access::Access;
pub use preflight::PlannedPreflight;
pub use show::{Colour, show, show_findings, visible};
pub use trial::PlannedTrial;

use crate::compose::{KnownVersion, Origin};
use crate::finding::{Finding, Level};
use crate::host::HostPath;
use crate::observe::{Snapshot, Source, State};
use crate::platform::{self, Detected, Target as Place};
use crate::revision::Digest;
use crate::settings::Settings;
use crate::target::{
    Around, Candidates, Chosen, Context, Definition, Expectation, Ours, Refusal, SchedulerSpec, TargetFile, TargetKind,
};

/// Put ours in, or take it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards what the sources say
    Apply,
    /// Back to the target without ours
    Restore,
    /// Back to what was last proven to run
    LastGood,
    /// The same, because what is in place failed
    AfterFailure,
    /// Back to the last digest that every node had proven; without one to the target without ours
    Sealed,
    /// The text in place once more, under the next generation: it was not noticed
    Nudge,
    /// Nowhere: only the target is found
    Judge,
}

impl Direction {
    /// Whether it leads away from what the sources say.
    pub fn is_way_back(self) -> bool {
        matches!(self, Self::Restore | Self::LastGood | Self::AfterFailure | Self::Sealed)
    }
}

/// What a plan comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Outcome {
    /// Errors among the findings say why nothing can be planned
    Refused,
    /// The host is as it should be, or nothing is wanted
    #[default]
    UpToDate,
    /// These steps, in order
    Change(Vec<Step>),
}

/// What must change on this host, and everything that led to it.
#[derive(Clone, Debug, Default)]
pub struct Plan {
    /// What it comes to
    pub outcome: Outcome,
    /// Public name of the platform
    pub platform: Option<&'static str>,
    /// Why we think so
    pub evidence: Vec<String>,
    /// The scheduler's version and where it was read
    pub scheduler: Option<KnownVersion>,
    /// Identity of the raw sources
    pub digest: Option<Digest>,
    /// Identity of what is written
    pub revision: Option<String>,
    /// The generation that the manifest has once the plan is carried out
    pub generation: Option<u64>,
    /// Errors, warnings and notes
    pub findings: Vec<Finding>,
    /// Which part of the configuration came from where
    pub origins: Vec<Origin>,
    /// Where the extenders of the configuration are: scheme, host and port of each
    pub extenders: Vec<String>,
    /// Whether a scheduler that does not lead is not ready with it
    pub delays_cache: bool,
    /// What the scheduler itself must check before the target is replaced
    pub preflight: Option<PlannedPreflight>,
    /// Whether the edit stays out on purpose: the cluster was upgraded, and the image that is wanted is of another release
    pub is_left_to_upgrade: bool,
    /// What becomes of the place where a new text is tried
    pub trial: Option<PlannedTrial>,
    /// What the target itself holds while another text is on trial
    pub on_disk: Option<String>,
    /// The configuration file that must be loaded before a restart
    pub loads: Option<String>,
    /// The file that it is about, as it is now
    pub target: Option<TargetNow>,
    /// The target's text without ours, where it matters
    pub original: Option<String>,
    /// Digests of all files of the revision, by their path on the host
    pub files: BTreeMap<String, Digest>,
    /// Files of other revisions that everybody may read and only the scheduler should, and the access they get
    pub exposed: Vec<(String, Access)>,
}

/// The target as it was seen.
#[derive(Clone, Debug)]
pub struct TargetNow {
    /// How it is read, edited, made effective and observed
    pub kind: &'static dyn TargetKind,
    /// Its path on the host
    pub path: HostPath,
    /// Its text
    pub text: String,
    /// Digest of its text
    pub digest: Digest,
    /// What it says about the scheduler
    pub spec: SchedulerSpec,
}

impl TargetNow {
    /// What must be seen once it is effective.
    pub fn expectation(&self) -> Expectation {
        self.kind.expectation(&self.spec)
    }

    /// Our marks in it.
    pub fn ours(&self) -> Option<&Ours> {
        self.spec.ours.as_ref()
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Writes a file of a revision, which nothing refers to yet
    WriteFile,
    /// Lets the scheduler itself check the new text, in a file that is removed afterwards
    Preflight,
    /// Replaces the target in one rename
    ReplaceTarget,
    /// Writes a text that was tried elsewhere into the target, once it is proven
    Keep,
    /// Restarts the scheduler, where nobody notices a new target by itself
    Restart,
}

/// One change of one file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What it does
    pub kind: StepKind,
    /// The file, as the host sees it
    pub path: HostPath,
    /// Its permission bits and its owner; the target keeps its own owner
    pub access: Access,
    /// In words
    pub why: String,
    /// What is there now; `None` for no file, or one whose content does not matter
    pub before: Option<Vec<u8>>,
    /// What shall be there
    pub after: Vec<u8>,
}

impl Plan {
    /// A plan that only says what went wrong.
    pub fn refused(findings: Vec<Finding>) -> Self {
        Self { outcome: Outcome::Refused, findings, ..Self::default() }
    }

    /// The steps of a change, in order; none where there is nothing to do.
    pub fn steps(&self) -> &[Step] {
        match &self.outcome {
            Outcome::Change(steps) => steps,
            Outcome::Refused | Outcome::UpToDate => &[],
        }
    }

    /// The step that replaces the target, if there is one.
    pub fn commit(&self) -> Option<&Step> {
        self.steps().iter().find(|step| step.kind == StepKind::ReplaceTarget)
    }

    /// Whether nothing can be planned.
    pub fn is_refused(&self) -> bool {
        self.outcome == Outcome::Refused
    }

    /// Why nothing can be planned.
    pub fn error(&self) -> Option<&Finding> {
        self.findings.iter().find(|finding| finding.level == Level::Error)
    }
}

/// Makes the plan.
pub fn make(snapshot: &Snapshot, settings: &Settings, direction: Direction) -> Plan {
    let mut plan = Plan::default();
    let steps = build(&mut plan, snapshot, settings, direction).map(|mut steps| {
        preflight::add(&mut plan, (&snapshot.state, &snapshot.facts.around), settings.preflight, direction, &mut steps);
        with_restart(&plan, snapshot, steps)
    });
    plan.outcome = match steps {
        Ok(steps) if steps.is_empty() => Outcome::UpToDate,
        Ok(steps) => Outcome::Change(steps),
        Err(errors) => {
            plan.findings.extend(errors);
            Outcome::Refused
        }
    };
    plan.exposed = exposed(&plan, &snapshot.state);
    plan.findings.sort_by_key(|finding| finding.level);
    plan
}

/// Fills in what the plan is about, and gives its steps.
fn build(
    plan: &mut Plan,
    snapshot: &Snapshot,
    settings: &Settings,
    direction: Direction,
) -> Result<Vec<Step>, Vec<Finding>> {
    let one = |finding: Finding| vec![finding];
    if direction == Direction::Apply {
        plan.digest = snapshot.sources.as_ref().ok().map(|sources| digest(sources, settings));
    }
    let detected = find_platform(snapshot, settings).map_err(one)?;
    plan.platform = Some(detected.platform.id);
    plan.evidence = detected.evidence;
    let (kind, dir) = match detected.platform.target {
        Place::InDir { kind, dir } => (kind, snapshot.facts.manifest_dir(dir)),
        Place::Refused { instead } => {
            return Err(one(Finding::error("platform-refused", refusal_message(detected.platform.id), instead)));
        }
    };
    let files = snapshot.facts.manifests_in(dir).map_err(one)?;
    let around = &snapshot.facts.around;
    let candidates = Candidates { dir, files, known: &snapshot.specs, around, target: settings.target.as_deref() };
    let chosen = kind.choose(&candidates).map_err(one)?;
    plan.findings.extend(chosen.warnings.iter().cloned());
    let (path, text, spec) = (chosen.file.path.clone(), chosen.text.to_owned(), chosen.spec.clone());
    plan.target = Some(TargetNow { kind, path, text, digest: chosen.digest, spec });
    let state = &snapshot.state;
    let target = Target { kind, chosen, around };
    let chosen = &target.chosen;
    undo::judge_state(plan, state, direction, &chosen.file.path).map_err(one)?;
    let in_target = |refusal: Refusal| one(Finding::from(refusal).in_file(chosen.file.path.clone()));
    let mut steps = match direction {
        Direction::Restore => undo::restore(plan, state, &target).map_err(in_target),
        Direction::LastGood | Direction::AfterFailure => {
            let failed = target.chosen.spec.ours.as_ref().map(|ours| ours.revision.as_str());
            let failed = failed.filter(|_| direction == Direction::AfterFailure);
            undo::back(plan, state, &target, state.journal.last_good.as_ref(), failed).map_err(in_target)
        }
        Direction::Sealed => {
            let sealed = state.journal.sealed.as_ref().map(|sealed| &sealed.commit);
            undo::back(plan, state, &target, sealed, None).map_err(in_target)
        }
        Direction::Nudge => undo::nudge(plan, state, &target).map_err(in_target),
        Direction::Judge => Ok(Vec::new()),
        Direction::Apply => forward::apply(plan, snapshot, settings, &target),
    }?;
    trial::add(plan, state, &target, direction, &mut steps).map_err(in_target)?;
    Ok(steps)
}

/// A new text of the target is followed by a restart where nobody notices it by itself; so is one in place that still needs it.
fn with_restart(plan: &Plan, snapshot: &Snapshot, mut steps: Vec<Step>) -> Vec<Step> {
    let Some(target) = &plan.target else { return steps };
    let replaces = steps.iter().any(|step| step.kind == StepKind::ReplaceTarget);
    let is_due = snapshot.state.journal.is_restart_due();
    let restarts = target.kind.activation(&target.spec).restarter().is_some();
    if restarts && (replaces || is_due) {
        let why = "makes the new text effective".to_owned();
        let (path, access) = (target.path.clone(), Access::default());
        steps.push(Step { kind: StepKind::Restart, path, access, why, before: None, after: Vec::new() });
    }
    steps
}

/// The target, and how to deal with it.
struct Target<'a> {
    kind: &'static dyn TargetKind,
    chosen: Chosen<'a>,
    around: &'a Around,
}

impl Target<'_> {
    /// Reads a text that is or was the target's.
    fn read<'t>(&'t self, text: &'t str) -> Result<Box<dyn Definition + 't>, Refusal> {
        self.kind.read(text, Context { path: &self.chosen.file.path, around: self.around })
    }

    /// Its text without our edit, which must not be taken for its own will.
    fn original<'t>(&'t self, state: &'t State) -> Result<Cow<'t, str>, Refusal> {
        if self.chosen.spec.ours.is_none() { Ok(Cow::Borrowed(self.chosen.text)) } else { undo::original(state, self) }
    }
}

fn replace_target(file: &TargetFile, before: &str, after: String, why: String) -> Step {
    let (before, after) = (Some(before.as_bytes().to_vec()), after.into_bytes());
    let access = Access::of_mode(file.mode);
    Step { kind: StepKind::ReplaceTarget, path: file.path.clone(), access, why, before, after }
}

/// What an older schedpatch wrote for everybody to read, but for what is written anew.
fn exposed(plan: &Plan, state: &State) -> Vec<(String, Access)> {
    let access = plan.target.as_ref().and_then(|target| Access::of_side_file(target.spec.run_as));
    let is_written = |path: &String| plan.steps().iter().any(|step| step.path == *path);
    let paths = state.exposed.iter().filter(|path| !is_written(path));
    access.into_iter().flat_map(|access| paths.clone().map(move |path| (path.clone(), access))).collect()
}

fn find_platform(snapshot: &Snapshot, settings: &Settings) -> Result<Detected, Finding> {
    if let Some(id) = &settings.platform {
        let platform = platform::named(settings.platforms, id).ok_or_else(|| {
            Finding::error("unknown-platform", format!("there is no platform {id:?}"), "see schedpatch plan --help")
        })?;
        return Ok(Detected { platform, evidence: vec![format!("--platform {id}")] });
    }
    platform::detect(settings.platforms, &snapshot.facts)
}

fn digest(sources: &[Source], settings: &Settings) -> Digest {
    Digest::of_wanted(sources.iter().map(|source| &source.files), &settings.overrides)
}

fn refusal_message(id: &str) -> String {
    format!("this host runs {id}, whose scheduler schedpatch does not edit")
}
