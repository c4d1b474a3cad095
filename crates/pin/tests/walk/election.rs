//! Several replicas of which one acts. The API judges every binding by who holds the lease.

use std::time::Duration;

use crate::api::Fault;
use crate::cases::{node_of, seconds};
use crate::world::{PODS, Random, World};
use crate::{number, step};

fn holder(world: &World) -> String {
    let lease = world.api.get("leases", "default/test").unwrap_or_default();
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

/// Replicas whose binding of any pod was answered.
fn who_bound(world: &World) -> Vec<usize> {
    world.api.state().bound.keys().map(|(replica, _)| *replica).collect()
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_is_cut_off_is_followed_by_the_other_and_does_not_act_when_it_is_back() {
    let world = World::new(0);
    world.start_candidate(0);
    seconds(1).await;
    world.start_candidate(1);
    world.label(0, 0, false, 0);
    world.create_pod(0, false);
    seconds(5).await;
    assert_eq!((holder(&world), node_of(&world, 0)), ("replica-0".to_owned(), "n0".to_owned()));

    world.api.state().cut_off.insert(0);
    world.label(0, 1, false, 0);
    world.create_pod(1, false);
    seconds(10).await;
    assert_eq!(node_of(&world, 1), "", "the lease has not run out yet");
    seconds(11).await;
    assert_eq!((holder(&world), node_of(&world, 1)), ("replica-1".to_owned(), "n0".to_owned()));

    world.api.state().cut_off.remove(&0);
    world.label(0, 2, false, 0);
    world.create_pod(2, false);
    seconds(60).await;
    assert_eq!((holder(&world), node_of(&world, 2)), ("replica-1".to_owned(), "n0".to_owned()));
    assert_eq!(who_bound(&world), [0, 1, 1]);
    assert_eq!(world.api.state().requests["POST pods/binding"], 3, "one request for each pod");
    assert!(world.api.state().violations.is_empty(), "{:#?}", world.api.state().violations);
}

#[tokio::test(start_paused = true)]
async fn an_attempt_that_outlives_the_lease_does_not_bind() {
    let world = World::new(0);
    world.start_candidate(0);
    seconds(1).await;
    world.start_candidate(1);
    seconds(5).await;
    // too slow for the lease, but not for the questions of an attempt
    world.api.state().held_up.insert(0, Duration::from_secs(9));
    seconds(6).await;
    world.label(0, 0, false, 0);
    world.create_pod(0, false);
    seconds(60).await;
    assert_eq!((holder(&world), node_of(&world, 0)), ("replica-1".to_owned(), "n0".to_owned()));
    assert_eq!(who_bound(&world), [1]);
    assert_eq!(world.api.state().requests["POST pods/binding"], 1);
    assert!(world.api.state().violations.is_empty(), "{:#?}", world.api.state().violations);
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_in_an_orderly_way_gives_the_lease_back() {
    let world = World::new(0);
    let first = world.start_candidate(0);
    seconds(1).await;
    world.start_candidate(1);
    seconds(1).await;
    world.stop(0);
    first.await.expect("it ends");
    assert_eq!(holder(&world), "");
    seconds(3).await;
    assert_eq!(holder(&world), "replica-1");
}

#[tokio::test(start_paused = true)]
async fn over_a_random_walk_only_the_leader_acts() {
    let steps = number("SCHEDPATCH_PIN_WALK_STEPS", 5_000);
    let seed = number("SCHEDPATCH_PIN_WALK_SEED", 18);
    let mut random = Random(seed);
    let world = World::new(0);
    world.start_candidate(0);
    world.start_candidate(1);
    let mut holders = std::collections::BTreeSet::new();
    for walked in 0..steps {
        step(&world, &mut random);
        match random.below(60) {
            replica @ 0..2 => drop(world.api.state().cut_off.insert(replica)),
            2..6 => world.api.state().cut_off.clear(),
            _ => {}
        }
        tokio::time::sleep(Duration::from_millis(random.below(700) as u64)).await;
        holders.insert(holder(&world));
        let state = world.api.state();
        assert!(state.violations.is_empty(), "seed {seed}, step {walked}: {:#?}", state.violations);
    }
    world.api.set_fault(Fault::None);
    world.api.state().cut_off.clear();
    world.settle().await;
    assert!(world.wrongly_waiting().is_empty(), "seed {seed}: {:?}", world.wrongly_waiting());
    assert!(world.api.state().violations.is_empty(), "{:#?}", world.api.state().violations);
    let bound = who_bound(&world);
    assert!(bound.contains(&0) && bound.contains(&1) && bound.len() > PODS, "{} bindings prove nothing", bound.len());
    println!("seed {seed}: {} bindings, leaders {holders:?}", bound.len());
}
