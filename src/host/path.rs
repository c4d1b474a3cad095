//! A path on the host.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::{Deserialize, Serialize};

/// An absolute path as the host itself writes it; where its file is in our own tree, [`super::HostRoot`] finds out.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct HostPath(String);

impl HostPath {
    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The last name in it.
    pub fn name(&self) -> &str {
        self.split().1
    }

    /// The directory that holds it; the root holds itself.
    #[must_use]
    pub fn parent(&self) -> Self {
        Self(self.split().0.to_owned())
    }

    /// Directory and name.
    pub fn split(&self) -> (&str, &str) {
        match self.0.rsplit_once('/') {
            Some(("", name)) => ("/", name),
            Some(parts) => parts,
            None => ("/", &self.0),
        }
    }

    /// Something in this directory.
    #[must_use]
    pub fn join(&self, name: &str) -> Self {
        Self(format!("{}/{name}", self.0.trim_end_matches('/')))
    }
}

impl Deref for HostPath {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<&str> for HostPath {
    fn from(path: &str) -> Self {
        Self(path.to_owned())
    }
}

impl From<String> for HostPath {
    fn from(path: String) -> Self {
        Self(path)
    }
}

impl From<HostPath> for String {
    fn from(path: HostPath) -> Self {
        path.0
    }
}

impl From<&HostPath> for String {
    fn from(path: &HostPath) -> Self {
        path.0.clone()
    }
}

/// A map by paths is asked by text too.
impl Borrow<str> for HostPath {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl PartialEq<&str> for HostPath {
    fn eq(&self, other: &&str) -> bool {
        self.0 == **other
    }
}

impl PartialEq<String> for HostPath {
    fn eq(&self, other: &String) -> bool {
        self.0 == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_is_taken_apart_and_put_together() {
        let path = HostPath::from("/etc/kubernetes/manifests/kube-scheduler.yaml");
        assert_eq!(path.name(), "kube-scheduler.yaml");
        assert_eq!(path.parent().as_str(), "/etc/kubernetes/manifests");
        assert_eq!(path.parent().join(path.name()), path);
        for (text, parts) in [("/a", ("/", "a")), ("/", ("/", "")), ("a", ("/", "a")), ("/a/", ("/a", ""))] {
            assert_eq!(HostPath::from(text).split(), parts, "{text}");
        }
        assert_eq!(HostPath::from("/").join("a").as_str(), "/a");
    }
}
