//! What a hostile or careless source may cost: memory and time of the real program.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use nix::sys::resource::{UsageWho, getrusage};

const HEAD: &str = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n";

/// A plan may take so many times the bytes of its sources.
const MOST_TIMES: usize = 20;

/// What `schedpatch plan` says to a source of one file, and how long it takes.
fn plan(name: &str, file: &str, text: &str) -> (Output, Duration) {
    plan_of_all(name, &[(file, text)])
}

/// The same of several files.
fn plan_of_all(name: &str, files: &[(&str, &str)]) -> (Output, Duration) {
    let source: PathBuf = Path::new(env!("CARGO_TARGET_TMPDIR")).join("limits").join(name);
    let _ = fs::remove_dir_all(&source);
    fs::create_dir_all(&source).expect("a directory");
    for (file, text) in files {
        fs::write(source.join(file), text).expect("a file");
    }
    let begin = Instant::now();
    let output = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .env_clear()
        .args(["plan", "-o", "json", "--host-root", "tests/golden/kubeadm-1.36/host", "--source"])
        .arg(&source)
        .output()
        .expect("the program runs");
    (output, begin.elapsed())
}

/// Rule, file and message of each finding.
fn findings(output: &Output) -> Vec<(String, String, String)> {
    let plan: serde_json::Value = serde_json::from_slice(&output.stdout).expect("a plan");
    let text = |finding: &serde_json::Value, key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    let findings = plan["findings"].as_array().cloned().unwrap_or_default();
    findings.iter().map(|finding| (text(finding, "rule"), text(finding, "file"), text(finding, "message"))).collect()
}

/// The highest memory of any child so far, in bytes.
fn peak() -> usize {
    let kilobytes = getrusage(UsageWho::RUSAGE_CHILDREN).expect("the system counts").max_rss();
    usize::try_from(kilobytes).expect("a size") * 1024
}

fn lines(count: usize, line: impl Fn(usize) -> String) -> String {
    (0..count).map(line).collect::<Vec<_>>().concat()
}

fn extender(number: usize) -> String {
    format!("- urlPrefix: http://127.0.0.1:{number}\n  filterVerb: f\n  nodeCacheCapable: true\n  ignorable: true\n")
}

/// One test, because the system tells only the highest memory of all children: from the cheapest to the dearest.
#[test]
fn memory_and_time_grow_with_the_bytes_of_the_sources_and_not_with_their_values() {
    let (output, _) = plan("trivial", "config.yaml", &format!("{HEAD}extenders:\n{}", extender(8889)));
    assert!(output.status.success(), "{output:?}");
    let trivial = peak();
    let mut report = String::new();
    let mut judge = |what: &str, bytes: usize, time: Duration| {
        let more = peak().saturating_sub(trivial);
        writeln!(report, "{what}: {bytes} bytes, {} KB more than a trivial plan, {time:?}", more / 1024).expect("text");
        assert!(more <= MOST_TIMES * bytes, "{what}: {more} bytes for {bytes}");
        assert!(time < Duration::from_secs(5), "{what}: {time:?}");
    };

    let ones = format!("{HEAD}x: [{}]\n", vec!["1"; 500_001].join(","));
    assert_eq!(ones.len(), 1_000_083);
    let (output, time) = plan("ones", "config.yaml", &ones);
    assert_eq!(output.status.code(), Some(1));
    let (rule, file, message) = findings(&output).remove(0);
    assert_eq!(rule, "too-many-values");
    assert!(file.ends_with("limits/ones/config.yaml") && message.contains("may hold 120008"), "{file} {message}");
    judge("half a million ones", ones.len(), time);

    let (output, time) = plan("data", "weights", &ones.replace("Scheduler", "Weather"));
    assert!(output.status.success(), "what is only copied is not counted: {output:?}");
    judge("the same as data", ones.len(), time);

    let keys: String = lines(90_000, |number| format!("k{number}: 1\n"));
    let (output, time) = plan("keys", "config.yaml", &format!("{HEAD}{keys}"));
    let (rule, _, message) = findings(&output).remove(0);
    assert_eq!(rule, "too-many-values");
    assert!(message.contains("90002 keys, and may have 10000"), "{message}");
    judge("90,000 unknown keys", keys.len(), time);

    let keys: String = lines(9_900, |number| format!("unknown-key-number-{number}: {}\n", "x".repeat(60)));
    let (output, time) = plan("fewer-keys", "config.yaml", &format!("{HEAD}{keys}"));
    let found = findings(&output);
    assert_eq!(found.len(), 101, "a hundred findings and how many more there are");
    assert!(found.iter().any(|(_, _, message)| message.starts_with("9800 more findings")), "{found:?}");
    judge("as many unknown keys as may be", keys.len(), time);

    let many: String = lines(9_000, |number| extender(10_000 + number));
    let (output, time) = plan("extenders", "config.yaml", &format!("{HEAD}extenders:\n{many}"));
    assert!(output.status.success(), "an honest configuration of this size passes");
    let more = peak().saturating_sub(trivial);
    println!("{report}9,000 extenders, which pass: {} bytes, {} KB more, {time:?}", many.len(), more / 1024);
    assert!(more < 32 << 20 && time < Duration::from_secs(5), "{more} bytes, {time:?}");

    // as dense as a megabyte may be
    let dense = format!("{HEAD}x: [{}]\n# {}\n", vec!["1"; 110_000].join(","), "x".repeat(700_000));
    let (output, time) = plan("dense", "config.yaml", &dense);
    let more = peak().saturating_sub(trivial);
    println!("110,000 ones, which are built: {} bytes, {} KB more, {time:?}", dense.len(), more / 1024);
    assert_eq!(findings(&output).remove(0).0, "unknown-field");
    assert!(more < 48 << 20 && time < Duration::from_secs(5), "{more} bytes, {time:?}");

    // small mappings take most room; four megabytes of them killed an agent with the chart's 128 MiB
    let names = ["a.yaml", "b.yaml", "c.yaml", "d.yaml"];
    let of_mappings = |count: usize| {
        let text = format!("{HEAD}x:\n{}# {}\n", "- {a: 1}\n".repeat(count), "x".repeat(650_000));
        let (output, time) = plan_of_all("mappings", &names.map(|name| (name, text.as_str())));
        (findings(&output).remove(0), time)
    };
    let ((rule, _, message), _) = of_mappings(33_000);
    assert_eq!(rule, "too-many-values");
    assert!(message.contains("99007 values, 33002 of them lists and mappings"), "{message}");
    let ((rule, _, message), time) = of_mappings(16_600);
    println!("66,400 mappings in four files, which are built: {} KB at most, {time:?}", peak() / 1024);
    assert_eq!(rule, "unknown-field", "{message}");
    assert!(peak() < 100 << 20 && time < Duration::from_secs(10), "{} bytes, {time:?}", peak());
}
