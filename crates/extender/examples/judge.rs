//! Counts what judging costs, for hack/extender-bench.
//!
//! `judge answer NODES POLICIES ROUNDS PODS` answers a request of the names form that often, for callgrind, while so many recently bound pods count;
//! `judge skip FILE ROUNDS` prints the milliseconds that serde_json needs to skip a body, and those that reading it takes.
#![allow(clippy::expect_used, clippy::disallowed_methods, clippy::panic, reason = "a program for people who measure")]

use std::fmt::Write as _;
use std::sync::Arc;
use std::time::Instant;

use k8s_openapi::jiff::Timestamp;
use schedpatch_extender::judge::{positions, score};
use schedpatch_extender::pods::Tracker;
use schedpatch_extender::select::Choice;
use schedpatch_extender::snapshot::{Snapshot, Values};
use schedpatch_extender::{config, wire};
use schedpatch_service::feed::Change;
use serde::de::IgnoredAny;

fn main() {
    let words: Vec<String> = std::env::args().collect();
    let number = |at: usize| words.get(at).and_then(|word| word.parse::<usize>().ok()).expect("a number");
    match words.get(1).map(String::as_str) {
        Some("answer") => answer(number(2), number(3), number(4), number(5)),
        Some("skip") => skip(&words[2], number(3)),
        _ => panic!("judge answer NODES POLICIES ROUNDS PODS, or judge skip FILE ROUNDS"),
    }
}

/// Pods that were bound at this moment, three of four of them beside another one.
fn bound(tracker: &mut Tracker, nodes: usize, pods: usize, now: tokio::time::Instant) {
    for number in 0..pods {
        let node = format!("node-{:05}", number * 7919 % (nodes / 4));
        let pod = serde_json::json!({"metadata": {"uid": number.to_string()}, "spec": {"nodeName": node}});
        let pod = serde_json::from_value(pod).expect("a pod");
        tracker.take(Change::Set(pod), now, Timestamp::UNIX_EPOCH);
    }
}

fn answer(nodes: usize, policies: usize, rounds: usize, pods: usize) {
    let mut text = "prometheus: {url: 'http://p'}\npolicies:\n".to_owned();
    for number in 0..policies {
        let _ = writeln!(text, "- {{name: p{number}, query: q, prefer: lower}}");
    }
    let mut snapshot = Snapshot::empty(Arc::new(config::parse("bench.yaml".as_ref(), &text).expect("valid")));
    let series = (0..nodes).map(|n| format!(r#"{{"metric":{{"node":"node-{n:05}"}},"value":[1,"0.{n:05}"]}}"#));
    let series = series.collect::<Vec<_>>().join(",");
    let body = format!(r#"{{"status":"success","data":{{"resultType":"vector","result":[{series}]}}}}"#);
    let now = tokio::time::Instant::now();
    let config = Arc::clone(&snapshot.config);
    let read = |policy| Values::read(policy, &[body.as_bytes()], &Arc::default(), &mut snapshot.index, now);
    snapshot.values = config.policies.iter().map(read).map(|values| Arc::new(values.expect("an answer"))).collect();
    let names = (0..nodes).map(|n| format!("\"node-{n:05}\"")).collect::<Vec<_>>().join(",");
    let request =
        format!(r#"{{"Pod":{{"metadata":{{"name":"p","namespace":"n"}}}},"Nodes":null,"NodeNames":[{names}]}}"#);
    let choice = Choice { mask: (1 << policies) - 1, ..Choice::default() };
    let (mut tracker, mut bytes) = (Tracker::default(), 0);
    bound(&mut tracker, nodes, pods, now);
    for _ in 0..rounds {
        let (_, asked) = wire::read(request.as_bytes()).expect("a request");
        let columns = snapshot.columns(&choice, now);
        let (names, positions) = (asked.names(), positions(&snapshot.index, asked.names()));
        let of = (&*snapshot.index, &positions[..]);
        let penalties = tracker.penalties(&config.herd, "uid", of, |at| &names[at], now);
        let scores = score(&columns, &positions, penalties.as_deref(), 0.1);
        bytes += wire::scores_answer(asked.names(), &scores.points).len();
    }
    println!("{bytes}");
}

fn skip(file: &str, rounds: usize) {
    let body = std::fs::read(file).expect("readable");
    let median = |work: &dyn Fn()| {
        let mut times: Vec<f64> = (0..rounds)
            .map(|_| {
                let began = Instant::now();
                work();
                began.elapsed().as_secs_f64() * 1000.0
            })
            .collect();
        times.sort_by(f64::total_cmp);
        times[rounds / 2]
    };
    let skipped = median(&|| drop(std::hint::black_box(serde_json::from_slice::<IgnoredAny>(&body))));
    let read = median(&|| drop(std::hint::black_box(wire::read(&body).expect("a request"))));
    println!("{skipped:.3} {read:.3}");
}
