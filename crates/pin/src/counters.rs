//! Counters: those of the seed's contract under their old names, and our own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use schedpatch_service::metrics::Text;

/// Series beyond this number are not kept: pods of a StatefulSet keep their names, so few clusters ever get there.
const MAX_SERIES: usize = 20_000;

/// Labels of a series of the contract: namespace, node, pod; and of failures status and reason.
type Series = (String, String, String, String, String);

#[derive(Debug, Default)]
struct Counts {
    requests: BTreeMap<Series, (u64, f64)>,
    successes: BTreeMap<Series, (u64, f64)>,
    failures: BTreeMap<Series, (u64, f64)>,
    own: BTreeMap<(&'static str, &'static str), f64>,
    waiting: BTreeMap<&'static str, u64>,
}

/// All counters.
#[derive(Clone, Debug)]
pub struct Counters {
    scheduler: Arc<str>,
    counts: Arc<Mutex<Counts>>,
}

/// Our own metrics: name, kind, help and the name of their label, if they have one.
const OWN: &[(&str, &str, &str, &str)] = &[
    ("schedpatch_pin_pins", "gauge", "Labels on nodes that pin a pod", ""),
    ("schedpatch_pin_open_pods", "gauge", "Pods without a node, by mode", "mode"),
    ("schedpatch_pin_leader", "gauge", "1 if this replica acts", ""),
    ("schedpatch_pin_synced", "gauge", "1 if nodes and pods are known", ""),
    ("schedpatch_pin_placed_total", "counter", "Pods bound, or sent through the gate, by mode", "mode"),
    ("schedpatch_pin_conflicts_total", "counter", "Pods that were gone, changed or bound by somebody else", ""),
    ("schedpatch_pin_failures_total", "counter", "Requests that the API server refused or did not answer", ""),
    ("schedpatch_pin_events_dropped_total", "counter", "Events not written, because too many waited", ""),
];

impl Counters {
    /// Counters of the scheduler of this name.
    pub fn new(scheduler: &str) -> Self {
        Self { scheduler: scheduler.into(), counts: Arc::default() }
    }

    fn counts(&self) -> MutexGuard<'_, Counts> {
        self.counts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A binding was asked for.
    pub fn request(&self, namespace: &str, node: &str, pod: &str) {
        count(&mut self.counts().requests, (namespace, node, pod, "", ""));
    }

    /// A binding was done.
    pub fn success(&self, namespace: &str, node: &str, pod: &str) {
        count(&mut self.counts().successes, (namespace, node, pod, "", ""));
    }

    /// A binding was refused or not answered.
    pub fn failure(&self, namespace: &str, node: &str, pod: &str, status: u16, reason: &str) {
        count(&mut self.counts().failures, (namespace, node, pod, &status.to_string(), reason));
    }

    /// Adds to a counter of our own.
    pub fn add(&self, name: &'static str, label: &'static str) {
        *self.counts().own.entry((name, label)).or_default() += 1.0;
    }

    /// Sets a gauge of our own.
    pub fn set(&self, name: &'static str, label: &'static str, value: f64) {
        self.counts().own.insert((name, label), value);
    }

    /// How many pods wait, by reason.
    pub fn set_waiting(&self, waiting: BTreeMap<&'static str, u64>) {
        self.counts().waiting = waiting;
    }

    /// Everything in Prometheus' text format.
    pub fn text(&self) -> String {
        let counts = self.counts();
        let mut text = Text::default();
        let families = [
            ("schedule_request", "Binding requests", &counts.requests),
            ("schedule_request_success", "Binding successful requests", &counts.successes),
            ("schedule_request_failure", "Binding failed requests", &counts.failures),
        ];
        for (name, help, series) in families {
            self.family(&mut text, name, help, series);
        }
        for (name, kind, help, label) in OWN {
            text.family(name, kind, help);
            for ((_, value), number) in counts.own.range((*name, "")..).take_while(|((own, _), _)| own == name) {
                let labels: &[(&str, &str)] = if label.is_empty() { &[] } else { &[(label, value)] };
                text.sample(name, labels, *number);
            }
        }
        let name = "schedpatch_pin_waiting_pods";
        text.family(name, "gauge", "Pods that wait, by the first reason");
        for (reason, number) in &counts.waiting {
            text.sample(name, &[("reason", reason)], float(*number));
        }
        text.finish()
    }

    fn family(&self, text: &mut Text, name: &str, help: &str, series: &BTreeMap<Series, (u64, f64)>) {
        let (total, created) = (format!("{name}_total"), format!("{name}_created"));
        let samples = |text: &mut Text, name: &str, value: fn(&(u64, f64)) -> f64| {
            for ((namespace, node, pod, status, reason), counted) in series {
                let mut labels = vec![("namespace", namespace.as_str()), ("node", node), ("pod", pod)];
                if !status.is_empty() {
                    labels.insert(0, ("http_status", status));
                    labels.push(("reason", reason));
                }
                labels.push(("scheduler", &self.scheduler));
                text.sample(name, &labels, value(counted));
            }
        };
        text.family(&total, "counter", help);
        samples(text, &total, |counted| float(counted.0));
        text.kind(&created, "gauge");
        samples(text, &created, |counted| counted.1);
    }
}

fn count(series: &mut BTreeMap<Series, (u64, f64)>, labels: (&str, &str, &str, &str, &str)) {
    let labels = (labels.0.into(), labels.1.into(), labels.2.into(), labels.3.into(), labels.4.into());
    if series.len() >= MAX_SERIES && !series.contains_key(&labels) {
        return;
    }
    #[expect(clippy::disallowed_methods, reason = "the contract has a time of creation")]
    let now = || SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
    series.entry(labels).or_insert_with(|| (0, now())).0 += 1;
}

#[expect(clippy::cast_precision_loss, reason = "counters of this program stay far below 2^52")]
fn float(number: u64) -> f64 {
    number as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_series_of_the_contract_have_their_names_and_labels() {
        let counters = Counters::new("test");
        counters.request("default", "kind-control-plane", "web-0");
        counters.success("default", "kind-control-plane", "web-0");
        counters.failure("default", "kind-control-plane", "web-1", 409, "Conflict");
        let text = counters.text();
        let labels = r#"{namespace="default",node="kind-control-plane",pod="web-0",scheduler="test"}"#;
        for line in [
            "# TYPE schedule_request_total counter".to_owned(),
            format!("schedule_request_total{labels} 1.0"),
            "# TYPE schedule_request_created gauge".to_owned(),
            "# HELP schedule_request_success_total Binding successful requests".to_owned(),
            "# TYPE schedule_request_success_total counter".to_owned(),
            format!("schedule_request_success_total{labels} 1.0"),
            "# TYPE schedule_request_success_created gauge".to_owned(),
            "# HELP schedule_request_failure_total Binding failed requests".to_owned(),
            "# TYPE schedule_request_failure_total counter".to_owned(),
            r#"schedule_request_failure_total{http_status="409",namespace="default",node="kind-control-plane",pod="web-1",reason="Conflict",scheduler="test"} 1.0"#.to_owned(),
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is missing in\n{text}");
        }
        assert!(text.contains(&format!("schedule_request_created{labels} ")), "{text}");
    }

    #[test]
    fn our_own_series_have_labels_only_where_they_have_several() {
        let counters = Counters::new("test");
        counters.set("schedpatch_pin_pins", "", 2.0);
        counters.add("schedpatch_pin_placed_total", "bind");
        counters.set_waiting(BTreeMap::from([("NoNodeLabelled", 3)]));
        let text = counters.text();
        for line in [
            "schedpatch_pin_pins 2.0",
            r#"schedpatch_pin_placed_total{mode="bind"} 1.0"#,
            r#"schedpatch_pin_waiting_pods{reason="NoNodeLabelled"} 3.0"#,
        ] {
            assert!(text.lines().any(|there| there == line), "{line} is missing in\n{text}");
        }
    }
}
