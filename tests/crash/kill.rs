//! Killed, failing and losing power at every call: the short form, through `HostFs`. `hack/crash` has the long one.

use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::rng::Rng;
use crate::support::scenario::{self, Operation, Scenario};
use crate::support::{Effort, effort};

/// Pairs of kills per scenario, where not all are tried: in the short form, and by `hack/crash`.
const PAIRS: [usize; 2] = [8, 20];

const ERRNOS: [(i32, &str); 7] =
    [(28, "ENOSPC"), (5, "EIO"), (30, "EROFS"), (13, "EACCES"), (122, "EDQUOT"), (4, "EINTR"), (24, "EMFILE")];

/// How many calls an operation makes.
fn count(scenario: &Scenario) -> usize {
    let fs = FaultyFs::new(Fault::None);
    scenario.run(&scenario.host("count"), &fs).expect("it runs");
    fs.calls().len()
}

/// Runs the operation again until it is settled, and checks that one more run changes nothing.
fn recover(scenario: &Scenario, root: &std::path::Path) -> Result<(), String> {
    scenario.run(root, &FaultyFs::new(Fault::None)).map_err(|why| format!("recovery: {why}"))?;
    scenario.expectation.check_settled(root).map_err(|why| format!("after recovery: {why}"))?;
    let fs = FaultyFs::new(Fault::None);
    scenario.run(root, &fs).map_err(|why| format!("the run after: {why}"))?;
    let purges = matches!(scenario.operation, Operation::Purge | Operation::Preflight(_));
    // the agent does not ask for a proof that it has
    let proves = matches!(scenario.operation, Operation::Prove(_));
    let calls = fs.calls().into_iter().filter(|call| !(proves && is_about_lock(call))).count();
    if !purges && calls > 0 {
        return Err(format!("a host that is up to date was written to by {calls} calls"));
    }
    scenario.expectation.check_settled(root).map_err(|why| format!("after the run after: {why}"))
}

fn is_about_lock(call: &Call) -> bool {
    matches!(call, Call::OpenLock { .. }) || matches!(call, Call::Write { file, .. } if file.ends_with("/lock"))
}

#[test]
fn killed_before_every_call_and_again_during_recovery() {
    let (mut points, mut pairs) = (0, 0);
    for scenario in scenario::all_of_agent("kill") {
        let calls = count(&scenario);
        let mut rng = Rng::new(7);
        for at in 0..=calls {
            let fail = |why: String| panic!("{}, killed before call {at} of {calls}: {why}", scenario.name);
            let root = scenario.host("one");
            let _ = scenario.run(&root, &FaultyFs::new(Fault::Kill(at)));
            scenario.expectation.check_instant(&root).unwrap_or_else(fail);
            recover(&scenario, &root).unwrap_or_else(fail);
            points += 1;
        }
        println!("{:<32} {calls} calls, killed before each and after the last", scenario.name);
        let chosen: Vec<(usize, usize)> = if effort() == Effort::All {
            (0..calls).flat_map(|first| (0..calls + 8).map(move |second| (first, second))).collect()
        } else {
            (0..PAIRS[usize::from(effort() == Effort::Ci)]).map(|_| (rng.below(calls), rng.below(calls))).collect()
        };
        for (first, second) in chosen {
            let fail = |why: String| panic!("{}, killed before {first}, then {second}: {why}", scenario.name);
            let root = scenario.host("two");
            let _ = scenario.run(&root, &FaultyFs::new(Fault::Kill(first)));
            let _ = scenario.run(&root, &FaultyFs::new(Fault::Kill(second)));
            scenario.expectation.check_instant(&root).unwrap_or_else(fail);
            recover(&scenario, &root).unwrap_or_else(fail);
            pairs += 1;
        }
    }
    println!("kills: {points} points and {pairs} pairs, 0 violations");
}

#[test]
fn whatever_was_interrupted_can_be_taken_out() {
    let mut points = 0;
    for scenario in scenario::all_of_agent("out") {
        let edited = scenario.name.contains("edited") || scenario.name.contains("drift");
        for at in 0..=count(&scenario) {
            let root = scenario.host("one");
            let _ = scenario.run(&root, &FaultyFs::new(Fault::Kill(at)));
            scenario.restore(&root).unwrap_or_else(|why| panic!("{}, killed before {at}: {why}", scenario.name));
            let now = std::fs::read(scenario.target(&root)).expect("there");
            assert!(edited || now == scenario.original, "{}, killed before {at}: not the original", scenario.name);
            assert!(!String::from_utf8_lossy(&now).contains("schedpatch"), "{}, killed before {at}", scenario.name);
            scenario.expectation.check_no_preflight(&root).unwrap_or_else(|why| panic!("killed before {at}: {why}"));
            points += 1;
        }
    }
    println!("restore after a kill: {points} points, 0 violations");
}

#[test]
fn every_error_at_every_call_is_told_and_leaves_nothing_behind() {
    let (mut points, mut failed) = (0, 0);
    for scenario in scenario::all_of_agent("errors") {
        let calls = count(&scenario);
        for (number, (errno, name)) in ERRNOS.into_iter().enumerate() {
            // the short form tries two errors at each call, and each error at many
            let tried = |at: &usize| effort() > Effort::Short || (at + number) % ERRNOS.len() < 2;
            for at in (0..calls).filter(tried) {
                let fail = |why: String| panic!("{}, {name} at call {at} of {calls}: {why}", scenario.name);
                let root = scenario.host("one");
                let result = scenario.run(&root, &FaultyFs::new(Fault::Error(at, errno)));
                failed += usize::from(result.is_err());
                scenario.expectation.check_instant(&root).unwrap_or_else(fail);
                recover(&scenario, &root).unwrap_or_else(fail);
                points += 1;
            }
        }
        for at in 0..calls {
            let fail = |why: String| panic!("{}, short write at call {at} of {calls}: {why}", scenario.name);
            let root = scenario.host("one");
            scenario.run(&root, &FaultyFs::new(Fault::Short(at))).map_or_else(fail, drop);
            scenario.expectation.check_settled(&root).unwrap_or_else(fail);
            points += 1;
        }
    }
    println!("errors: {points} points, {failed} told, the rest mended on the way, 0 violations");
}
