//! The agent and kubeadm: what it writes over the edit is patched again, once.

use crate::facts_kubeadm::upgrade;
use crate::mirror::Mirror;
use crate::release::Release;
use crate::runner::Test;
use crate::stage::Stage;
use crate::tests;
use crate::wait::{seconds, wait_until};

pub const TESTS: &[Test] = tests![
    Quick what_kubeadm_init_phase_overwrites_is_patched_again_once,
    Quick two_kubeadm_upgrades_of_the_same_version_succeed_and_the_patch_is_back,
];

fn what_kubeadm_init_phase_overwrites_is_patched_again_once(stage: &Stage) {
    let version = format!("--kubernetes-version={}", stage.bed.version());
    patched_again_once(stage, || {
        stage.node().run(&["kubeadm", "init", "phase", "control-plane", "scheduler", &version]).succeeded();
    });
}

fn two_kubeadm_upgrades_of_the_same_version_succeed_and_the_patch_is_back(stage: &Stage) {
    for _ in 0..2 {
        patched_again_once(stage, || drop(upgrade(stage).succeeded()));
    }
}

/// Whatever `overwrite` does to the manifest: one commit and one restart later all is as before.
#[track_caller]
fn patched_again_once(stage: &Stage, overwrite: impl FnOnce()) {
    let (_, wish) = Release::ready(stage);
    let (first, mark) = (stage.wait_for_annotated("Ready"), stage.mark());
    let before = Mirror::of(stage.node()).expect("a mirror pod");
    overwrite();
    let generation = before.generation() + 1;
    let second = wait_until("the node to be annotated Ready at the next generation", seconds(180), || {
        let told = stage.annotations();
        let is_back = told["phase"] == "Ready" && told["generation"] == generation.to_string();
        if is_back { Ok(told) } else { Err(format!("{told:?}")) }
    });
    assert_eq!(second["revision"], first["revision"]);
    stage.readyz().wait_until_ready_at(wish, seconds(30));
    let after = Mirror::of(stage.node()).expect("a mirror pod");
    assert_eq!(after.generation(), generation);
    stage.assert_one_restart(mark, &before, &after);
}
