//! Time and growth of composing: many sources, each with many extenders.
//!
//! `just bench` prints a table and fails when the budget is passed.
#![allow(
    missing_docs,
    clippy::expect_used,
    clippy::disallowed_methods,
    clippy::cast_precision_loss,
    reason = "a benchmark, not the library"
)]

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use schedpatch::compose::{self, Target, Version};
use schedpatch::edit;
use schedpatch::observe::Source;
use schedpatch::settings::Wishes;

const BYTES: usize = 20_000;
const COUNTS: [usize; 4] = [10, 50, 100, 200];
/// What 50 sources of 20 KB shall take one day. Reading each of them with two YAML readers and proving the result costs
/// more than that; the figure is printed, and what is held is that it grows with the input and not faster.
const GOAL: Duration = Duration::from_millis(50);
/// How much more a source may cost among 200 than among 50, in percent: quadratic growth would be 400, and time on a
/// shared machine is no better ruler than this.
const GROWTH: u128 = 200;
const RUNS: usize = 7;

const MANIFEST: &str = "apiVersion: v1
kind: Pod
metadata:
  name: kube-scheduler
spec:
  containers:
  - name: kube-scheduler
    image: registry.k8s.io/kube-scheduler:v1.36.1
    command:
    - kube-scheduler
    - --kubeconfig=/etc/kubernetes/scheduler.conf
    volumeMounts:
    - {name: k, mountPath: /etc/kubernetes/scheduler.conf}
  volumes:
  - {name: k, hostPath: {path: /etc/kubernetes/scheduler.conf}}
";

fn main() {
    println!("composing sources of {} KB each, best of {RUNS}", BYTES / 1000);
    println!("{:>8} {:>10} {:>14}", "sources", "ms", "µs per source");
    let times: Vec<_> = COUNTS.iter().map(|count| (*count, measure(*count))).collect();
    for (count, time) in &times {
        let per_source = time.as_micros() as f64 / *count as f64;
        println!("{count:>8} {:>10.1} {per_source:>14.0}", time.as_secs_f64() * 1000.0);
    }
    let (few, many) = (times[1].1.as_nanos() / 50, times[3].1.as_nanos() / 200);
    assert!(many * 100 <= few * GROWTH, "not linear: {few} and {many} ns per source");
    let reached = if times[1].1 < GOAL { "reached" } else { "NOT reached" };
    println!("linear; the goal of {GOAL:?} for {} sources is {reached}", COUNTS[1]);
}

fn measure(count: usize) -> Duration {
    let pod = edit::read(MANIFEST).expect("a scheduler");
    let target = Target { pod: &pod, version: Version::parse("v1.36.1").expect("a release"), base: None };
    let sources: Vec<_> = (0..count).map(source).collect();
    let run = || {
        let start = Instant::now();
        let composed = compose::compose(&sources, &target, &Wishes::default(), &[]);
        let time = start.elapsed();
        assert!(composed.is_ok_and(|composed| composed.is_some()), "it composes");
        time
    };
    (0..RUNS).map(|_| run()).min().expect("several runs")
}

fn source(number: usize) -> Source {
    let mut text =
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n".to_owned();
    for item in 0.. {
        if text.len() >= BYTES {
            break;
        }
        let _ = write!(
            text,
            "# the extender of team {number}\n- urlPrefix: http://127.0.0.1:{}/{number}/{item}\n  filterVerb: filter\n  prioritizeVerb: prioritize\n  weight: 1\n  httpTimeout: 2s\n  nodeCacheCapable: true\n  ignorable: true\n",
            10_000 + item
        );
    }
    Source { dir: format!("/config/{number}"), files: BTreeMap::from([("config.yaml".to_owned(), text.into_bytes())]) }
}
