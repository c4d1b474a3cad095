//! The way forward: what the sources say is composed, written, and put into the target.

use std::collections::BTreeMap;

use super::{Access, Plan, Step, StepKind, Target, access, replace_target, undo, upgrade};
use crate::compose::{self, Composed};
use crate::finding::Finding;
use crate::host::HostPath;
use crate::journal::REVISIONS_DIR;
use crate::observe::{Snapshot, Source, State};
use crate::revision::{Digest, revision};
use crate::settings::{SchedulerOverrides, Settings};
use crate::target::{CONFIG_FILE, Chosen, Definition, HostMount, Refusal, RunAs, Wanted};

/// Plans to put in what is wanted.
pub(super) fn apply(
    plan: &mut Plan,
    snapshot: &Snapshot,
    settings: &Settings,
    target: &Target<'_>,
) -> Result<Vec<Step>, Vec<Finding>> {
    let (chosen, state) = (&target.chosen, &snapshot.state);
    let one = |finding: Finding| vec![finding];
    let in_target = |refusal: Refusal| one(Finding::from(refusal).in_file(chosen.file.path.clone()));
    let sources = snapshot.sources.as_ref().map_err(|finding| one(finding.clone()))?;
    let mounts = snapshot.mounts.as_ref().map_err(|finding| one(finding.clone()))?;
    let original = target.original(state).map_err(in_target)?;
    let definition = target.read(&original).map_err(in_target)?;
    if let Err(finding) = upgrade::judge_image(state, settings, target, &*definition) {
        plan.is_left_to_upgrade = true;
        return Err(one(finding));
    }
    let Some(composed) = compose_for(plan, (snapshot, sources), settings, chosen, &*definition)? else {
        plan.findings.push(nothing_wanted());
        return Ok(Vec::new());
    };
    let has_side_files = composed.files.keys().any(|name| name != CONFIG_FILE);
    if has_side_files && Access::of_side_file(run_as(chosen.spec.run_as, &settings.overrides)).is_none() {
        return Err(one(access::unknown_user().in_file(chosen.file.path.clone())));
    }
    let editable = Editable { target, original: &original, definition: &*definition };
    let steps = steps(plan, mounts, state, settings, &editable, composed).map_err(in_target)?;
    undo::judge_revision(plan, state, &original, settings.retry).map_err(one)?;
    Ok(steps)
}

/// The target, and what is edited of it.
#[derive(Clone, Copy)]
struct Editable<'a> {
    target: &'a Target<'a>,
    original: &'a str,
    /// The original, read
    definition: &'a dyn Definition,
}

/// Composes for the scheduler as it is without our edit, and of the release that will run.
fn compose_for(
    plan: &mut Plan,
    (snapshot, sources): (&Snapshot, &[Source]),
    settings: &Settings,
    chosen: &Chosen<'_>,
    definition: &dyn Definition,
) -> Result<Option<Composed>, Vec<Finding>> {
    let in_target = |finding: Finding| in_some_file(finding, &chosen.file.path);
    let original = &definition.spec().map_err(|refusal| vec![in_target(refusal.into())])?;
    let overrides = &settings.overrides;
    let image = overrides.image.as_deref().unwrap_or(&original.image);
    let version = compose::find_version(overrides.version.as_deref(), image).map_err(|finding| {
        // what a flag said is not the manifest's fault
        let of_manifest = overrides.version.is_none() && overrides.image.is_none();
        vec![if of_manifest { in_target(finding).at_line(chosen.spec.image_line) } else { finding }]
    })?;
    let of_manifest = |finding: Finding| in_target(finding).at_line(chosen.spec.image_line);
    let disagreement = compose::disagreement(overrides.version.as_deref(), image);
    plan.findings
        .extend(disagreement.map(|finding| if overrides.image.is_none() { of_manifest(finding) } else { finding }));
    plan.scheduler = Some(version.clone());
    if let Some(image) = &overrides.image {
        upgrade::judge_probes(image, &version, original).map_err(|finding| vec![in_target(finding)])?;
    }
    let base = original.config().and_then(|(_, path)| original.host_path(path)).and_then(|path| {
        let content = snapshot.bases.get(&path)?;
        Some((path, content.as_deref().map_err(String::as_str)))
    });
    let target = compose::Target { spec: original, version: version.version, base };
    compose::compose(sources, &target, overrides, &settings.accept)
        .map_err(|findings| findings.into_iter().map(in_target).collect())
}

/// The files of the revision, and the target that names it.
fn steps(
    plan: &mut Plan,
    mounts: &[HostMount],
    state: &State,
    settings: &Settings,
    editable: &Editable<'_>,
    composed: Composed,
) -> Result<Vec<Step>, Refusal> {
    let Editable { target, original, definition } = *editable;
    let chosen = &target.chosen;
    let revision = revision(&composed.files, &settings.overrides);
    let config_dir = String::from(settings.state_dir.join(REVISIONS_DIR).join(&revision));
    let files = composed.expanded(&config_dir);
    let SchedulerOverrides { image, command, run_as_user, dns_policy, args, .. } = settings.overrides.clone();
    let mounts = mounts.to_vec();
    let wanted = Wanted {
        revision: revision.clone(),
        generation: 0,
        config_dir,
        image,
        command,
        run_as_user,
        dns_policy,
        args,
        mounts,
    };
    let wanted = |generation| Wanted { generation, ..wanted.clone() };

    let ours = chosen.spec.ours.as_ref();
    let unchanged = match ours.filter(|ours| ours.revision == revision && ours.generation > 0) {
        Some(ours) => target.read(chosen.text)?.edit(&wanted(ours.generation))? == chosen.text,
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
    let run_as = run_as(chosen.spec.run_as, &settings.overrides);
    let side_access = Access::of_side_file(run_as).unwrap_or_default();
    let mut steps = revision_steps(files, &wanted(0).config_dir, state, side_access);
    if !unchanged {
        let after = definition.edit(&wanted(generation))?;
        steps.push(replace_target(chosen.file, chosen.text, after, why(&revision, &settings.overrides)));
    }
    if !unchanged || !state.journal.is_current(chosen.digest) {
        plan.original = Some(original.to_owned());
    }
    plan.revision = Some(revision);
    plan.generation = Some(generation);
    plan.origins = composed.origins;
    plan.extenders = composed.extenders;
    plan.delays_cache = composed.delays_cache;
    plan.findings.extend(composed.findings);
    Ok(steps)
}

/// As whom the scheduler will run.
fn run_as(own: RunAs, overrides: &SchedulerOverrides) -> RunAs {
    overrides.run_as_user.map_or(own, |user| RunAs { user: Some(user), ..own })
}

/// What a commit is for; another image is worth a word of its own.
fn why(revision: &str, overrides: &SchedulerOverrides) -> String {
    let image = overrides.image.as_ref().map_or_else(String::new, |image| format!(", from the image {image}"));
    format!("the scheduler shall run revision {revision}{image}")
}

fn revision_steps(files: BTreeMap<String, Vec<u8>>, dir: &str, state: &State, side_access: Access) -> Vec<Step> {
    let steps = files.into_iter().filter_map(|(name, after)| {
        let path = HostPath::from(dir).join(&name);
        let is_config = name == CONFIG_FILE;
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
