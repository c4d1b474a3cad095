//! What `schedpatch apply` costs: instructions from exec to the patched manifest, and its file work against a program
//! that only writes the same files and syncs as often.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Event, Request};
use schedpatch::timestamp::Timestamp;

use crate::instructions;
use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::scenario::{self, Scenario};

/// From exec to patched; the Python predecessor needs 1,541 million.
const BUDGET: u64 = 10_000_000;

/// How much longer than the raw program an apply may take.
const RATIO: f64 = 2.0;

const ROUNDS: usize = 41;
const MAX_ROUNDS: usize = 400;

/// Measures, and fails when the budget is passed.
pub fn table() {
    let scenario = scenario::all("bench-apply").swap_remove(0);
    let manifest = scenario.original.len();
    let root = scenario.host("counted");
    let first = count(&scenario, &root);
    let again = count(&scenario, &root);
    println!("instructions of schedpatch apply on a manifest of {manifest} bytes, with its process");
    println!("{:>12}  exec to patched (1/{} of the predecessor's 1,541 million)", first, 1_541_000_000 / first);
    println!("{again:>12}  nothing to do");
    assert!(first <= BUDGET, "over the budget of {BUDGET} instructions");

    let fs = FaultyFs::new(Fault::None);
    scenario.run(&scenario.host("calls"), &fs).expect("it applies");
    let calls = fs.effects();
    let syncs = calls.iter().filter(|call| matches!(call, Call::Sync { .. } | Call::SyncDir { .. })).count();
    let mut rounds: Vec<Round> = Vec::new();
    // whatever else a machine does only adds, so the fastest rounds are what the two programs need; on a busy machine it
    // takes more rounds until one is left alone
    while rounds.len() < MAX_ROUNDS && (rounds.len() < ROUNDS || ratio_of(&rounds) > RATIO) {
        rounds.push(one_round(&scenario, &calls, rounds.len().is_multiple_of(2)));
    }
    println!(
        "first apply against raw writes of the same {} calls, {syncs} syncs; {} rounds",
        calls.len(),
        rounds.len()
    );
    println!("{:>9}  {:>9}", "fastest", "median");
    let line = |what: &str, times: &[Duration]| {
        let (fastest, median) = fastest_and_median(times);
        println!("{:>6.2} ms  {:>6.2} ms  {what}", fastest * 1000.0, median * 1000.0);
    };
    line("raw", &rounds.iter().map(|round| round.raw).collect::<Vec<_>>());
    line("our file work", &rounds.iter().map(|round| round.files).collect::<Vec<_>>());
    line("with looking, planning and the lock", &rounds.iter().map(|round| round.all).collect::<Vec<_>>());
    let ratio = ratio_of(&rounds);
    println!("{ratio:>9.2}  times the raw, fastest against fastest");
    assert!(ratio <= RATIO, "more than {RATIO} times the raw program");
}

/// What the raw program took, our file work, and ours with all around it.
struct Round {
    raw: Duration,
    files: Duration,
    all: Duration,
}

/// Both programs once, each from a disk that has nothing left to write.
fn one_round(scenario: &Scenario, calls: &[Call], is_ours_first: bool) -> Round {
    let first = if is_ours_first { None } else { Some(raw(scenario, calls)) };
    let (files, all) = apply(scenario);
    Round { raw: first.unwrap_or_else(|| raw(scenario, calls)), files, all }
}

fn ratio_of(rounds: &[Round]) -> f64 {
    let fastest =
        |time: fn(&Round) -> Duration| rounds.iter().map(time).min().map_or(f64::NAN, |time| time.as_secs_f64());
    fastest(|round| round.files) / fastest(|round| round.raw)
}

fn fastest_and_median(times: &[Duration]) -> (f64, f64) {
    let mut seconds: Vec<f64> = times.iter().map(Duration::as_secs_f64).collect();
    seconds.sort_by(f64::total_cmp);
    (seconds[0], seconds[seconds.len() / 2])
}

/// What others left to write would be paid for by the next one who syncs.
fn settle_disk(root: &Path) {
    let dir = File::open(root).expect("the host is there");
    nix::unistd::syncfs(dir).expect("synced");
}

fn count(scenario: &Scenario, root: &Path) -> u64 {
    instructions(Command::new(env!("CARGO_BIN_EXE_schedpatch")).args(scenario.flags(root)))
}

/// One apply on a fresh host, with real syncs: its file work, and all of it.
fn apply(scenario: &Scenario) -> (Duration, Duration) {
    let root = scenario.host("ours");
    let settings = scenario.settings(&root);
    let direction = Direction::Apply;
    let request = Request::new(&settings, direction, Initiator::Person, "bench", Duration::ZERO);
    let clock = || Timestamp::from_unix(SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970").as_secs());
    settle_disk(&root);
    let begun = Instant::now();
    let mut planned = begun;
    let told = &mut |event: Event<'_>| {
        if matches!(event, Event::Planned(_)) {
            planned = Instant::now();
        }
    };
    reconcile::run(&request, &Env { fs: &RealFs, clock: &clock }, told).expect("it applies");
    (planned.elapsed(), begun.elapsed())
}

/// The same calls, and nothing else.
fn raw(scenario: &Scenario, calls: &[Call]) -> Duration {
    let root = scenario.host("raw");
    let at = |path: &str| root.join(path.trim_start_matches('/'));
    settle_disk(&root);
    let begun = Instant::now();
    for call in calls {
        match call {
            Call::MakeDir { dir, name } => fs::create_dir(at(dir).join(name)).expect("made"),
            Call::Create { dir, name } | Call::OpenLock { dir, name } => {
                drop(File::create(at(dir).join(name)).expect("created"));
            }
            Call::Write { file, bytes } => {
                let mut file = File::options().append(true).open(at(file)).expect("opened");
                file.write_all(bytes).expect("written");
            }
            Call::Sync { file } => File::open(at(file)).expect("opened").sync_all().expect("synced"),
            Call::SyncDir { dir } => File::open(at(dir)).expect("opened").sync_all().expect("synced"),
            Call::Rename { dir, from, to } => fs::rename(at(dir).join(from), at(dir).join(to)).expect("renamed"),
            Call::RemoveFile { dir, name } => fs::remove_file(at(dir).join(name)).expect("removed"),
            _ => {}
        }
    }
    begun.elapsed()
}
