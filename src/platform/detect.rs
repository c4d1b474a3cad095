//! Which platform a host is, and why we think so.

use super::{HostFacts, MANAGED_FAMILY, Marker, Platform, Platforms};
use crate::finding::Finding;

/// A platform and the evidence for it.
#[derive(Debug)]
pub struct Detected {
    /// The platform
    pub platform: &'static Platform,
    /// What was seen, for people
    pub evidence: Vec<String>,
}

/// The platform of this public name.
pub fn named(platforms: Platforms, id: &str) -> Option<&'static Platform> {
    platforms.iter().copied().find(|platform| platform.id == id)
}

/// Looks at the facts: the most special platform of the one family that shows itself.
pub fn detect(platforms: Platforms, facts: &HostFacts) -> Result<Detected, Finding> {
    let mut seen: Vec<Detected> = platforms
        .iter()
        .map(|platform| Detected { platform, evidence: evidence(platform, facts) })
        .filter(|detected| !detected.evidence.is_empty())
        .collect();
    let is_managed = |detected: &Detected| detected.platform.family == MANAGED_FAMILY;
    if facts.given_dir().is_some() || !seen.iter().all(is_managed) {
        seen.retain(|detected| !is_managed(detected));
    }
    let mut seen = seen.into_iter();
    let Some(first) = seen.next() else { return by_given_dir(facts).ok_or_else(|| unknown(facts)) };
    match seen.find(|other| other.platform.family != first.platform.family) {
        None => Ok(first),
        Some(other) => Err(Finding::error(
            "ambiguous-platform",
            format!(
                "this host looks like {} ({}) and like {} ({})",
                first.platform.id,
                first.evidence.join(", "),
                other.platform.id,
                other.evidence.join(", ")
            ),
            format!(
                "say which one runs the scheduler: --platform {} or --platform {}",
                first.platform.id, other.platform.id
            ),
        )),
    }
}

/// Nothing shows a platform, but somebody pointed at a manifest directory: then static pods are what runs here.
fn by_given_dir(facts: &HostFacts) -> Option<Detected> {
    let dir = facts.given_dir()?;
    Some(Detected { platform: &super::kubeadm::PLATFORM, evidence: vec![format!("{dir}, which was given")] })
}

fn unknown(facts: &HostFacts) -> Finding {
    if let Some(unreadable) = facts.unreadable_dir() {
        return unreadable.clone();
    }
    let looked: Vec<_> = facts.manifest_dirs().collect();
    Finding::error(
        "unknown-platform",
        format!("no platform was recognised: no file that names kube-scheduler in {}", looked.join(" or ")),
        "run this on a control-plane node; for a custom staticPodPath give --manifest-dir DIR; is --host-root right?",
    )
}

fn evidence(platform: &Platform, facts: &HostFacts) -> Vec<String> {
    platform
        .markers
        .iter()
        .filter_map(|marker| match marker {
            Marker::Path(path) => facts.has(path).then(|| (*path).to_owned()),
            Marker::Line(path, line) => facts.has_line(path, line).then(|| format!("{line} in {path}")),
            Marker::SchedulerIn(dir) => facts.scheduler_in(dir).map(ToOwned::to_owned),
        })
        .collect()
}
