//! The way back: the target without ours, or with what ran before.

use std::borrow::Cow;

use super::{Direction, Plan, Step, Target, replace_target};
use crate::finding::Finding;
use crate::journal::Commit;
use crate::observe::State;
use crate::revision::Digest;
use crate::target::{Refusal, Rule};

/// Plans to take ours out.
pub(super) fn restore(plan: &mut Plan, state: &State, target: &Target<'_>) -> Result<Vec<Step>, Refusal> {
    let chosen = &target.chosen;
    no_half_undo(state, target)?;
    let after = original(state, target)?.into_owned();
    if after == chosen.text {
        let finding =
            Finding::info("nothing-to-restore", "the manifest carries nothing of schedpatch", "nothing to do");
        plan.findings.push(finding.in_file(chosen.file.path.clone()));
        return Ok(Vec::new());
    }
    plan.original = Some(after.clone());
    let why = "removes what schedpatch added".to_owned();
    Ok(vec![replace_target(chosen.file, chosen.text, after, why)])
}

/// Somebody took our marks out by hand and left something that needs our files.
fn no_half_undo(state: &State, target: &Target<'_>) -> Result<(), Refusal> {
    let chosen = &target.chosen;
    let mut revisions = state.revisions.iter().map(String::as_str).chain(state.journal.revisions());
    let Some(revision) = revisions.find(|revision| chosen.spec.ours.is_none() && chosen.text.contains(revision)) else {
        return Ok(());
    };
    let line = chosen.text.lines().position(|line| line.contains(revision)).map(|index| index + 1);
    let kept = state
        .journal
        .original
        .map_or_else(String::new, |digest| format!("; the text before our edit is texts/{digest}"));
    let message = format!("our annotations are gone, but the manifest still names our revision {revision}{kept}");
    Err(Refusal { rule: Rule::UndoRecord, line, message })
}

/// The target without our edit. If nobody else wrote since, these are the very bytes that were there before; otherwise our parts are
/// removed from the present text.
pub(super) fn original<'a>(state: &'a State, target: &Target<'_>) -> Result<Cow<'a, str>, Refusal> {
    let chosen = &target.chosen;
    let is_ours = state.journal.is_current(chosen.digest);
    let kept = state.journal.original.filter(|_| is_ours).and_then(|digest| state.texts.get(&digest));
    match kept.and_then(|bytes| std::str::from_utf8(bytes).ok()) {
        Some(kept) => Ok(Cow::Borrowed(kept)),
        None => target.read(chosen.text)?.restore().map(Cow::Owned),
    }
}

/// Plans to go back to a commit that was proven to run; where none was, that is the original. `failed` is the revision whose
/// failure leads back.
pub(super) fn back(
    plan: &mut Plan,
    state: &State,
    target: &Target<'_>,
    good: Option<&Commit>,
    failed: Option<&str>,
) -> Result<Vec<Step>, Refusal> {
    let (chosen, journal) = (&target.chosen, &state.journal);
    let Some(good) = good else { return restore(plan, state, target) };
    let is_whole = good
        .files
        .iter()
        .all(|(path, digest)| state.revision_files.get(path).is_some_and(|file| file.digest == *digest));
    let is_named = chosen.spec.flag("config").is_some_and(|config| good.files.contains_key(config));
    if is_whole && is_named && chosen.spec.ours.as_ref().is_some_and(|ours| ours.revision == good.revision) {
        let message = format!("the last good revision is in place: {}", good.revision);
        plan.findings.push(Finding::info(
            "nothing-to-restore",
            message,
            "schedpatch restore removes our edit altogether",
        ));
        return Ok(Vec::new());
    }
    let text = state.texts.get(&good.text).and_then(|bytes| std::str::from_utf8(bytes).ok());
    let original = original(state, target)?;
    let why_not = match text {
        None => Some("its text is gone"),
        Some(_) if !is_whole => Some("its files are not what they were"),
        // an upgrade or another person changed the manifest since: the old text would undo that
        Some(text) if target.read(text)?.restore()? != original => Some("the manifest itself has changed since"),
        Some(_) => None,
    };
    let (Some(text), None) = (text, why_not) else {
        let message = format!(
            "the last good revision {} cannot come back: {}; our edit is removed instead",
            good.revision,
            why_not.unwrap_or_default()
        );
        plan.findings.push(Finding::warning("no-last-good", message, "apply the configuration again afterwards"));
        return restore(plan, state, target);
    };
    let generation = plan.next_generation(journal.generation)?;
    let after = target.read(text)?.recommit(generation, failed)?;
    plan.revision = Some(good.revision.clone());
    plan.generation = Some(generation);
    plan.original = Some(original.into_owned());
    plan.files.clone_from(&good.files);
    plan.digest = good.digest;
    let why = format!("the scheduler shall run the last good revision {} again", good.revision);
    Ok(vec![replace_target(chosen.file, chosen.text, after, why)])
}

/// Plans the text in place once more under the next generation, if it carries our edit.
pub(super) fn nudge(plan: &mut Plan, state: &State, target: &Target<'_>) -> Result<Vec<Step>, Refusal> {
    let chosen = &target.chosen;
    let (Some(ours), Some(current)) = (&chosen.spec.ours, &state.journal.current) else { return Ok(Vec::new()) };
    let generation = plan.next_generation(state.journal.generation)?;
    let after = target.read(chosen.text)?.recommit(generation, None)?;
    plan.revision = Some(ours.revision.clone());
    plan.generation = Some(generation);
    plan.original = Some(original(state, target)?.into_owned());
    plan.files.clone_from(&current.files);
    plan.digest = current.digest;
    let why = format!("generation {} was not noticed", ours.generation);
    Ok(vec![replace_target(chosen.file, chosen.text, after, why)])
}

impl Plan {
    /// One more than what journal and manifest have seen.
    pub(super) fn next_generation(&self, of_journal: u64) -> Result<u64, Refusal> {
        let of_manifest = self.target.as_ref().and_then(|target| target.ours()).map_or(0, |ours| ours.generation);
        of_manifest.max(of_journal).checked_add(1).ok_or_else(|| {
            Refusal::new(Rule::Generation, "the generation is the largest number there is and cannot be raised")
        })
    }
}

/// Findings about our own state that stop any plan, or that a person should know.
pub(super) fn judge_state(plan: &mut Plan, state: &State, direction: Direction, path: &str) -> Result<(), Finding> {
    if let Some(damaged) = &state.damaged {
        if direction == Direction::Apply {
            return Err(damaged.clone());
        }
        let about = "the manifest's own record is used instead";
        let warning = Finding::warning("state", format!("{}; {about}", damaged.message), damaged.way_out.clone());
        plan.findings.push(Finding { file: damaged.file.clone(), ..warning });
    }
    let journal = &state.journal;
    if let Some(other) = journal.target.as_deref().filter(|other| journal.is_busy() && *other != path) {
        let message = format!("schedpatch has changed {other} on this host, which is another file");
        let way_out =
            format!("take that back first: schedpatch restore --target {other}; if it is gone, remove our state.json");
        return Err(Finding::error("other-target", message, way_out).in_file(path));
    }
    if let (Direction::Apply, Some(hold)) = (direction, &journal.hold) {
        let message = format!("held since {} by {}: an agent writes nothing until then", hold.since, hold.by);
        plan.findings.push(Finding::info("hold", message, "schedpatch apply ends the hold"));
    }
    Ok(())
}

/// A revision that failed here is not tried again unless somebody says so.
pub(super) fn judge_revision(plan: &Plan, state: &State, original: &str, retry: bool) -> Result<(), Finding> {
    let bad = plan.revision.as_ref().and_then(|revision| Some((revision, state.journal.bad.get(revision)?)));
    match bad {
        Some((revision, bad)) if !retry && bad.holds_for(Digest::of_bytes(original.as_bytes())) => {
            let message = format!("revision {revision} failed here at {}: {}", bad.since, bad.reason);
            Err(Finding::error(
                "bad-revision",
                message,
                "change the configuration, or have it tried again: schedpatch rollout retry, or apply --retry on a host without an agent",
            ))
        }
        _ => Ok(()),
    }
}
