//! Random walks over everything that can happen. One number repeats a walk: `SCHEDPATCH_ROLLOUT_SEED=7 cargo test --test rollout
//! walk`; more of them: `SCHEDPATCH_ROLLOUT_STEPS=20000000`.

use std::time::Duration;

use crate::laws;
use crate::rng::Rng;
use crate::world::{Bug, Quality, World, digest};

/// Ticks of one walk, before the world is calmed and looked at.
const TICKS: usize = 150;
/// In a calm cluster everything is done within so many ticks of about a second.
const CALM_TICKS: usize = 4_000;

/// The digest that fails on every node.
const BAD: usize = 3;

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    walks: u64,
    steps: u64,
    commits: u64,
    failures: u64,
    takeovers: u64,
}

fn from_env(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn a_million_steps_break_no_law_and_lead_home() {
    let mut all = Counts::default();
    if let Some(seed) = from_env("SCHEDPATCH_ROLLOUT_SEED") {
        walk(seed, Bug::None, &mut all).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        return;
    }
    let steps = from_env("SCHEDPATCH_ROLLOUT_STEPS").unwrap_or(1_000_000);
    for seed in 0.. {
        walk(seed, Bug::None, &mut all).unwrap_or_else(|broken| panic!("seed {seed}: {broken}"));
        if all.steps >= steps {
            break;
        }
    }
    println!("{all:?}, 0 violations");
    assert!(all.failures > 100 && all.takeovers > 50, "too little happened: {all:?}");
}

#[test]
fn every_planted_bug_is_found() {
    for bug in [
        Bug::NoCompareAndSwap,
        Bug::NoEntry,
        Bug::NonceIgnored,
        Bug::StaleReadTrusted,
        Bug::NoSealing,
        Bug::NoHaste,
        Bug::WayBackAssumed,
    ] {
        let mut all = Counts::default();
        let found = (0..20_000).find_map(|seed| walk(seed, bug, &mut all).err().map(|broken| (seed, broken)));
        let (seed, broken) = found.unwrap_or_else(|| panic!("{bug:?} was not found: {all:?}"));
        assert_eq!(walk(seed, Bug::None, &mut Counts::default()), Ok(()), "without {bug:?} the walk is clean");
        let first = broken.lines().next().unwrap_or_default();
        println!("{bug:?}: found by seed {seed} after {} steps: {first}", all.steps);
    }
}

fn walk(seed: u64, bug: Bug, all: &mut Counts) -> Result<(), String> {
    let mut rng = Rng::new(seed);
    let nodes = 3 + rng.below(3) * usize::from(rng.once_in(3));
    let mut world = World::new(bug, nodes, qualities(nodes, &mut rng));
    if rng.once_in(4) {
        world.blocked[nodes - 1] = true;
    }
    // every third walk is a nervous one
    world.rest = if seed.is_multiple_of(3) { 1 } else { 6 };
    let before = all.steps;
    let mut tick = |world: &mut World, rng: &mut Rng| -> Result<(), String> {
        world.clock += Duration::from_millis(100 * (1 + rng.below(15) as u64));
        world.end_changes();
        let mut order: Vec<usize> = (0..nodes).flat_map(|number| [number; 3]).collect();
        rng.shuffle(&mut order);
        for number in order {
            if rng.once_in(3) {
                world.kubelet(number);
            } else if !world.nodes[number].processes.is_empty() {
                let index = rng.below(world.nodes[number].processes.len());
                world.agent(number, index, rng)?;
            }
            all.steps += 1;
            laws::always(world)?;
        }
        world.recover(rng);
        Ok(())
    };
    let ended = (|| {
        for _ in 0..TICKS {
            if rng.once_in(8) {
                world.event(&mut rng);
            }
            tick(&mut world, &mut rng)?;
        }
        world.nodes.iter_mut().for_each(|node| (node.agent_has_api, node.kubelet_has_api) = (true, true));
        for number in 0..nodes {
            match world.nodes[number].is_lost {
                true if rng.once_in(2) => world.delete(number),
                true => world.power(number, true),
                false => world.nodes[number].is_deleted = false,
            }
        }
        world.write(|record| record.paused = false);
        world.mend();
        world.rest = usize::MAX;
        world.note("calm");
        until(&mut world, &mut rng, &mut tick, &laws::goal)?;
        // what every node has proven is where they return to
        let proven = digest(world.wanted);
        // from here on nothing changes any more
        for number in 0..nodes {
            world.quality[BAD][number] =
                if world.quality[BAD][number] == Quality::Late { Quality::Late } else { Quality::Bad };
        }
        world.was_bad[BAD] = true;
        let is_everywhere = world.nodes.iter().all(|node| node.is_deleted || node.journal.in_place == Some(proven));
        if is_everywhere && world.record.uninstall.is_none() {
            world.wanted = BAD;
            world.note("calm, and a bad digest is wanted");
            until(&mut world, &mut rng, &mut tick, &|world| {
                laws::goal(world).and_then(|()| laws::back_at(world, proven))
            })?;
        }
        Ok(())
    })();
    all.walks += 1;
    all.commits += world.commits;
    all.failures += world.failures;
    all.takeovers += world.takeovers;
    ended.map_err(|broken: String| {
        let begin = world.log.len().saturating_sub(60);
        format!(
            "{broken}\nafter {} steps; the record is {:#?}\n{}",
            all.steps - before,
            world.record,
            world.log[begin..].join("\n")
        )
    })
}

/// Lets time pass until a goal is reached; says why it is not.
fn until(
    world: &mut World,
    rng: &mut Rng,
    tick: &mut dyn FnMut(&mut World, &mut Rng) -> Result<(), String>,
    goal: &dyn Fn(&World) -> Result<(), String>,
) -> Result<(), String> {
    let mut last = Ok(());
    let mut lasted = 0;
    for number in 0..CALM_TICKS {
        tick(world, rng)?;
        if number % 20 == 0 {
            last = goal(world);
            lasted = if last.is_ok() { lasted + 1 } else { 0 };
            // it stays so
            if lasted == 5 {
                break;
            }
        }
    }
    match last {
        Ok(()) if lasted < 5 => Err("it does not stay so".to_owned()),
        last => last,
    }
}

/// Four digests: two are good, the others are not, at least somewhere.
fn qualities(nodes: usize, rng: &mut Rng) -> Vec<Vec<Quality>> {
    let good = || vec![Quality::Good; nodes];
    let mut somewhere = good();
    somewhere[rng.below(nodes)] = Quality::Bad;
    let late = vec![Quality::Late; nodes];
    vec![good(), somewhere, good(), if rng.once_in(2) { late } else { vec![Quality::Bad; nodes] }]
}
