//! Numbers that the scheduler's own validation bounds.

use serde_yaml::Value;

use super::decode::whole;
use super::{LintContext, LintRule, key};
use crate::compose::read::Config;
use crate::finding::Finding;

/// What the scheduler takes where a configuration is silent, in seconds.
const INITIAL_BACKOFF: i64 = 1;
const MAX_BACKOFF: i64 = 10;

/// What one file shows.
pub(super) fn check(config: &Config, judge: LintContext<'_>) -> Vec<Finding> {
    let number = |name: &str| config.content.get(name).and_then(whole);
    let text = |name: &str| config.content.get(name).and_then(Value::as_str).unwrap_or_default();
    let mut findings = Vec::new();
    let mut refuse = |bad: bool, name: &str, range: &str| {
        if bad {
            findings.push(LintRule::OutOfRange.at(config, &[key(name)], format!("{name} must be {range}")));
        }
    };
    refuse(number("parallelism").is_some_and(|number| number <= 0), "parallelism", "above 0");
    refuse(!is_percentage(number("percentageOfNodesToScore")), "percentageOfNodesToScore", "between 0 and 100");
    let initial = "podInitialBackoffSeconds";
    refuse(number(initial).is_some_and(|number| number <= 0), initial, "above 0");
    // the endpoints went; from 1.23 on only their absence can be written
    for name in ["healthzBindAddress", "metricsBindAddress"] {
        let address = text(name);
        let absent = address.is_empty() || address == "0" || address.ends_with(":0");
        refuse(!absent && judge.version.is_within(23, u32::MAX), name, "empty, or have port 0");
        // before that 0 is no port
        let is_zero = !address.is_empty() && absent;
        refuse(is_zero && judge.version.is_within(0, 22), name, "empty, or have a port from 1 to 65535");
    }
    findings
}

pub(super) fn is_percentage(number: Option<i64>) -> bool {
    number.is_none_or(|number| (0..=100).contains(&number))
}

/// What shows only in all files together: the first back-off must not be longer than the longest.
pub(super) fn check_all(configs: &[&Config]) -> Vec<Finding> {
    let said = |name: &str| {
        let mut values = configs.iter().filter_map(|config| Some((*config, whole(config.content.get(name)?)?)));
        values.next()
    };
    let (initial, max) = (said("podInitialBackoffSeconds"), said("podMaxBackoffSeconds"));
    let bound = |said: Option<(&Config, i64)>, default| said.map_or(default, |(_, seconds)| seconds);
    if bound(initial, INITIAL_BACKOFF) <= bound(max, MAX_BACKOFF) {
        return Vec::new();
    }
    let (config, name) = match (max, initial) {
        (Some((config, _)), _) => (config, "podMaxBackoffSeconds"),
        (None, Some((config, _))) => (config, "podInitialBackoffSeconds"),
        (None, None) => return Vec::new(),
    };
    let message = format!(
        "podMaxBackoffSeconds ({}) must not be below podInitialBackoffSeconds ({})",
        bound(max, MAX_BACKOFF),
        bound(initial, INITIAL_BACKOFF)
    );
    vec![LintRule::OutOfRange.at(config, &[key(name)], message)]
}
