//! Whether another image for the scheduler fits the manifest, and what becomes of it when the cluster is upgraded. Pure.

use super::Target;
use crate::compose::{self, FIRST_WITH_LIVEZ, KnownVersion, Version};
use crate::finding::Finding;
use crate::observe::State;
use crate::settings::{OnUpgrade, Settings};
use crate::target::{Definition, SchedulerSpec};

/// Refuses to put an image back after an upgrade to another minor release, unless a person wants to keep it: an image of another
/// release may not work with the new API server, and the upgraded manifest runs.
pub(super) fn judge_image(
    state: &State,
    settings: &Settings,
    target: &Target<'_>,
    original: &dyn Definition,
) -> Result<(), Finding> {
    let overrides = &settings.overrides;
    let (Some(image), OnUpgrade::Remove) = (&overrides.image, overrides.image_on_upgrade) else { return Ok(()) };
    let of_image = |image: &str| compose::find_version(None, image).ok().map(|known| known.version);
    let before = state.journal.original.and_then(|digest| state.texts.get(&digest));
    let before = before.and_then(|bytes| std::str::from_utf8(bytes).ok());
    let before = before.and_then(|text| target.read(text).ok()?.spec().ok()).and_then(|spec| of_image(&spec.image));
    let now = original.spec().ok().and_then(|spec| of_image(&spec.image));
    let given = compose::find_version(overrides.version.as_deref(), image).ok().map(|known| known.version);
    match (before, now, given) {
        (Some(before), Some(now), Some(given)) if before != now && given != now => Err(upgraded(image, before, now)),
        _ => Ok(()),
    }
}

/// Refuses an image whose scheduler does not serve what the manifest's probes ask: it would never be ready, and the kubelet would end
/// it again and again.
pub(super) fn judge_probes(image: &str, known: &KnownVersion, original: &SchedulerSpec) -> Result<(), Finding> {
    let is_newer = |path: &&String| ["/livez", "/readyz"].iter().any(|own| path.starts_with(own));
    let Some(path) = original.probe_paths.iter().find(is_newer).filter(|_| !known.version.has_livez()) else {
        return Ok(());
    };
    let message = format!(
        "the probes of the manifest ask {path}, which kube-scheduler serves since 1.{FIRST_WITH_LIVEZ}; the scheduler of {image} \
         is {} and would never be ready",
        known.version
    );
    let way_out =
        format!("give an image of 1.{FIRST_WITH_LIVEZ} or later, or let the probes of the manifest ask /healthz first");
    Err(Finding::error("image-too-old", message, way_out))
}

fn upgraded(image: &str, before: Version, now: Version) -> Finding {
    let message = format!(
        "the manifest was upgraded from {before} to {now}, and {image} is of another release, so it is not put back: the \
         scheduler runs as the upgrade left it"
    );
    let way_out = format!(
        "give an image of {now} with --scheduler-image, or keep this one with --scheduler-image-on-upgrade keep"
    );
    Finding::error("image-upgraded", message, way_out)
}
