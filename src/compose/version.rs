//! Which kube-scheduler runs here, and which configuration it accepts.

use std::fmt;

use crate::finding::Finding;

/// API group of the configuration.
pub(crate) const GROUP: &str = "kubescheduler.config.k8s.io";

/// Before this minor version of Kubernetes 1 nothing is edited.
const OLDEST_MINOR: u32 = 22;

/// The last minor version whose scheduler has a port without TLS.
const LAST_WITH_PLAIN_PORT: u32 = 22;

/// The first minor version whose scheduler serves `/livez` and `/readyz`.
pub(crate) const FIRST_WITH_LIVEZ: u32 = 31;

/// Which releases accept which version of the configuration: name, first minor, last minor. Oldest first.
const ACCEPTED: [(&str, u32, u32); 4] =
    [("v1beta1", 19, 22), ("v1beta2", 22, 27), ("v1beta3", 23, 28), ("v1", 25, u32::MAX)];

/// A release of kube-scheduler, to the minor version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version {
    minor: u32,
}

impl Version {
    /// Whether it is 1.`minor` or later.
    pub fn is_at_least(self, minor: u32) -> bool {
        self.minor >= minor
    }
}

/// A version and where it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownVersion {
    /// The version
    pub version: Version,
    /// The whole text it was read from, as `v1.31.4`
    pub text: String,
    /// Where it was read, in words
    pub from: String,
}

impl Version {
    /// Reads `1.31`, `v1.31.4`, `v1.31.4-rke2r1-build20241212`, `v1.28.3_coreos.0`; nothing else.
    pub fn parse(text: &str) -> Option<Self> {
        let rest = text.strip_prefix('v').unwrap_or(text).strip_prefix("1.")?;
        let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let minor = rest[..digits].parse().ok()?;
        let suffix = &rest[digits..];
        (suffix.is_empty() || suffix.starts_with(['.', '-', '_', '+'])).then_some(Self { minor })
    }

    /// The versions of the configuration that this release accepts, oldest first.
    pub fn accepted(self) -> Vec<&'static str> {
        let fits = |(_, first, last): &&(&str, u32, u32)| (*first..=*last).contains(&self.minor);
        ACCEPTED.iter().filter(fits).map(|(name, ..)| *name).collect()
    }

    /// Whether this release is one of these minor versions.
    pub(crate) fn is_within(self, first: u32, last: u32) -> bool {
        (first..=last).contains(&self.minor)
    }

    /// Whether its scheduler has a port without TLS, and opens it beside a configuration file whatever its flags say.
    pub(crate) fn opens_plain_port(self) -> bool {
        self.minor <= LAST_WITH_PLAIN_PORT
    }

    /// Whether its scheduler serves `/livez` and `/readyz`; `/healthz` is older, and on its way out.
    pub(crate) fn has_livez(self) -> bool {
        self.minor >= FIRST_WITH_LIVEZ
    }

    /// Refuses releases from before the configuration had its present form.
    fn supported(self) -> Result<Self, Finding> {
        if self.minor >= OLDEST_MINOR {
            return Ok(self);
        }
        let message = format!("kube-scheduler {self} is too old: 1.{OLDEST_MINOR} is the oldest that is supported");
        Err(Finding::error("too-old", message, "use a scheduler of a newer release"))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "1.{}", self.minor)
    }
}

/// The release that a tag of an image names.
struct Tag<'a> {
    text: &'a str,
    version: Version,
    patch: Option<&'a str>,
}

impl<'a> Tag<'a> {
    fn of(image: &'a str) -> Option<Self> {
        let text = tag(image)?;
        Some(Self { text, version: Version::parse(text)?, patch: patch(text) })
    }

    /// Whether it can only mean a release of Kubernetes: `v1.N.P`, in an image of kube-scheduler or with a minor version
    /// that is supported. Other projects count from v1.0.0 as well.
    fn is_certain(&self, image: &str) -> bool {
        let name = image.split('@').next().unwrap_or_default().rsplit('/').next().unwrap_or_default();
        let is_kubernetes = ["kube-scheduler:", "hyperkube:"].iter().any(|own| name.starts_with(own));
        self.text.starts_with('v') && self.patch.is_some() && (is_kubernetes || self.version.minor >= OLDEST_MINOR)
    }
}

/// The tag of an image.
fn tag(image: &str) -> Option<&str> {
    let name = image.split('@').next().unwrap_or_default();
    name.rsplit('/').next().and_then(|last| last.split_once(':')).map(|(_, tag)| tag)
}

/// The patch number of a release.
fn patch(text: &str) -> Option<&str> {
    let rest = text.split('.').nth(2)?;
    let digits = rest.len() - rest.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    (digits > 0).then(|| &rest[..digits])
}

/// A warning where the version that was given is not the one that the tag of the image names.
pub fn disagreement(given: Option<&str>, image: &str) -> Option<Finding> {
    let (given, tag) = (given?, Tag::of(image)?);
    let other_patch = patch(given).zip(tag.patch).is_some_and(|(given, own)| given != own);
    if Version::parse(given)? == tag.version && !other_patch {
        return None;
    }
    let message = format!(
        "--scheduler-version {given} is taken for the scheduler's release, and the tag of the image {image} says {}",
        tag.text
    );
    Some(Finding::warning(
        "scheduler-version",
        message,
        "leave --scheduler-version out where the tag tells the release",
    ))
}

/// Finds the version: as it was given, else from the tag of the image.
pub fn find(given: Option<&str>, image: &str) -> Result<KnownVersion, Finding> {
    let way_out = "say which release it is: --scheduler-version v1.NN.P";
    if let Some(given) = given {
        let version = Version::parse(given).ok_or_else(|| {
            Finding::error("scheduler-version", format!("{given:?} is no release of Kubernetes"), way_out)
        })?;
        if let Some(tag) = Tag::of(image).filter(|tag| tag.version != version && tag.is_certain(image)) {
            let message = format!(
                "--scheduler-version {given} contradicts the tag of the image {image}, which says {}",
                tag.text
            );
            let way_out = "leave --scheduler-version out, or correct it; where the tag is wrong, name the image by its digest alone";
            return Err(Finding::error("scheduler-version", message, way_out));
        }
        return Ok(KnownVersion {
            version: version.supported()?,
            text: given.to_owned(),
            from: "--scheduler-version".to_owned(),
        });
    }
    let unknown = |why: String| Finding::error("scheduler-version", why, way_out);
    let Some(tag) = tag(image) else {
        return Err(unknown(format!("the image {image:?} has no tag, so the scheduler's version is unknown")));
    };
    let version = Version::parse(tag)
        .ok_or_else(|| unknown(format!("the tag of the image {image:?} does not tell the scheduler's version")))?;
    Ok(KnownVersion { version: version.supported()?, text: tag.to_owned(), from: format!("tag of the image {image}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_of_all_distributions_are_read() {
        for (tag, minor) in [
            ("v1.31.4", Some(31)),
            ("1.29", Some(29)),
            ("v1.31.4-rke2r1-build20241212", Some(31)),
            ("v1.30.2_coreos.0", Some(30)),
            ("v1.36.0+abc", Some(36)),
            ("v0.29.7", None),
            ("latest", None),
            ("v1.x", None),
            ("v1.", None),
            ("v1.31rc1", None),
        ] {
            assert_eq!(Version::parse(tag).map(|version| version.minor), minor, "{tag}");
        }
    }

    #[test]
    fn a_version_that_was_given_is_held_against_the_tag_of_the_image() {
        let judge = |given: &str, image: &str| match (find(Some(given), image), disagreement(Some(given), image)) {
            (Err(_), _) => "refused",
            (Ok(_), Some(_)) => "warned",
            (Ok(_), None) => "taken",
        };
        for (given, image, expected) in [
            ("v1.31.4", "registry.k8s.io/kube-scheduler:v1.31.4", "taken"),
            ("1.31", "registry.k8s.io/kube-scheduler:v1.31.4", "taken"),
            ("v1.31.0", "registry.k8s.io/kube-scheduler:v1.31.4", "warned"),
            ("v1.30.4", "registry.k8s.io/kube-scheduler:v1.31.4", "refused"),
            ("v1.30.4", "x/kube-scheduler:v1.31.4@sha256:00", "refused"),
            ("v1.30.4", "rancher/hardened-kubernetes:v1.31.4-rke2r1-build20241212", "refused"),
            ("v1.30.4", "x/kube-scheduler:1.31", "warned"),
            ("v1.34.1", "registry.k8s.io/scheduler-plugins/kube-scheduler:v0.34.7", "taken"),
            ("v1.34.1", "koordinator/koord-scheduler:v1.5.0", "warned"),
            ("v1.34.1", "x/kube-scheduler:v1.5.0", "refused"),
            ("v1.34.1", "x/kube-scheduler:latest", "taken"),
            ("v1.34.1", "x/kube-scheduler@sha256:00", "taken"),
            ("v1.34.1", "localhost:5000/kube-scheduler", "taken"),
        ] {
            assert_eq!(judge(given, image), expected, "{given} {image}");
        }
    }

    #[test]
    fn every_release_accepts_what_its_source_says() {
        let accepted = |minor| Version { minor }.accepted();
        assert_eq!(accepted(22), ["v1beta1", "v1beta2"]);
        assert_eq!(accepted(23), ["v1beta2", "v1beta3"]);
        assert_eq!(accepted(25), ["v1beta2", "v1beta3", "v1"]);
        assert_eq!(accepted(28), ["v1beta3", "v1"]);
        assert_eq!(accepted(29), ["v1"]);
        assert_eq!(accepted(36), ["v1"]);
    }
}
