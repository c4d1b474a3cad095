//! Time and growth of composing: many sources, each with many extenders.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::{Duration, Instant};

use schedpatch::compose::{self, Target, Version};
use schedpatch::observe::Source;
use schedpatch::settings::SchedulerOverrides;
use schedpatch::target::static_pod;

const BYTES: usize = 20_000;
const COUNTS: [usize; 4] = [10, GOAL_COUNT, 100, 200];
/// What so many sources of 20 KB may take.
const GOAL_COUNT: usize = 50;
const GOAL: Duration = Duration::from_millis(50);
/// Machines differ: what takes this many times longer is a defect wherever it runs.
const SLOW_MACHINE: u32 = 2;
/// How much more a source may cost among 200 than among 50, in percent: quadratic growth would be 400, and time on a
/// shared machine is no better ruler than this.
const GROWTH: u128 = 200;
/// The best of so many runs counts: what else the machine does can only add to it.
const RUNS: usize = 25;
/// A busy machine gets so many chances to be quiet for the length of one run.
const CHANCES: usize = 10;

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

/// Measures, and fails when the budget is passed.
pub fn table() {
    println!("composing sources of {} KB each, best of {RUNS}", BYTES / 1000);
    println!("{:>8} {:>10} {:>14} {:>14}", "sources", "ms", "µs per source", "ms, as JSON");
    let mut times = Vec::new();
    for count in COUNTS {
        let sources: Vec<_> = (0..count).map(source).collect();
        let as_json = measure(&sources.iter().map(to_json).collect::<Vec<_>>());
        let mut time = measure(&sources);
        for _ in 1..CHANCES {
            if count > GOAL_COUNT || time < GOAL {
                break;
            }
            time = time.min(measure(&sources));
        }
        let per_source = time.as_micros() as f64 / count as f64;
        let ms = |time: Duration| time.as_secs_f64() * 1000.0;
        println!("{count:>8} {:>10.1} {per_source:>14.0} {:>14.1}", ms(time), ms(as_json));
        times.push(time);
    }
    let (few, many) = (times[1].as_nanos() / 50, times[3].as_nanos() / 200);
    let is_linear = many * 100 <= few * GROWTH;
    assert!(is_linear, "not linear: {few} and {many} ns per source");
    let time = times[1];
    assert!(time < GOAL * SLOW_MACHINE, "{GOAL_COUNT} sources take {time:?}, more than {SLOW_MACHINE} times {GOAL:?}");
    let word = if time < GOAL { "within" } else { "NOT within" };
    println!("linear; {GOAL_COUNT} sources take {time:?}, {word} the goal of {GOAL:?}");
}

fn measure(sources: &[Source]) -> Duration {
    let pod = static_pod::read(MANIFEST).expect("a scheduler");
    let target = Target { spec: &pod, version: Version::parse("v1.36.1").expect("a release"), base: None };
    let run = || {
        let start = Instant::now();
        let composed = compose::compose(sources, &target, &SchedulerOverrides::default(), &[]);
        let time = start.elapsed();
        assert!(composed.is_ok_and(|composed| composed.is_some()), "it composes");
        time
    };
    (0..RUNS).map(|_| run()).min().expect("several runs")
}

/// The same in a form that two readers have to read.
fn to_json(source: &Source) -> Source {
    let json = |text: &Vec<u8>| {
        let value: serde_json::Value = serde_yaml::from_slice(text).expect("a source is YAML");
        value.to_string().into_bytes()
    };
    Source {
        dir: source.dir.clone(),
        files: source.files.iter().map(|(name, text)| (name.clone(), json(text))).collect(),
    }
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
