//! Installing, changing, failing, pausing.

use std::time::{Duration, Instant};

use super::{Fleet, NODES, ROLLOUT, SETTLE, VALUES, manifests, originals};
use crate::agent::{ADMIN, PROGRAM};
use crate::control_plane::ControlPlane;
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick helm_install_brings_three_nodes_to_the_configuration_one_by_one,
    Quick a_change_goes_over_three_nodes_with_one_restart_each,
    Quick a_configuration_that_fails_on_the_first_node_reaches_no_other,
    Quick two_changes_in_quick_succession_end_at_the_second,
    Quick a_paused_rollout_begins_nothing_until_it_is_resumed,
];

fn helm_install_brings_three_nodes_to_the_configuration_one_by_one(control_plane: &ControlPlane) {
    originals(control_plane);
    control_plane.sampler();
    control_plane.begin_without_release();
    let release = Release::install_with(control_plane, Wanted::another(), &VALUES);
    let fleet = Fleet { control_plane, release };
    let all = fleet.wait_for_all("Ready", &[]);
    assert_eq!(all.len(), NODES.len(), "{all:#?}");
    let verified: Vec<_> = all.values().map(|own| own["verified-digest"].clone()).collect();
    assert!(verified.iter().all(|one| *one == verified[0]), "{verified:?}");
    fleet.wait_until_sealed();
    control_plane.node().run(&[PROGRAM, "status", "--wait=1m", "--kubeconfig", ADMIN]).succeeded();
    for form in ["text", "wide"] {
        let shown = fleet.rollout(&["status", "-o", form]).succeeded().stdout;
        assert!(shown.contains(&format!("sealed      {}", &verified[0][..12])), "{shown}");
    }
}

fn a_change_goes_over_three_nodes_with_one_restart_each(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (before, starts_before) = (fleet.digests(), fleet.starts());
    let began = Instant::now();
    fleet.release.patch_source(&Wanted::another().text());
    fleet.wait_for_all("Ready", &before);
    let took = began.elapsed();
    let starts_after = fleet.starts();
    for (name, container) in &starts_before {
        assert_ne!(starts_after.get(name), Some(container), "{name} was restarted");
    }
    let changes = control_plane.sampler().changes_since(began);
    assert_eq!(changes.len(), NODES.len(), "one change each: {changes:#?}");
    let of_kubelet = |change: &super::sampler::Change| change.ready.map(|ready| ready - change.began);
    let kubelets: Vec<Duration> = changes.iter().filter_map(of_kubelet).collect();
    let goal = kubelets.iter().sum::<Duration>() + SETTLE * 3 + seconds(5);
    let kubelets: Vec<String> = kubelets.iter().map(|one| format!("{:.1}", one.as_secs_f64())).collect();
    println!(
        "        three nodes in {:.1} s; the kubelets took {} s, settling {} s each; goal {:.1} s",
        took.as_secs_f64(),
        kubelets.join(", "),
        SETTLE.as_secs(),
        goal.as_secs_f64()
    );
    assert!(took <= goal, "it took {took:?}, goal {goal:?}");
}

fn a_configuration_that_fails_on_the_first_node_reaches_no_other(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (good, bad) = (fleet.wanted().text(), Wanted::another().bad_text());
    let (before, starts_before, texts) = (fleet.digests(), fleet.starts(), manifests(control_plane));
    fleet.release.patch_source(&bad);
    let told = fleet.wait_for_all("RolledBack", &before);
    for own in told.values() {
        assert!(own["message"].contains("Nonsense") || own["message"].contains("scoringStrategy"), "{own:#?}");
    }
    let starts_after = fleet.starts();
    let touched = starts_before.iter().filter(|(name, container)| starts_after.get(*name) != Some(container)).count();
    assert_eq!(touched, 1, "one scheduler was touched");
    let rewritten = texts.iter().zip(manifests(control_plane)).filter(|(before, after)| **before != *after).count();
    assert_eq!(rewritten, 1, "one manifest was touched");
    // what runs is wanted again
    let (before, mark) = (fleet.digests(), Instant::now());
    fleet.release.patch_source(&good);
    fleet.wait_for_all("Ready", &before);
    let changes = control_plane.sampler().changes_since(mark);
    assert!(changes.is_empty(), "nobody is restarted for it: {changes:#?}");
}

fn two_changes_in_quick_succession_end_at_the_second(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (before, began) = (fleet.digests(), Instant::now());
    fleet.release.patch_source(&Wanted::another().text());
    let between = wait_until("a node to be in the middle", ROLLOUT, || {
        let all = fleet.annotations();
        let found = all.values().find(|own| own["phase"] == "Verifying").map(|own| own["digest"].clone());
        found.ok_or_else(|| format!("{all:?}"))
    });
    fleet.release.patch_source(&Wanted::another().text());
    let both: Vec<String> = before.into_iter().chain([between]).collect();
    fleet.wait_for_all("Ready", &both);
    fleet.wait_until_sealed();
    let changes = control_plane.sampler().changes_since(began);
    let most = NODES.iter().map(|name| changes.iter().filter(|change| change.node == *name).count()).max();
    assert!(changes.len() <= 4 && most <= Some(2), "who had not begun goes to the second at once: {changes:#?}");
}

fn a_paused_rollout_begins_nothing_until_it_is_resumed(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    fleet.rollout(&["pause"]).succeeded();
    let (before, texts) = (fleet.digests(), manifests(control_plane));
    fleet.release.patch_source(&Wanted::another().text());
    let waiting = fleet.wait_for_all("Waiting", &before);
    assert!(waiting.values().all(|own| own["reason"] == "Paused"), "{waiting:#?}");
    stays("nothing is begun", seconds(10), || {
        if manifests(control_plane) == texts { Ok(()) } else { Err("a manifest was changed".to_owned()) }
    });
    fleet.rollout(&["resume"]).succeeded();
    fleet.wait_for_all("Ready", &before);
}
