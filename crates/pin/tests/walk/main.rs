//! The whole daemon against an API that fails at random. Every binding is judged by the API itself.
#![allow(clippy::expect_used, clippy::panic, clippy::disallowed_methods, reason = "a test fails by panicking")]

mod api;
mod bindings;
mod cases;
mod election;
mod objects;
mod select;
mod volumes;
mod world;

use std::time::Duration;

use api::Fault;
use world::{Random, World};

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// One random change of the cluster, or of the API itself.
fn step(world: &World, random: &mut Random) {
    let (pod, node) = (random.below(world::PODS), random.below(world::NODES));
    match random.below(100) {
        0..20 => world.create_pod(pod, random.below(4) == 0),
        20..30 => world.delete_pod(pod, random.below(2) == 0),
        30..50 => world.label(node, pod, random.below(2) == 0, random.below(3)),
        50..65 => world.unlabel(node, pod),
        65..70 => world.set_ready(node, random.below(3) != 0),
        70..73 => world.cordon(node, random.below(2) == 0),
        73..75 => world.delete_node(node),
        75..79 => world.create_node(node),
        79..82 => world.bind_behind_our_back(pod, node),
        82..85 => world.api.reset_watches(),
        85..87 => world.api.compact(),
        87..95 => world.api.set_fault(Fault::None),
        _ => world.api.set_fault(match random.below(6) {
            0 => Fault::Refuse,
            1 => Fault::Hang,
            2 => Fault::Code([401, 403, 429, 500, 503][random.below(5)]),
            3 => Fault::Slow(50 + 100 * random.below(5) as u64),
            4 => Fault::LoseAnswers,
            _ => Fault::Mute,
        }),
    }
}

/// The walk of the issue: 10,000 steps. `SCHEDPATCH_PIN_WALK_STEPS` and `_SEED` choose another.
#[tokio::test(start_paused = true)]
async fn over_a_random_walk_no_pod_is_bound_twice_or_wrongly_or_after_its_label_was_gone_for_a_second() {
    let steps = number("SCHEDPATCH_PIN_WALK_STEPS", 10_000);
    let seed = number("SCHEDPATCH_PIN_WALK_SEED", 18);
    let mut random = Random(seed);
    let world = World::new(2);
    let mut placed = 0;
    for walked in 0..steps {
        step(&world, &mut random);
        tokio::time::sleep(Duration::from_millis(random.below(700) as u64)).await;
        let state = world.api.state();
        assert!(state.violations.is_empty(), "seed {seed}, step {walked}: {:#?}", state.violations);
        placed = state.bound.len();
    }
    world.api.set_fault(Fault::None);
    world.settle().await;
    let waiting = world.wrongly_waiting();
    assert!(waiting.is_empty(), "seed {seed}: with the API back these still wait: {waiting:?}");
    assert!(world.api.state().violations.is_empty(), "{:#?}", world.api.state().violations);
    assert!(placed as u64 > steps / 100, "only {placed} pods were bound: the walk proves nothing");
    println!("seed {seed}: {placed} bindings in {steps} steps, requests {:?}", world.api.state().requests);
}
