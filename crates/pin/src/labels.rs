//! Pins: which labels of a node pin which pods, and in which order.
//!
//! A label `rf.scheduler.NAME.NAMESPACE/POD` pins a pod; `rf.scheduler.NAME/POD` is the older form, for the namespace
//! `default`. Either prefix may end in `.node-restriction.kubernetes.io`, which no kubelet may set on its own node.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use sha2::{Digest as _, Sha256};

const PREFIX: &str = "rf.scheduler.";
/// Labels below this suffix are refused to kubelets by the NodeRestriction admission plugin.
const RESTRICTED_SUFFIX: &str = ".node-restriction.kubernetes.io";
/// The name part of a label is no longer than this.
const MAX_LABEL_NAME: usize = 63;
/// Hexadecimal digits in the label of a pod with a long name.
const HASH_DIGITS: usize = 16;

/// A pod as labels name it: namespace and name, or the short form of a long name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PodKey {
    /// Namespace
    pub namespace: String,
    /// What stands behind the slash in the label
    pub label_name: String,
}

impl PodKey {
    /// The key of a pod.
    pub fn of(namespace: &str, pod: &str) -> Self {
        Self { namespace: namespace.to_owned(), label_name: label_name(pod) }
    }
}

impl std::fmt::Display for PodKey {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(formatter, "{}/{}", self.namespace, self.label_name)
    }
}

/// Order among several nodes that are labelled for the same pod: an empty value first, then numbers by size, then text.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Rank {
    /// No value
    Empty,
    /// A whole number
    Number(u64, String),
    /// Anything else
    Text(String),
}

impl Rank {
    /// The rank that a label's value gives.
    pub fn of(value: &str) -> Self {
        if value.is_empty() {
            return Self::Empty;
        }
        value.parse().map_or_else(|_| Self::Text(value.to_owned()), |number| Self::Number(number, value.to_owned()))
    }

    /// The label's value.
    pub fn value(&self) -> &str {
        match self {
            Self::Empty => "",
            Self::Number(_, text) | Self::Text(text) => text,
        }
    }
}

/// Reads and writes the labels of one named scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Labels {
    name: String,
    restricted_only: bool,
}

impl Labels {
    /// Labels of the scheduler of this name. With `restricted_only` labels that a kubelet could forge are ignored.
    pub fn new(name: &str, restricted_only: bool) -> Result<Self, String> {
        let is_subdomain = name.split('.').all(|part| {
            let is_plain = part.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-');
            !part.is_empty() && is_plain && !part.starts_with('-') && !part.ends_with('-')
        });
        // beside a namespace of 63 and the suffix there are 145 characters left of the 253 of a label's prefix
        if !is_subdomain || name.len() > 140 {
            return Err(format!(
                "the scheduler name {name:?} cannot stand in a label: use lower-case letters, digits, '-' and '.', at most 140"
            ));
        }
        Ok(Self { name: name.to_owned(), restricted_only })
    }

    /// The scheduler's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pod that a label pins, if it is a label of this scheduler.
    pub fn parse(&self, key: &str) -> Option<PodKey> {
        let (prefix, label_name) = key.split_once('/')?;
        let middle = prefix.strip_prefix(PREFIX)?;
        let (middle, is_restricted) = match middle.strip_suffix(RESTRICTED_SUFFIX) {
            Some(middle) => (middle, true),
            None => (middle, false),
        };
        if self.restricted_only && !is_restricted {
            return None;
        }
        let namespace = match middle.strip_prefix(self.name.as_str())? {
            "" => "default",
            // a namespace has no dots, so the rest is one, or the label is another scheduler's
            rest => rest.strip_prefix('.').filter(|rest| !rest.is_empty() && !rest.contains('.'))?,
        };
        Some(PodKey { namespace: namespace.to_owned(), label_name: label_name.to_owned() })
    }

    /// The label that pins a pod.
    pub fn write(&self, pod: &PodKey) -> String {
        let suffix = if self.restricted_only { RESTRICTED_SUFFIX } else { "" };
        format!("{PREFIX}{}.{}{suffix}/{}", self.name, pod.namespace, pod.label_name)
    }

    /// Every label that pins a pod.
    pub fn forms(&self, pod: &PodKey) -> Vec<String> {
        let newer = format!("{PREFIX}{}.{}", self.name, pod.namespace);
        let older = (pod.namespace == "default").then(|| format!("{PREFIX}{}", self.name));
        let prefixes = std::iter::once(newer).chain(older);
        let suffixes: &[&str] = if self.restricted_only { &[RESTRICTED_SUFFIX] } else { &[RESTRICTED_SUFFIX, ""] };
        prefixes
            .flat_map(|prefix| suffixes.iter().map(move |suffix| format!("{prefix}{suffix}/{}", pod.label_name)))
            .collect()
    }

    /// All pins among a node's labels. Of two labels for the same pod the one that ranks first counts.
    pub fn pins(&self, labels: &BTreeMap<String, String>) -> BTreeMap<PodKey, Rank> {
        let mut pins = BTreeMap::new();
        // labels are sorted, so only those of our prefix are looked at
        for (key, value) in labels.range(PREFIX.to_owned()..).take_while(|(key, _)| key.starts_with(PREFIX)) {
            if let Some(pod) = self.parse(key) {
                let rank = Rank::of(value);
                let first = pins.entry(pod).or_insert_with(|| rank.clone());
                if rank < *first {
                    *first = rank;
                }
            }
        }
        pins
    }
}

/// What stands behind the slash: the pod's name, or its beginning and a hash where it is too long for a label.
pub fn label_name(pod: &str) -> String {
    if pod.len() <= MAX_LABEL_NAME {
        return pod.to_owned();
    }
    let mut hash = String::new();
    for byte in Sha256::digest(pod.as_bytes()) {
        let _ = write!(hash, "{byte:02x}");
    }
    let beginning: String = pod.chars().take(MAX_LABEL_NAME - HASH_DIGITS - 1).collect();
    format!("{}-{}", beginning.trim_end_matches(['-', '.']), &hash[..HASH_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(name: &str, key: &str) -> Option<String> {
        Labels::new(name, false).expect("a good name").parse(key).map(|pod| pod.to_string())
    }

    #[test]
    fn both_forms_of_the_label_are_read() {
        assert_eq!(parse("test", "rf.scheduler.test.db/web-0").as_deref(), Some("db/web-0"));
        assert_eq!(parse("test", "rf.scheduler.test/web-0").as_deref(), Some("default/web-0"));
        assert_eq!(parse("test", "rf.scheduler.other.db/web-0"), None);
        assert_eq!(parse("test", "rf.scheduler.testing/web-0"), None);
        assert_eq!(parse("test", "rf.scheduler.test./web-0"), None);
        assert_eq!(parse("test", "kubernetes.io/hostname"), None);
    }

    #[test]
    fn a_namespace_has_no_dots_so_a_dotted_name_is_never_mistaken() {
        assert_eq!(parse("a", "rf.scheduler.a.b.c/web-0"), None);
        assert_eq!(parse("a.b", "rf.scheduler.a.b.c/web-0").as_deref(), Some("c/web-0"));
        // the older form of `a.b` and the newer one of `a`: each scheduler reads its own, and binds only its own pods
        assert_eq!(parse("a", "rf.scheduler.a.b/web-0").as_deref(), Some("b/web-0"));
        assert_eq!(parse("a.b", "rf.scheduler.a.b/web-0").as_deref(), Some("default/web-0"));
    }

    #[test]
    fn labels_that_no_kubelet_may_set_count_too_or_alone() {
        let key = "rf.scheduler.test.db.node-restriction.kubernetes.io/web-0";
        assert_eq!(parse("test", key).as_deref(), Some("db/web-0"));
        let restricted = Labels::new("test", true).expect("a good name");
        assert_eq!(restricted.parse(key), Some(PodKey::of("db", "web-0")));
        assert_eq!(restricted.parse("rf.scheduler.test.db/web-0"), None);
        assert_eq!(restricted.write(&PodKey::of("db", "web-0")), key);
    }

    #[test]
    fn every_form_of_a_label_is_read_as_the_pod_that_it_was_written_for() {
        for (restricted_only, expected) in [(false, [4, 2]), (true, [2, 1])] {
            let labels = Labels::new("test", restricted_only).expect("a good name");
            for (namespace, count) in ["default", "db"].into_iter().zip(expected) {
                let pod = PodKey::of(namespace, "web-0");
                assert_eq!(labels.forms(&pod).len(), count);
                assert!(labels.forms(&pod).iter().all(|form| labels.parse(form).as_ref() == Some(&pod)));
            }
        }
    }

    #[test]
    fn long_names_get_a_label_of_63_characters_at_most_and_different_ones_differ() {
        let long = "a".repeat(100);
        let name = label_name(&long);
        assert_eq!(name.len(), 63);
        assert_ne!(name, label_name(&"a".repeat(101)));
        assert_eq!(label_name(&"b".repeat(63)), "b".repeat(63));
        let dotted = format!("{}...{}", "c".repeat(44), "d".repeat(40));
        assert!(label_name(&dotted).starts_with(&format!("{}-", "c".repeat(44))));
    }

    #[test]
    fn values_order_nodes_empty_first_then_numbers_then_text() {
        let mut ranks = ["b", "10", "", "9", "a", "9a"].map(Rank::of);
        ranks.sort();
        assert_eq!(ranks.each_ref().map(Rank::value), ["", "9", "10", "9a", "a", "b"]);
    }

    #[test]
    fn of_two_labels_for_one_pod_on_one_node_the_first_in_order_counts() {
        let labels = BTreeMap::from([
            ("rf.scheduler.test.default/web-0".to_owned(), "2".to_owned()),
            ("rf.scheduler.test/web-0".to_owned(), "1".to_owned()),
            ("zone".to_owned(), "x".to_owned()),
        ]);
        let pins = Labels::new("test", false).expect("a good name").pins(&labels);
        assert_eq!(pins.into_iter().collect::<Vec<_>>(), [(PodKey::of("default", "web-0"), Rank::of("1"))]);
    }

    #[test]
    fn names_that_no_label_can_hold_are_refused() {
        for name in ["", "Upper", "a_b", "-a", "a.", "a..b", &"a".repeat(141)] {
            assert!(Labels::new(name, false).is_err(), "{name}");
        }
    }
}
