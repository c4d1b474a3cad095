//! Stage 2: what must change. Pure and deterministic: the same snapshot gives the same plan, and an up-to-date host gives none.

mod access;
mod diff;
mod json;
mod show;
mod target;
mod undo;

use std::borrow::Cow;
use std::collections::BTreeMap;

pub use access::Access;
pub use show::{Colour, show, show_findings, visible};

use crate::compose::{self, Composed, KnownVersion, Origin};
use crate::edit::{self, HostMount, Manifest, Ours, Refusal, SchedulerPod, Wanted};
use crate::finding::{Finding, Level};
use crate::host::HostPath;
use crate::journal::REVISIONS_DIR;
use crate::observe::{Snapshot, Source, State};
use crate::platform::{self, Detected, ManifestFile, Target as Place};
use crate::revision::{Digest, revision};
use crate::settings::{SchedulerOverrides, Settings};

/// Put ours in, or take it out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards what the sources say
    Apply,
    /// Back to the target without ours
    Restore,
    /// Back to what was last proven to run
    LastGood,
    /// The text in place once more, under the next generation: the kubelet did not notice
    Nudge,
    /// Nowhere: only the target is found
    Judge,
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TargetNow {
    /// Its path on the host
    pub path: HostPath,
    /// Its text
    pub text: String,
    /// Digest of its text
    pub digest: Digest,
    /// What it says about the scheduler
    pub pod: SchedulerPod,
}

impl TargetNow {
    /// Our marks in it.
    pub fn ours(&self) -> Option<&Ours> {
        self.pod.ours.as_ref()
    }
}

/// What a step does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepKind {
    /// Writes a file of a revision, which nothing refers to yet
    WriteFile,
    /// Replaces the target in one rename
    ReplaceTarget,
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
    plan.outcome = match build(&mut plan, snapshot, settings, direction) {
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
        plan.digest = snapshot.sources.as_ref().ok().map(|sources| digest(sources));
    }
    let detected = find_platform(snapshot, settings).map_err(one)?;
    plan.platform = Some(detected.platform.id);
    plan.evidence = detected.evidence;
    let dir = match &detected.platform.target {
        Place::StaticPod { dir } => snapshot.facts.manifest_dir(dir),
        Place::Refused { instead } => {
            return Err(one(Finding::error("platform-refused", refusal_message(detected.platform.id), *instead)));
        }
    };
    let files = snapshot.facts.manifests_in(dir).map_err(one)?.ok_or_else(|| one(target::no_dir(dir)))?;
    let chosen = target::choose(files, &snapshot.pods, settings.target.as_deref(), dir).map_err(one)?;
    plan.findings.extend(chosen.warnings.iter().cloned());
    let (path, text, pod) = (chosen.file.path.clone(), chosen.text.to_owned(), chosen.pod.clone());
    plan.target = Some(TargetNow { path, text, digest: chosen.digest, pod });
    let side_access = Access::of_side_file(chosen.pod.run_as);
    let state = &snapshot.state;
    undo::judge_state(plan, state, direction, &chosen.file.path).map_err(one)?;
    let in_target = |refusal: Refusal| one(Finding::from(refusal).in_file(chosen.file.path.clone()));
    match direction {
        Direction::Restore => undo::restore(plan, state, &chosen).map_err(in_target),
        Direction::LastGood => undo::back(plan, state, &chosen).map_err(in_target),
        Direction::Nudge => undo::nudge(plan, state, &chosen).map_err(in_target),
        Direction::Judge => Ok(Vec::new()),
        Direction::Apply => {
            let sources = snapshot.sources.as_ref().map_err(|finding| one(finding.clone()))?;
            let mounts = snapshot.mounts.as_ref().map_err(|finding| one(finding.clone()))?;
            let original = without_ours(state, &chosen).map_err(in_target)?;
            let manifest = Manifest::read(&original).map_err(in_target)?;
            let Some(composed) = compose_for(plan, (snapshot, sources), settings, &chosen, &manifest)? else {
                plan.findings.push(nothing_wanted());
                return Ok(Vec::new());
            };
            if side_access.is_none() && composed.files.keys().any(|name| name != edit::CONFIG_FILE) {
                return Err(one(access::unknown_user().in_file(chosen.file.path.clone())));
            }
            let target = Editable { chosen: &chosen, original: &original, manifest: &manifest };
            let steps = apply(plan, mounts, state, settings, &target, composed).map_err(in_target)?;
            undo::judge_revision(plan, state, &original, settings.retry).map_err(one)?;
            Ok(steps)
        }
    }
}

/// The target, and what is edited of it.
#[derive(Clone, Copy)]
struct Editable<'a> {
    chosen: &'a target::Chosen<'a>,
    original: &'a str,
    /// The original, read
    manifest: &'a Manifest<'a>,
}

/// The target without our edit, which must not be taken for its own will.
fn without_ours<'a>(state: &'a State, chosen: &target::Chosen<'a>) -> Result<Cow<'a, str>, Refusal> {
    if chosen.pod.ours.is_none() { Ok(Cow::Borrowed(chosen.text)) } else { undo::original(state, chosen) }
}

/// Composes for the scheduler as it is without our edit, and of the release that will run.
fn compose_for(
    plan: &mut Plan,
    (snapshot, sources): (&Snapshot, &[Source]),
    settings: &Settings,
    chosen: &target::Chosen<'_>,
    manifest: &Manifest<'_>,
) -> Result<Option<Composed>, Vec<Finding>> {
    let in_target = |finding: Finding| in_some_file(finding, &chosen.file.path);
    let original = &manifest.pod().map_err(|refusal| vec![in_target(refusal.into())])?;
    let overrides = &settings.overrides;
    let image = overrides.image.as_deref().unwrap_or(&original.image);
    let version = compose::find_version(overrides.version.as_deref(), image).map_err(|finding| {
        // what a flag said is not the manifest's fault
        let of_manifest = overrides.version.is_none() && overrides.image.is_none();
        vec![if of_manifest { in_target(finding).at_line(chosen.pod.image_line) } else { finding }]
    })?;
    let of_manifest = |finding: Finding| in_target(finding).at_line(chosen.pod.image_line);
    let disagreement = compose::disagreement(overrides.version.as_deref(), image);
    plan.findings
        .extend(disagreement.map(|finding| if overrides.image.is_none() { of_manifest(finding) } else { finding }));
    plan.scheduler = Some(version.clone());
    let base = original.config().and_then(|(_, path)| original.host_path(path)).and_then(|path| {
        let content = snapshot.bases.get(&path)?;
        Some((path, content.as_deref().map_err(String::as_str)))
    });
    let target = compose::Target { pod: original, version: version.version, base };
    compose::compose(sources, &target, overrides, &settings.accept)
        .map_err(|findings| findings.into_iter().map(in_target).collect())
}

fn apply(
    plan: &mut Plan,
    mounts: &[HostMount],
    state: &State,
    settings: &Settings,
    target: &Editable<'_>,
    composed: Composed,
) -> Result<Vec<Step>, Refusal> {
    let Editable { chosen, original, manifest } = *target;
    let revision = revision(&composed.files, &settings.overrides);
    let config_dir = String::from(settings.state_dir.join(REVISIONS_DIR).join(&revision));
    let files = composed.expanded(&config_dir);
    let SchedulerOverrides { image, dns_policy, args, .. } = settings.overrides.clone();
    let mounts = mounts.to_vec();
    let wanted = Wanted { revision: revision.clone(), generation: 0, config_dir, image, dns_policy, args, mounts };
    let wanted = |generation| Wanted { generation, ..wanted.clone() };

    let ours = chosen.pod.ours.as_ref();
    let unchanged = match ours.filter(|ours| ours.revision == revision && ours.generation > 0) {
        Some(ours) => edit::patch(chosen.text, &wanted(ours.generation))?.prove()? == chosen.text,
        None => false,
    };
    let generation = match ours {
        Some(ours) if unchanged => ours.generation,
        _ => plan.next_generation(state.journal.generation)?,
    };
    plan.files = files
        .iter()
        .map(|(name, content)| (format!("{}/{name}", wanted(0).config_dir), Digest::of_bytes(content)))
        .collect();
    let side_access = Access::of_side_file(chosen.pod.run_as).unwrap_or_default();
    let mut steps = revision_steps(files, &wanted(0).config_dir, state, side_access);
    if !unchanged {
        let after = manifest.patch(&wanted(generation))?.prove()?;
        steps.push(replace_target(chosen.file, chosen.text, after, why(&revision, &settings.overrides)));
    }
    if !unchanged || !state.journal.is_current(chosen.digest) {
        plan.original = Some(original.to_owned());
    }
    plan.revision = Some(revision);
    plan.generation = Some(generation);
    plan.origins = composed.origins;
    plan.extenders = composed.extenders;
    plan.findings.extend(composed.findings);
    Ok(steps)
}

/// What a commit is for; another image is worth a word of its own.
fn why(revision: &str, overrides: &SchedulerOverrides) -> String {
    let image = overrides.image.as_ref().map_or_else(String::new, |image| format!(", from the image {image}"));
    format!("the scheduler shall run revision {revision}{image}")
}

fn replace_target(file: &ManifestFile, before: &str, after: String, why: String) -> Step {
    let (before, after) = (Some(before.as_bytes().to_vec()), after.into_bytes());
    let access = Access::of_mode(file.mode);
    Step { kind: StepKind::ReplaceTarget, path: file.path.clone(), access, why, before, after }
}

fn revision_steps(files: BTreeMap<String, Vec<u8>>, dir: &str, state: &State, side_access: Access) -> Vec<Step> {
    let steps = files.into_iter().filter_map(|(name, after)| {
        let path = HostPath::from(dir).join(&name);
        let is_config = name == edit::CONFIG_FILE;
        let access = if is_config { Access::CONFIG } else { side_access };
        let found = state.revision_files.get(path.as_str());
        let why = match found {
            Some(file) if file.digest != Digest::of_bytes(&after) => "what is there is not what its revision says",
            Some(file) if !access.is_had_by(&file.access) => "its owner and mode shall let only the scheduler read it",
            Some(_) => return None,
            None if is_config => "the composed configuration",
            None => "a file that the sources hold beside it",
        };
        Some(Step { kind: StepKind::WriteFile, path, access, why: why.to_owned(), before: None, after })
    });
    steps.collect()
}

/// What an older schedpatch wrote for everybody to read, but for what is written anew.
fn exposed(plan: &Plan, state: &State) -> Vec<(String, Access)> {
    let access = plan.target.as_ref().and_then(|target| Access::of_side_file(target.pod.run_as));
    let is_written = |path: &String| plan.steps().iter().any(|step| step.path == *path);
    let paths = state.exposed.iter().filter(|path| !is_written(path));
    access.into_iter().flat_map(|access| paths.clone().map(move |path| (path.clone(), access))).collect()
}

fn find_platform(snapshot: &Snapshot, settings: &Settings) -> Result<Detected, Finding> {
    if let Some(id) = &settings.platform {
        let platform = platform::named(id).ok_or_else(|| {
            Finding::error("unknown-platform", format!("there is no platform {id:?}"), "see schedpatch plan --help")
        })?;
        return Ok(Detected { platform, evidence: vec![format!("--platform {id}")] });
    }
    platform::detect(&snapshot.facts)
}

fn digest(sources: &[Source]) -> Digest {
    Digest::of_sources(sources.iter().map(|source| &source.files))
}

fn refusal_message(id: &str) -> String {
    format!("this host runs {id}, whose scheduler schedpatch does not edit")
}

fn nothing_wanted() -> Finding {
    Finding::info(
        "no-config",
        "the sources hold no KubeSchedulerConfiguration, so nothing is planned and the scheduler keeps what it has",
        "put a file with kind: KubeSchedulerConfiguration into the source; schedpatch plan --restore shows how our edit would be removed",
    )
}

fn in_some_file(finding: Finding, file: &str) -> Finding {
    if finding.file.is_none() { finding.in_file(file) } else { finding }
}
