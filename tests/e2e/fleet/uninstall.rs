//! Taking it out: from one node, interrupted, with a node down, without hooks, completely.

use std::fs;
use std::time::Instant;

use super::lost::Lost;
use super::{Fleet, NODES, ROLLOUT, VALUES, manifests, originals};
use crate::control_plane::{ControlPlane, STATE};
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};

pub const TESTS: &[Test] = tests![
    Quick one_node_is_uninstalled_alone_and_comes_back,
    Slow an_uninstall_that_is_interrupted_ends_when_it_is_run_again,
    Slow an_uninstall_with_one_node_down_names_it_and_that_node_follows_when_it_is_back,
    Slow without_hooks_the_edit_stays_and_an_annotation_of_the_lease_removes_it,
    Quick helm_uninstall_leaves_the_original_bytes_on_every_node,
];

fn one_node_is_uninstalled_alone_and_comes_back(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (texts, began) = (manifests(control_plane), Instant::now());
    let wrong = fleet.uninstall(&["--node", "cp9"]);
    assert!(wrong.status == 1 && wrong.stderr.contains("cp1, cp2, cp3"), "{}", wrong.stderr);
    fleet.uninstall(&["--node", "cp2", "--timeout=3m"]).succeeded();
    let now = manifests(control_plane);
    assert!(now[1] == originals(control_plane)[1], "the very bytes");
    assert!(now[0] == texts[0] && now[2] == texts[2], "the others keep theirs");
    fleet.assert_no_trace("cp2");
    let status = fleet.rollout(&["status"]).succeeded().stdout;
    assert!(status.contains("uninstall   asked for on cp2; removed from: cp2"), "{status}");
    fleet.uninstall(&["--cancel"]).succeeded();
    fleet.wait_for_all("Ready", &[]);
    let others: Vec<_> = control_plane.sampler().changes_since(began);
    assert!(others.iter().all(|change| change.node == "cp2"), "{others:#?}");
}

fn an_uninstall_that_is_interrupted_ends_when_it_is_run_again(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let late = fleet.uninstall(&["--timeout=5s"]);
    assert!(late.status == 1 && late.stderr.contains("not-removed"), "{}", late.stderr);
    // agents that are killed in the middle go on with it
    fleet.release.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]).succeeded();
    fleet.uninstall(&["--timeout=5m"]).succeeded();
    assert!(manifests(control_plane) == originals(control_plane), "the very bytes on every node");
    for name in NODES {
        fleet.assert_no_trace(name);
    }
    fleet.uninstall(&["--timeout=1m"]).succeeded();
    fleet.uninstall(&["--cancel"]).succeeded();
    fleet.wait_for(&NODES.map(str::to_owned), "Ready", &[]);
}

fn an_uninstall_with_one_node_down_names_it_and_that_node_follows_when_it_is_back(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let lost = Lost::begin(control_plane, "cp3");
    let late = fleet.uninstall(&["--timeout=3m"]);
    assert!(late.status == 1 && late.stderr.contains("our edit is not removed from: cp3"), "{}", late.stderr);
    assert!(late.stderr.contains("schedpatch rollout forget"), "{}", late.stderr);
    let (now, before) = (manifests(control_plane), originals_of(control_plane, &["cp1", "cp2"]));
    assert!(now[..2] == before[..], "the others are done");
    fleet.rollout(&["forget", "cp3"]).succeeded();
    let said = fleet.uninstall(&["--timeout=1m"]).succeeded().stdout;
    assert!(said.contains("without cp3"), "{said}");
    drop(lost);
    wait_until("the node that was down to be restored", ROLLOUT, || {
        if manifests(control_plane) == originals(control_plane) { Ok(()) } else { Err(fleet.record().to_string()) }
    });
    fleet.uninstall(&["--timeout=2m"]).succeeded();
    fleet.uninstall(&["--cancel"]).succeeded();
    fleet.wait_for(&NODES.map(str::to_owned), "Ready", &[]);
}

fn without_hooks_the_edit_stays_and_an_annotation_of_the_lease_removes_it(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let wanted = fleet.wanted();
    // no flags of an earlier test
    fleet.release.helm("upgrade", wanted, &VALUES).succeeded();
    wait_until("the agents to be replaced", ROLLOUT, || {
        let shown = fleet.release.kubectl(&["rollout", "status", "daemonset/schedpatch", "--timeout=5s"]);
        if shown.status == 0 { Ok(()) } else { Err(shown.last_words()) }
    });
    fleet.wait_for_all("Ready", &[]);
    fleet.wait_until_sealed();
    let (texts, starts) = (manifests(control_plane), fleet.starts());
    fleet.release.uninstall();
    assert!(manifests(control_plane) == texts && fleet.starts() == starts, "the schedulers keep what they have");
    Release::install_with(control_plane, wanted, &VALUES);
    fleet.wait_for_all("Ready", &[]);
    assert!(manifests(control_plane) == texts && fleet.starts() == starts, "who comes again finds it in place");

    // as docs/use/install.md says
    let annotate = ["-n", "kube-system", "annotate", "lease", "schedpatch-rollout", "schedpatch.io/uninstall=now"];
    control_plane.node().kubectl(&annotate).succeeded();
    // the Lease went with the release: nobody begins anything for the time of a takeover
    wait_until("no node to show a phase", ROLLOUT * 2, || {
        let all = fleet.annotations();
        if all.values().all(std::collections::BTreeMap::is_empty) { Ok(()) } else { Err(format!("{all:#?}")) }
    });
    assert!(manifests(control_plane) == originals(control_plane), "the very bytes on every node");
    fleet.release.uninstall();
    for name in NODES {
        fleet.assert_no_trace(name);
    }
}

fn helm_uninstall_leaves_the_original_bytes_on_every_node(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    fleet.release.helm_uninstall();
    assert!(manifests(control_plane) == originals(control_plane), "the very bytes on every node");
    for name in NODES {
        fleet.assert_no_trace(name);
    }
    let lease = ["-n", "kube-system", "get", "lease", "schedpatch-rollout"];
    assert!(control_plane.node().kubectl(&lease).stderr.contains("NotFound"));
}

fn originals_of(control_plane: &ControlPlane, names: &[&str]) -> Vec<Vec<u8>> {
    let kept = |name: &&str| NODES.iter().position(|own| own == name);
    let all = |index: usize| fs::read(control_plane.cluster.node(NODES[index]).path(super::KEPT)).expect("kept");
    names.iter().filter_map(kept).map(all).collect()
}

impl Fleet<'_> {
    /// Nothing of ours is left on a node.
    #[track_caller]
    fn assert_no_trace(&self, name: &'static str) {
        wait_until(&format!("the annotations of {name} to be gone"), seconds(30), || {
            let own = self.annotations().remove(name).unwrap_or_default();
            if own.is_empty() { Ok(()) } else { Err(format!("{own:?}")) }
        });
        let dir = self.control_plane.cluster.node(name).path(STATE);
        let left = fs::read_dir(dir).map(Iterator::count).unwrap_or_default();
        assert_eq!(left, 0, "files in {STATE} on {name}");
    }
}
