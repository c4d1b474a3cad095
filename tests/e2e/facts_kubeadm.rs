//! What the design takes for granted of kubeadm, and that `apply` gets along with it.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::cluster::Ran;
use crate::control_plane::{ControlPlane, MANIFEST, SOURCE};
use crate::runner::Test;
use crate::tests;

pub const TESTS: &[Test] = tests![
    Quick kubeadm_init_phase_overwrites_the_edit_and_apply_puts_it_back,
    Quick kubeadm_upgrade_succeeds_while_apply_patches_the_new_manifest,
    SlowBefore(31) kubeadm_upgrade_fails_when_the_very_same_text_comes_back,
];

/// More than the kubelet needs for a restart, less than the 5 minutes of kubeadm's own.
const PATIENCE: &str = "40s";

fn kubeadm_init_phase_overwrites_the_edit_and_apply_puts_it_back(control_plane: &ControlPlane) {
    let (first, _) = control_plane.start_from_applied();
    let version = format!("--kubernetes-version={}", control_plane.cluster.version());
    control_plane.node().run(&["kubeadm", "init", "phase", "control-plane", "scheduler", &version]).succeeded();
    assert_eq!(control_plane.manifest(), control_plane.original, "kubeadm writes what it wrote before");
    assert_eq!(control_plane.status()["drift"], "gone");

    let second = control_plane.apply();
    assert_eq!(second.revision, first.revision);
    assert!(second.generation > first.generation, "{second:?} after {first:?}");
    control_plane.wait_for_applied(&second);
}

fn kubeadm_upgrade_succeeds_while_apply_patches_the_new_manifest(control_plane: &ControlPlane) {
    let (first, before) = control_plane.start_from_applied();
    let mark = control_plane.mark();
    let again =
        format!("while :; do {} apply --source {SOURCE} 2>&1; sleep 0.01; done", env!("CARGO_BIN_EXE_schedpatch"));
    let patching = control_plane.node().start(&["sh", "-c", &again]);
    let upgraded = upgrade(control_plane);
    let said = patching.lines();
    drop(patching);
    control_plane.cluster.note(&format!("apply said meanwhile: {:#?}", said.iter().collect::<BTreeSet<_>>()));
    let commits: Vec<_> = said.iter().filter(|line| line.starts_with("Applied revision")).collect();

    upgraded.succeeded();
    let second = control_plane.applied().expect("applied");
    assert_eq!(second.revision, first.revision);
    assert_eq!((commits.len(), second.generation), (1, first.generation + 1), "patched again once: {commits:?}");
    let after = control_plane.wait_for_applied(&second);
    control_plane.assert_one_restart(mark, &before, &after);
}

fn kubeadm_upgrade_fails_when_the_very_same_text_comes_back(control_plane: &ControlPlane) {
    let (_, before) = control_plane.start_from_applied();
    let patched = control_plane.manifest();
    let done = AtomicBool::new(false);
    let (upgraded, times) = std::thread::scope(|scope| {
        let putting_back = scope.spawn(|| {
            let mut times = 0;
            while !done.load(Ordering::Relaxed) {
                let text = control_plane.manifest();
                if !text.is_empty() && text != patched {
                    control_plane.replace_manifest(&patched);
                    times += 1;
                }
                std::thread::sleep(Duration::from_millis(2));
            }
            times
        });
        let upgraded = upgrade(control_plane);
        done.store(true, Ordering::Relaxed);
        (upgraded, putting_back.join().expect("no panic"))
    });
    assert_eq!(times, 1, "kubeadm wrote {MANIFEST} once");
    assert_ne!(upgraded.status, 0, "{}", upgraded.stdout);
    let reason = "static Pod hash for component kube-scheduler on Node cp1 did not change";
    assert!(upgraded.stderr.contains(reason), "{reason} in: {}", upgraded.stderr);
    let after = control_plane.wait_for_scheduler("what ran before", |mirror| mirror.hash() == before.hash());
    assert_eq!(after.generation(), before.generation());
}

/// To the same version, and of all that an upgrade does only the static pods.
pub fn upgrade(control_plane: &ControlPlane) -> Ran {
    if control_plane.cluster.minor() < 31 {
        return control_plane.node().run(&[
            "kubeadm",
            "upgrade",
            "node",
            "phase",
            "control-plane",
            "--etcd-upgrade=false",
        ]);
    }
    let config = format!(
        "apiVersion: kubeadm.k8s.io/v1beta4
kind: UpgradeConfiguration
apply:
  kubernetesVersion: {}
  forceUpgrade: true
  certificateRenewal: false
  etcdUpgrade: false
  ignorePreflightErrors: [all]
  skipPhases: [preflight, upload-config, kubelet-config, bootstrap-token, addon, post-upgrade]
timeouts:
  upgradeManifests: {PATIENCE}
",
        control_plane.cluster.version()
    );
    std::fs::write(control_plane.node().path("/etc/kubernetes/e2e/upgrade.yaml"), config).expect("written");
    control_plane.node().run(&["kubeadm", "upgrade", "apply", "--config", "/etc/kubernetes/e2e/upgrade.yaml"])
}
