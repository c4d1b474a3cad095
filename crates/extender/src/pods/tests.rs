//! Which pods count where, and which are tried again.

mod many;

use std::fmt::Write as _;
use std::sync::Arc;

use super::*;
use crate::config::{Config, parse};
use crate::judge::{positions, refuse};
use crate::select::Choice;
use crate::snapshot::Values;
use crate::wire::Text;

const CLOCK: &str = "2026-01-01T12:00:00Z";

fn clock() -> Timestamp {
    CLOCK.parse().expect("a time")
}

fn pod(uid: &str, node: &str) -> Pod {
    let json = serde_json::json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}});
    serde_json::from_value(json).expect("a pod")
}

fn bound_at(uid: &str, node: &str, time: &str) -> Pod {
    let conditions = serde_json::json!([
        {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T11:59:59Z"},
        {"type": "PodScheduled", "status": "True", "lastTransitionTime": time},
    ]);
    let json =
        serde_json::json!({"metadata": {"uid": uid}, "spec": {"nodeName": node}, "status": {"conditions": conditions}});
    serde_json::from_value(json).expect("a pod")
}

fn config(more: &str) -> Arc<Config> {
    let text = format!(
        "prometheus: {{url: 'http://p'}}\npolicies:\n- {{name: cpu, query: q, prefer: lower, avoidAbove: 0.5{more}}}\n"
    );
    Arc::new(parse("test.yaml".as_ref(), &text).expect("valid"))
}

/// A snapshot after `last`, whose positions it keeps.
fn snapshot(last: &Snapshot, values: &[(&str, f64)]) -> Snapshot {
    let mut series = String::new();
    for (node, value) in values {
        let (node, app) = node.split_once('/').unwrap_or((node, ""));
        let comma = if series.is_empty() { "" } else { "," };
        let _ = write!(series, r#"{comma}{{"metric":{{"node":"{node}","app":"{app}"}},"value":[1,"{value}"]}}"#);
    }
    let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
    let mut index = Arc::clone(&last.index);
    let read = Values::read(&last.config.policies[0], &[body.as_bytes()], &Arc::default(), &mut index, Instant::now());
    Snapshot { values: vec![Arc::new(read.expect("an answer"))], index, ..last.clone() }
}

fn choice(app: Option<&str>) -> Choice {
    Choice { mask: 1, keys: vec![app.map(str::to_owned)], ..Choice::default() }
}

/// The scheduler asks for a pod.
fn ask_as(tracker: &mut Tracker, uid: &str, choice: Choice, snapshot: &Snapshot, nodes: &[&str]) {
    let now = Instant::now();
    let names: Vec<Text<'_>> = nodes.iter().map(|name| Text::from(*name)).collect();
    let asked = positions(&snapshot.index, &names);
    let refusals = refuse(&snapshot.columns(&choice, now), &asked);
    let waiting = || Waiting { namespace: "n".to_owned(), name: uid.to_owned(), uid: uid.to_owned() };
    tracker.judged(uid, waiting, Judged { snapshot, choice, asked: &asked, refusals: &refusals }, now);
}

fn ask(tracker: &mut Tracker, uid: &str, snapshot: &Snapshot, nodes: &[&str]) {
    ask_as(tracker, uid, choice(None), snapshot, nodes);
}

/// UIDs of the pods that shall be tried again, which are, and the pause before each in seconds.
fn woken(tracker: &mut Tracker, snapshot: &Snapshot) -> Vec<(String, u64)> {
    let now = Instant::now();
    let wakes = tracker.recovered(snapshot, now);
    let mut all: Vec<(String, u64)> =
        wakes.into_iter().map(|wake| (wake.uid.to_string(), wake.due.duration_since(now).as_secs())).collect();
    all.sort();
    for (uid, pause) in &all {
        assert!(tracker.begin_wake(uid, now + Duration::from_secs(*pause)).is_some());
    }
    all
}

fn names(woken: &[(String, u64)]) -> Vec<&str> {
    woken.iter().map(|(uid, _)| uid.as_str()).collect()
}

const ALLOW: &str = "";
const REJECT: &str = ", whenAllExceed: reject";

#[tokio::test(start_paused = true)]
async fn a_bound_pod_costs_its_node_less_and_less_until_the_window_is_over() {
    let mut tracker = Tracker::default();
    let herd = Herd { enabled: true, per_pod: 0.1, window: Duration::from_mins(1) };
    let known = snapshot(&Snapshot::empty(config(ALLOW)), &[("a", 0.0), ("b", 0.0)]);
    let start = Instant::now();
    let names = ["a", "b", "unknown", "other"];
    let asked: Vec<u32> = names.iter().map(|name| known.index.position(name)).collect();
    let of = |tracker: &mut Tracker, herd: &Herd, now| {
        tracker.penalties(herd, "", (&known.index, &asked), |at| names[at], now)
    };
    assert_eq!(of(&mut tracker, &herd, start), None);
    for (uid, node, seconds) in [("1", "", 0), ("1", "b", 0), ("1", "b", 0), ("2", "b", 30), ("3", "unknown", 0)] {
        tracker.take(Change::Set(pod(uid, node)), start + Duration::from_secs(seconds), clock());
    }
    tracker.take(Change::Gone(pod("1", "b")), start, clock());
    let mut at = |seconds| of(&mut tracker, &herd, start + Duration::from_secs(seconds)).unwrap_or_default();
    let (half, whole) = (at(30), at(60));
    assert!((half[1] - 0.15).abs() < 1e-9 && (whole[1] - 0.05).abs() < 1e-9, "{half:?} {whole:?}");
    assert!((half[2] - 0.05).abs() < 1e-9 && half[3] == 0.0, "a node that no series is about: {half:?}");
    assert!(at(90).is_empty(), "nothing is left");
    assert_eq!(of(&mut tracker, &Herd { enabled: false, ..herd }, start), None);
}

#[tokio::test(start_paused = true)]
async fn what_pods_cost_is_the_sum_of_what_each_of_them_costs() {
    let known = snapshot(&Snapshot::empty(config(ALLOW)), &[("n0", 0.0), ("n1", 0.0), ("n2", 0.0)]);
    let names = ["n0", "n1", "n2", "n3"];
    let asked: Vec<u32> = names.iter().map(|name| known.index.position(name)).collect();
    let (mut tracker, start) = (Tracker::default(), Instant::now());
    let herd = Herd { enabled: true, per_pod: 0.05, window: Duration::from_secs(100) };
    let mut random = 1_u64;
    let mut bound: Vec<(usize, u64)> = Vec::new();
    for step in 0..3_000 {
        random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let (node, now) = (usize::try_from(random >> 40).expect("small") % 4, start + Duration::from_millis(step * 70));
        tracker.take(Change::Set(pod(&step.to_string(), names[node])), now, clock());
        bound.push((node, step * 70));
        if step % 97 == 0 {
            let mut expected = [0.0; 4];
            for (node, at) in &bound {
                #[expect(clippy::cast_precision_loss, reason = "a few minutes")]
                let age = (step * 70 - at) as f64 / 1000.0;
                expected[*node] += 0.05 * (1.0 - age / 100.0).max(0.0);
            }
            let costs = tracker.penalties(&herd, "", (&known.index, &asked), |at| names[at], now).expect("some");
            for (cost, expected) in costs.iter().zip(expected) {
                assert!((cost - expected).abs() < 1e-6, "{costs:?} at {step}");
            }
        }
    }
    let end = start + Duration::from_millis(2_999 * 70);
    assert!((1_425..1_435).contains(&tracker.forget_old(herd.window, end)), "those of the last 100 s");
    assert_eq!(tracker.forget_old(herd.window, end + herd.window), 0);
}

#[tokio::test(start_paused = true)]
async fn a_pod_counts_on_its_best_node_until_it_is_bound_or_for_five_seconds() {
    let mut tracker = Tracker::default();
    let herd = Herd { enabled: true, per_pod: 0.1, window: Duration::from_mins(1) };
    let known = snapshot(&Snapshot::empty(config(ALLOW)), &[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
    let names = ["a", "b", "c"];
    let asked: Vec<u32> = names.iter().map(|name| known.index.position(name)).collect();
    let start = Instant::now();
    let of = |tracker: &mut Tracker, uid: &str, seconds| {
        let now = start + Duration::from_secs(seconds);
        tracker.penalties(&herd, uid, (&known.index, &asked), |at| names[at], now)
    };
    tracker.expect("1", ["a"].into_iter(), start);
    assert_eq!(of(&mut tracker, "2", 0), Some(vec![0.1, 0.0, 0.0]));
    assert_eq!(of(&mut tracker, "1", 0), None, "not against itself");
    tracker.expect("3", ["b", "c"].into_iter(), start);
    assert_eq!(of(&mut tracker, "2", 1), Some(vec![0.1, 0.05, 0.05]), "one of two nodes");
    tracker.expect("4", ["a"; 17].into_iter(), start);
    tracker.expect("", ["a"].into_iter(), start);
    assert_eq!(of(&mut tracker, "2", 1), Some(vec![0.1, 0.05, 0.05]), "nobody knows which of many nodes it will be");
    tracker.take(Change::Set(pod("1", "b")), start, clock());
    let bound = of(&mut tracker, "2", 0).expect("some");
    assert!(bound[0] == 0.0 && (bound[1] - 0.15).abs() < 1e-9, "bound elsewhere: {bound:?}");
    tracker.take(Change::Gone(pod("3", "")), start, clock());
    assert_eq!(of(&mut tracker, "2", 0), Some(vec![0.0, 0.1, 0.0]));
    for number in 0..10_000 {
        tracker.expect(&format!("x{number}"), ["a"].into_iter(), start);
    }
    assert!(of(&mut tracker, "2", 0).expect("some")[0] < 0.1 * 2001.0, "bounded");
    let later = of(&mut tracker, "2", 5).expect("some");
    assert!(later[0] == 0.0 && later[1] > 0.0, "what was not bound in time does not count: {later:?}");
}

#[tokio::test(start_paused = true)]
async fn a_start_counts_listed_pods_by_the_time_of_their_binding_and_invents_none() {
    tokio::time::advance(Duration::from_hours(1)).await;
    let (mut tracker, now) = (Tracker::default(), Instant::now());
    let pods = vec![
        bound_at("old", "a", "2026-01-01T09:00:00Z"),
        bound_at("half", "a", "2026-01-01T11:59:00Z"),
        bound_at("ahead", "b", "2026-01-01T12:00:30Z"),
        bound_at("before this machine ran", "b", "1999-01-01T00:00:00Z"),
        bound_at("unreadable", "b", "yesterday"),
        pod("untold", "c"),
    ];
    tracker.take(Change::Reset(pods), now, clock());
    let herd = Herd { enabled: true, per_pod: 0.1, window: Duration::from_mins(2) };
    let known = snapshot(&Snapshot::empty(config(ALLOW)), &[("a", 0.0), ("b", 0.0), ("c", 0.0)]);
    let penalties = tracker.penalties(&herd, "", (&known.index, &[0, 1, 2]), |_| "", now).expect("some");
    assert!((penalties[0] - 0.05).abs() < 1e-9, "a minute of two is over: {penalties:?}");
    assert!((penalties[1] - 0.1).abs() < 1e-9, "a clock that is ahead means now: {penalties:?}");
    assert!(penalties[2].abs() < 1e-9, "{penalties:?}");
}

#[tokio::test(start_paused = true)]
async fn a_waiting_pod_is_tried_again_when_a_node_recovers_that_refused_it_and_for_no_other() {
    let mut tracker = Tracker::default();
    let nothing = Snapshot::empty(config(REJECT));
    let high = snapshot(&nothing, &[("x", 0.9), ("y", 0.9), ("gone", 0.9)]);
    ask(&mut tracker, "a", &high, &["x"]);
    ask(&mut tracker, "b", &high, &["y", "new"]);
    ask(&mut tracker, "both", &high, &["x", "y"]);
    ask(&mut tracker, "passes", &high, &["new"]);
    ask(&mut tracker, "", &high, &["x"]);
    assert_eq!(tracker.waiting(), 3);
    assert!(woken(&mut tracker, &high).is_empty());
    let other = snapshot(&high, &[("x", 0.8), ("y", 0.7), ("gone", 0.1)]);
    assert!(woken(&mut tracker, &other).is_empty(), "a name that is no node of the cluster recovers");
    let low = snapshot(&high, &[("y", 0.9), ("x", 0.4)]);
    assert_eq!(names(&woken(&mut tracker, &low)), ["a", "both"]);
    assert!(woken(&mut tracker, &low).is_empty(), "each recovery counts once");
    let missing = snapshot(&high, &[("x", 0.9)]);
    assert_eq!(names(&woken(&mut tracker, &missing)), ["b", "both"], "a missing value refuses nobody");
    ask(&mut tracker, "a", &high, &["x"]);
    tokio::time::advance(Duration::from_secs(121)).await;
    assert_eq!(names(&woken(&mut tracker, &high)), ["a"], "stale values refuse nobody");
}

#[tokio::test(start_paused = true)]
async fn one_pod_is_not_tried_again_without_a_pause_that_grows() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(", whenAllExceed: reject, staleAfter: 24h")), &[("x", 0.9)]);
    let low = snapshot(&high, &[("x", 0.1)]);
    let mut pauses = Vec::new();
    for _ in 0..8 {
        ask(&mut tracker, "a", &high, &["x"]);
        let all = woken(&mut tracker, &low);
        pauses.push(all[0].1);
        tokio::time::advance(Duration::from_secs(all[0].1)).await;
    }
    assert_eq!(pauses, [0, 15, 30, 60, 120, 240, 300, 300], "in seconds");
    tokio::time::advance(Duration::from_mins(11)).await;
    ask(&mut tracker, "a", &high, &["x"]);
    assert_eq!(woken(&mut tracker, &low)[0].1, 0);
    ask(&mut tracker, "a", &high, &["x"]);
    assert_eq!(woken(&mut tracker, &low)[0].1, 15, "after a calm time it begins anew");
    ask(&mut tracker, "a", &high, &["x"]);
    assert_eq!(tracker.recovered(&low, Instant::now()).len(), 1);
    assert!(tracker.recovered(&low, Instant::now()).is_empty(), "it is on its way");
    ask(&mut tracker, "a", &high, &["x"]);
    assert_eq!(tracker.begin_wake("a", Instant::now()), None, "the scheduler has just tried it");
}

#[tokio::test(start_paused = true)]
async fn nodes_that_the_scheduler_does_not_ask_for_any_more_still_count() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9), ("y", 0.9)]);
    ask(&mut tracker, "a", &high, &["x"]);
    ask(&mut tracker, "a", &high, &["y"]);
    assert_eq!(names(&woken(&mut tracker, &snapshot(&high, &[("x", 0.1), ("y", 0.9)]))), ["a"]);
    ask(&mut tracker, "a", &high, &["x", "y"]);
    ask(&mut tracker, "a", &snapshot(&high, &[("x", 0.1), ("y", 0.1)]), &["x", "y"]);
    assert_eq!(tracker.waiting(), 0, "no node refuses it now");
}

#[tokio::test(start_paused = true)]
async fn a_changed_configuration_has_every_waiting_pod_tried_once() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9)]);
    ask(&mut tracker, "a", &high, &["x"]);
    let changed = Snapshot { config: config(", whenAllExceed: reject, weight: 2"), ..high.clone() };
    assert_eq!(names(&woken(&mut tracker, &changed)), ["a"]);
    assert!(woken(&mut tracker, &changed).is_empty());
    ask(&mut tracker, "a", &changed, &["x"]);
    let off = format!(
        "{}\nrecovery: {{enabled: false}}\n",
        "prometheus: {url: 'http://p'}\npolicies:\n- {name: cpu, query: q, prefer: lower, avoidAbove: 0.5}"
    );
    let off = Snapshot { config: Arc::new(parse("test.yaml".as_ref(), &off).expect("valid")), ..high };
    assert!(woken(&mut tracker, &off).is_empty() && tracker.waiting() == 0, "switched off");
}

#[tokio::test(start_paused = true)]
async fn a_changed_threshold_without_values_has_nobody_tried_until_they_come_or_would_be_stale() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9)]);
    ask(&mut tracker, "a", &high, &["x"]);
    let unknown = || Snapshot { index: Arc::clone(&high.index), ..Snapshot::empty(config(", weight: 2")) };
    let empty = unknown();
    assert!(woken(&mut tracker, &empty).is_empty(), "no node could be refused");
    tokio::time::advance(Duration::from_secs(121)).await;
    assert_eq!(names(&woken(&mut tracker, &empty)), ["a"], "without Prometheus nobody waits for ever");

    let high = snapshot(&high, &[("x", 0.9)]);
    ask(&mut tracker, "b", &high, &["x"]);
    let empty = unknown();
    assert!(woken(&mut tracker, &empty).is_empty());
    assert_eq!(names(&woken(&mut tracker, &snapshot(&empty, &[("x", 0.9)]))), ["a", "b"]);
}

#[tokio::test(start_paused = true)]
async fn lists_that_are_late_lose_no_waiting_pod_and_answers_that_are_late_leak_none() {
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9)]);
    for uid in ["listed", "unlisted", "bound", "gone"] {
        ask(&mut tracker, uid, &high, &["x"]);
    }
    tracker.take(Change::Set(pod("bound", "x")), Instant::now(), clock());
    tracker.take(Change::Gone(pod("gone", "")), Instant::now(), clock());
    for uid in ["bound", "gone"] {
        ask(&mut tracker, uid, &high, &["x"]);
    }
    assert_eq!(tracker.waiting(), 2, "an answer that is late does not bring a pod back");
    tracker.take(Change::Reset(vec![pod("listed", "")]), Instant::now(), clock());
    assert_eq!(tracker.waiting(), 2, "the list may be older than the question");
    tokio::time::advance(Duration::from_secs(31)).await;
    ask(&mut tracker, "newest", &high, &["x"]);
    tracker.take(Change::Reset(vec![pod("listed", "")]), Instant::now(), clock());
    assert!(tracker.is_waiting("listed") && tracker.is_waiting("newest") && !tracker.is_waiting("unlisted"));
    tokio::time::advance(Duration::from_mins(31)).await;
    assert!(woken(&mut tracker, &high).is_empty());
    assert_eq!(tracker.waiting(), 0, "the scheduler asks for each waiting pod every five minutes");
    for number in 0..10_000 {
        tracker.take(Change::Gone(pod(&format!("x{number}"), "")), Instant::now(), clock());
    }
    ask(&mut tracker, "x9999", &high, &["x"]);
    assert_eq!(tracker.waiting(), 0);
}

#[tokio::test(start_paused = true)]
async fn pods_that_were_refused_before_the_start_are_tried_once() {
    let said = |uid: &str, node: &str, message: &str| -> Pod {
        let json = serde_json::json!({
            "metadata": {"uid": uid, "name": uid, "namespace": "n"}, "spec": {"nodeName": node},
            "status": {"conditions": [{"type": "PodScheduled", "message": message, "lastTransitionTime": null}]},
        });
        serde_json::from_value(json).expect("a pod")
    };
    let ours = "0/3 nodes are available: 3 schedpatch-extender: cpu above 0.9. preemption: 0/3 nodes";
    let pods = vec![said("a", "", ours), said("b", "", "0/3 nodes: Insufficient cpu"), said("c", "x", ours)];
    let mut tracker = Tracker::default();
    let high = snapshot(&Snapshot::empty(config(REJECT)), &[("x", 0.9)]);
    tracker.take(Change::Reset(pods.clone()), Instant::now(), clock());
    assert_eq!(tracker.waiting(), 1);
    assert_eq!(names(&woken(&mut tracker, &high)), ["a"]);
    tracker.take(Change::Reset(pods), Instant::now(), clock());
    assert!(woken(&mut tracker, &high).is_empty(), "a list after a broken watch is no start");
}

#[tokio::test(start_paused = true)]
async fn workloads_recover_by_their_own_values() {
    let mut tracker = Tracker::default();
    let nothing = Snapshot::empty(config(", whenAllExceed: reject, match: {app: labels.app}"));
    let high = snapshot(&nothing, &[("x", 0.9), ("x/web", 0.9), ("y", 0.9)]);
    ask_as(&mut tracker, "web", choice(Some("web")), &high, &["x", "y"]);
    ask_as(&mut tracker, "db", choice(Some("db")), &high, &["x", "y"]);
    assert_eq!(names(&woken(&mut tracker, &snapshot(&high, &[("x", 0.9), ("x/web", 0.2), ("y", 0.9)]))), ["web"]);
    let plain = snapshot(&high, &[("x", 0.2), ("x/web", 0.9), ("y", 0.9)]);
    assert_eq!(names(&woken(&mut tracker, &plain)), ["db"], "web has a value of its own there");
}
