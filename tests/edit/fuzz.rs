//! Generated and damaged manifests: no panic, no foreign byte changed, every edit undone.
//!
//! `cargo test` tries a fixed small number; `just fuzz` sets SCHEDPATCH_FUZZ_INPUTS (and SCHEDPATCH_FUZZ_SEED to
//! continue elsewhere; SCHEDPATCH_FUZZ_SHOW prints what a rule refuses). SCHEDPATCH_FUZZ_SAMPLE names a file for edited texts, which the kubelet's own reader judges.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::support::laws::{self, Outcome};
use crate::support::manifests::manifest;
use crate::support::mutate::mutate;
use crate::support::rng::Rng;
use schedpatch::target::{HostMount, Rule, Wanted};

const INPUTS: u64 = 3_000;
const MOST_DAMAGES: usize = 4;

#[derive(Default)]
struct Counts {
    inputs: u64,
    edited: u64,
    refused: BTreeMap<Rule, u64>,
    sampled: u64,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().map_or(default, |value| value.parse().expect("a number"))
}

/// An input and what is wanted of it, from one number.
fn input(seed: u64) -> (String, Wanted, Rng) {
    let mut rng = Rng::new(seed);
    let mut text = manifest(&mut rng);
    let damages = if rng.once_in(3) { 0 } else { 1 + rng.below(MOST_DAMAGES) };
    for _ in 0..damages {
        text = mutate(&text, &mut rng);
    }
    let mut wanted = laws::wanted("0123456789ab", 1 + rng.next() % 1000);
    wanted.image = rng.once_in(4).then(|| "registry.example/kube-scheduler:v1.31.9-custom".to_owned());
    wanted.dns_policy = rng.once_in(4).then(|| "ClusterFirstWithHostNet".to_owned());
    wanted.command = rng.once_in(6).then(|| "/bin/own-scheduler".to_owned());
    wanted.run_as_user = rng.once_in(6).then(|| if rng.once_in(2) { 0 } else { 65532 });
    if rng.once_in(4) {
        wanted.args = vec![("bind-address".to_owned(), "0.0.0.0".to_owned()), ("v".to_owned(), "4".to_owned())];
        wanted.mounts = vec![HostMount { path: "/etc/tls".to_owned(), is_dir: true }];
    }
    (text, wanted, rng)
}

fn try_one(seed: u64) -> Result<(String, Outcome), String> {
    let (text, wanted, mut rng) = input(seed);
    let result = catch_unwind(AssertUnwindSafe(|| laws::check(&text, &wanted, &mut rng)));
    match result {
        Ok(Ok(outcome)) => Ok((text, outcome)),
        Ok(Err(broken)) => Err(format!("seed {seed}: {broken}\n--- input\n{text}")),
        Err(_) => Err(format!("seed {seed}: panic\n--- input\n{text}")),
    }
}

#[test]
fn laws_hold_for_generated_and_damaged_manifests() {
    let inputs = setting("SCHEDPATCH_FUZZ_INPUTS", INPUTS);
    let first = setting("SCHEDPATCH_FUZZ_SEED", 0);
    let samples = setting("SCHEDPATCH_FUZZ_SAMPLES", 10_000);
    let sample = std::env::var("SCHEDPATCH_FUZZ_SAMPLE").ok().map(|path| {
        let file = std::fs::File::create(path).expect("the sample file can be made");
        Mutex::new(std::io::BufWriter::new(file))
    });
    let show = std::env::var("SCHEDPATCH_FUZZ_SHOW").ok();
    let every = (inputs / samples.max(1) / 2).max(1);
    let next = AtomicU64::new(first);
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let work = || {
        let mut counts = Counts::default();
        let mut broken = Vec::new();
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= first + inputs || broken.len() > 5 {
                return (counts, broken);
            }
            counts.inputs += 1;
            if counts.inputs % 50_000 == 0 {
                eprintln!("… {} of {inputs}", seed - first);
            }
            match try_one(seed) {
                Ok((before, Outcome::Edited(after))) => {
                    counts.edited += 1;
                    if let Some(sample) = sample.as_ref().filter(|_| counts.edited % every == 0) {
                        let line = serde_json::json!({ "seed": seed, "before": before, "after": after });
                        writeln!(sample.lock().expect("no thread panics here"), "{line}")
                            .expect("the sample can be written");
                        counts.sampled += 1;
                    }
                }
                Ok((text, Outcome::Refused(refusal))) if show.as_deref() == Some(refusal.rule.name()) => {
                    println!("--- seed {seed}: {refusal}\n{text}");
                    *counts.refused.entry(refusal.rule).or_default() += 1;
                }
                Ok((_, Outcome::Refused(refusal))) => *counts.refused.entry(refusal.rule).or_default() += 1,
                Err(failure) => broken.push(failure),
            }
        }
    };
    let results: Vec<_> = std::thread::scope(|scope| {
        let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        workers.into_iter().map(|worker| worker.join().expect("panics are caught inside")).collect()
    });
    report(&results);
}

fn report(results: &[(Counts, Vec<String>)]) {
    let sum = |of: fn(&Counts) -> u64| results.iter().map(|(counts, _)| of(counts)).sum::<u64>();
    let mut refused: BTreeMap<Rule, u64> = BTreeMap::new();
    for (rule, count) in results.iter().flat_map(|(counts, _)| &counts.refused) {
        *refused.entry(*rule).or_default() += count;
    }
    let (inputs, edited) = (sum(|counts| counts.inputs), sum(|counts| counts.edited));
    let unlisted = refused.get(&Rule::Unproven).copied().unwrap_or(0);
    println!("{inputs} inputs, {edited} edited and undone byte for byte, {} sampled", sum(|counts| counts.sampled));
    for (rule, count) in &refused {
        println!("  refused {:<18} {count}", rule.name());
    }
    let share = edited * 100_000 / (edited + unlisted).max(1);
    println!("of those without a listed reason for refusal {}.{:03} % are edited", share / 1000, share % 1000);
    let broken: Vec<_> = results.iter().flat_map(|(_, broken)| broken).collect();
    assert!(broken.is_empty(), "{} broken laws, the first:\n{}", broken.len(), broken[0]);
    assert!(edited * 10 >= inputs * 4, "too few inputs are edited to mean anything");
    assert!(share >= 99_000, "too many refusals without a listed reason");
}
