//! Metrics of the extender, in Prometheus' text format.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use schedpatch_service::metrics::Text;

/// Upper ends of the buckets of request times, in seconds.
const BUCKETS: [f64; 11] = [0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0];
/// The histogram of request times.
const DURATION: &str = "schedpatch_extender_request_duration_seconds";

/// Name, kind, help, and the name of the label if there is one.
const FAMILIES: &[(&str, &str, &str, &str)] = &[
    (REQUESTS, "counter", "Requests of the scheduler, by verb and result", "verb_result"),
    (EXEMPT, "counter", "Requests for pods that no policy counts for, by reason", "reason"),
    (NEUTRAL, "counter", "Nodes scored without a value, by policy: missing, stale or not a number", "policy"),
    (REFUSED, "counter", "Nodes refused by a threshold, by policy", "policy"),
    (WAIVED, "counter", "Thresholds not applied because every node exceeded them, by policy", "policy"),
    (UNKNOWN_POLICY, "counter", "Policies that pods chose and the file does not have", ""),
    (QUERIES, "counter", "Queries that Prometheus answered", "policy"),
    (QUERY_FAILURES, "counter", "Queries that failed", "policy"),
    (AGE, "gauge", "Age of the values, by policy", "policy"),
    (SERIES, "gauge", "Series of the last answer, by policy", "policy"),
    (UNMAPPED, "gauge", "Series of the last answer that belong to no node, by policy", "policy"),
    (DUPLICATES, "gauge", "Further series for a node that has one in the last answer, by policy", "policy"),
    (NOT_NUMBERS, "gauge", "Series of the last answer that are NaN, infinite or histograms, by policy", "policy"),
    (NODES, "gauge", "Nodes with a value, by policy", "policy"),
    (
        MISFITS,
        "counter",
        "Requests in which no node had a value although the query gave fresh series, by policy",
        "policy",
    ),
    (RELOADS, "counter", "Changed configuration files, by what became of them", "result"),
    (CONFIG_CURRENT, "gauge", "1 if the file as it is now is in use, 0 if it is wrong and an older one is", ""),
    (CERTIFICATES, "counter", "Changed certificates of the server, by what became of them", "result"),
    (HERD, "gauge", "Pods bound within the window of the herd formula", ""),
    (WAITING, "gauge", "Pods that a threshold refused and that still wait", ""),
    (WOKEN, "counter", "Attempts to change the annotation of a waiting pod because a node recovered", "result"),
];

/// Requests by verb and result.
pub const REQUESTS: &str = "schedpatch_extender_requests_total";
/// Exempt pods by reason.
pub const EXEMPT: &str = "schedpatch_extender_exempt_total";
/// Nodes without a value by policy.
pub const NEUTRAL: &str = "schedpatch_extender_neutral_nodes_total";
/// Refused nodes by policy.
pub const REFUSED: &str = "schedpatch_extender_refused_nodes_total";
/// Waived thresholds by policy.
pub const WAIVED: &str = "schedpatch_extender_waived_total";
/// Unknown policies that pods chose.
pub const UNKNOWN_POLICY: &str = "schedpatch_extender_unknown_policies_total";
/// Answered queries by policy.
pub const QUERIES: &str = "schedpatch_extender_queries_total";
/// Failed queries by policy.
pub const QUERY_FAILURES: &str = "schedpatch_extender_query_failures_total";
/// Age of values by policy.
pub const AGE: &str = "schedpatch_extender_values_age_seconds";
/// Series by policy.
pub const SERIES: &str = "schedpatch_extender_series";
/// Unmapped series by policy.
pub const UNMAPPED: &str = "schedpatch_extender_series_unmapped";
/// Duplicate series by policy.
pub const DUPLICATES: &str = "schedpatch_extender_series_duplicate";
/// Series without a number by policy.
pub const NOT_NUMBERS: &str = "schedpatch_extender_series_not_a_number";
/// Nodes with a value by policy.
pub const NODES: &str = "schedpatch_extender_nodes";
/// Requests whose nodes no series is about, by policy.
pub const MISFITS: &str = "schedpatch_extender_misfit_requests_total";
/// Reloads by result.
pub const RELOADS: &str = "schedpatch_extender_config_reloads_total";
/// Whether the file is in use.
pub const CONFIG_CURRENT: &str = "schedpatch_extender_config_current";
/// Certificates by result.
pub const CERTIFICATES: &str = "schedpatch_extender_certificate_reloads_total";
/// Recently bound pods.
pub const HERD: &str = "schedpatch_extender_recently_bound_pods";
/// Waiting pods.
pub const WAITING: &str = "schedpatch_extender_waiting_pods";
/// Woken pods by result.
pub const WOKEN: &str = "schedpatch_extender_woken_pods_total";

#[derive(Debug, Default)]
struct Histogram {
    buckets: [u64; BUCKETS.len()],
    sum: f64,
    count: u64,
}

#[derive(Debug, Default)]
struct Values {
    samples: BTreeMap<&'static str, BTreeMap<Box<str>, f64>>,
    durations: BTreeMap<&'static str, Histogram>,
}

/// All metrics.
#[derive(Debug, Default)]
pub struct Metrics(Mutex<Values>);

impl Metrics {
    fn values(&self) -> MutexGuard<'_, Values> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn change(&self, name: &'static str, label: &str, change: impl FnOnce(&mut f64)) {
        let mut values = self.values();
        let family = values.samples.entry(name).or_default();
        match family.get_mut(label) {
            Some(value) => change(value),
            None => change(family.entry(label.into()).or_default()),
        }
    }

    /// Adds to a counter.
    pub fn add(&self, name: &'static str, label: &str, number: usize) {
        if number > 0 {
            self.change(name, label, |value| *value += float(number));
        }
    }

    /// Sets a gauge.
    pub fn set(&self, name: &'static str, label: &str, to: f64) {
        self.change(name, label, |value| *value = to);
    }

    /// Forgets what policies had that are gone.
    pub fn keep_policies(&self, is_there: impl Fn(&str) -> bool) {
        let mut values = self.values();
        for (name, _, _, _) in FAMILIES.iter().filter(|(_, _, _, label)| *label == "policy") {
            if let Some(family) = values.samples.get_mut(name) {
                family.retain(|policy, _| is_there(policy));
            }
        }
    }

    /// A request was answered.
    pub fn answered(&self, verb: &'static str, result: &'static str, took: Duration) {
        self.add(REQUESTS, &format!("{verb} {result}"), 1);
        let seconds = took.as_secs_f64();
        let mut values = self.values();
        let histogram = values.durations.entry(verb).or_default();
        for (count, end) in histogram.buckets.iter_mut().zip(BUCKETS) {
            *count += u64::from(seconds <= end);
        }
        histogram.sum += seconds;
        histogram.count += 1;
    }

    /// Everything as text.
    pub fn text(&self) -> String {
        let values = self.values();
        let mut text = Text::default();
        text.family("schedpatch_extender_build_info", "gauge", "Version of the program");
        text.sample("schedpatch_extender_build_info", &[("version", env!("CARGO_PKG_VERSION"))], 1.0);
        for (name, kind, help, label) in FAMILIES {
            text.family(name, kind, help);
            for (value, number) in values.samples.get(name).into_iter().flatten() {
                match *label {
                    "" => text.sample(name, &[], *number),
                    "verb_result" => {
                        let (verb, result) = value.split_once(' ').unwrap_or((value, ""));
                        text.sample(name, &[("verb", verb), ("result", result)], *number);
                    }
                    label => text.sample(name, &[(label, value)], *number),
                }
            }
        }
        text.family(DURATION, "histogram", "Time from the whole request to the whole answer, by verb");
        for (verb, histogram) in &values.durations {
            let bucket = format!("{DURATION}_bucket");
            for (count, end) in histogram.buckets.iter().zip(BUCKETS) {
                text.sample(&bucket, &[("verb", verb), ("le", &end.to_string())], float64(*count));
            }
            text.sample(&bucket, &[("verb", verb), ("le", "+Inf")], float64(histogram.count));
            text.sample(&format!("{DURATION}_sum"), &[("verb", verb)], histogram.sum);
            text.sample(&format!("{DURATION}_count"), &[("verb", verb)], float64(histogram.count));
        }
        text.finish()
    }
}

#[expect(clippy::cast_precision_loss, reason = "counts of this program stay far below 2^52")]
fn float(number: usize) -> f64 {
    number as f64
}

#[expect(clippy::cast_precision_loss, reason = "counts of this program stay far below 2^52")]
fn float64(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_their_labels_and_policies_that_are_gone_disappear() {
        let metrics = Metrics::default();
        metrics.answered("filter", "ok", Duration::from_millis(2));
        metrics.add(REFUSED, "cpu", 3);
        metrics.set(CONFIG_CURRENT, "", 1.0);
        metrics.set(AGE, "gone-policy", 7.0);
        metrics.keep_policies(|name| name == "cpu");
        let text = metrics.text();
        for line in [
            r#"schedpatch_extender_requests_total{verb="filter",result="ok"} 1.0"#,
            r#"schedpatch_extender_refused_nodes_total{policy="cpu"} 3.0"#,
            "schedpatch_extender_config_current 1.0",
            r#"schedpatch_extender_request_duration_seconds_bucket{verb="filter",le="0.001"} 0.0"#,
            r#"schedpatch_extender_request_duration_seconds_bucket{verb="filter",le="0.0025"} 1.0"#,
            r#"schedpatch_extender_request_duration_seconds_count{verb="filter"} 1.0"#,
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is missing in\n{text}");
        }
        assert!(!text.contains("gone-policy"), "{text}");
    }
}
