//! The agent and kubeadm: what it writes over the edit is patched again, once.

use crate::control_plane::ControlPlane;
use crate::facts_kubeadm::upgrade;
use crate::mirror::Mirror;
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};

pub const TESTS: &[Test] = tests![
    Quick what_kubeadm_init_phase_overwrites_is_patched_again_once,
    Quick two_kubeadm_upgrades_of_the_same_version_succeed_and_the_patch_is_back,
];

fn what_kubeadm_init_phase_overwrites_is_patched_again_once(control_plane: &ControlPlane) {
    let version = format!("--kubernetes-version={}", control_plane.cluster.version());
    patched_again_once(control_plane, || {
        control_plane.node().run(&["kubeadm", "init", "phase", "control-plane", "scheduler", &version]).succeeded();
    });
}

fn two_kubeadm_upgrades_of_the_same_version_succeed_and_the_patch_is_back(control_plane: &ControlPlane) {
    for _ in 0..2 {
        patched_again_once(control_plane, || drop(upgrade(control_plane).succeeded()));
    }
}

/// Whatever `overwrite` does to the manifest: one commit and one restart later all is as before.
#[track_caller]
fn patched_again_once(control_plane: &ControlPlane, overwrite: impl FnOnce()) {
    let (_, wanted) = Release::ready(control_plane);
    let (first, mark) = (control_plane.wait_for_annotated("Ready"), control_plane.mark());
    let before = Mirror::of(control_plane.node()).expect("a mirror pod");
    overwrite();
    let generation = before.generation() + 1;
    let second = wait_until("the node to be annotated Ready at the next generation", seconds(180), || {
        let told = control_plane.annotations();
        let is_back = told["phase"] == "Ready" && told["generation"] == generation.to_string();
        if is_back { Ok(told) } else { Err(format!("{told:?}")) }
    });
    assert_eq!(second["revision"], first["revision"]);
    control_plane.readyz().wait_until_ready_at(wanted, seconds(30));
    let after = Mirror::of(control_plane.node()).expect("a mirror pod");
    assert_eq!(after.generation(), generation);
    control_plane.assert_one_restart(mark, &before, &after);
}
