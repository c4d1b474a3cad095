//! A node that cannot reach the API, or only one that knows nothing.

use std::fs;
use std::time::Duration;

use super::{Fleet, NODES, manifests, originals};
use crate::control_plane::{ControlPlane, MANIFEST};
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick a_node_without_the_api_repairs_drift_begins_nothing_and_follows_when_it_is_back,
    Slow a_node_whose_api_server_lost_its_peers_and_refuses_everybody_repairs_drift,
];

const CUT: &str = "cp3";

fn a_node_without_the_api_repairs_drift_begins_nothing_and_follows_when_it_is_back(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    control_plane.cluster.change_nodes("partition", &[CUT, "--api"]);
    let _heal = Heal(control_plane);
    fleet.drift_is_repaired(seconds(90));
    // a repair without the API is the one change that has no turn, so the others would not wait for it
    fleet.wait_until_quiet();
    let (before, text) = (fleet.digests(), manifests(control_plane)[2].clone());
    fleet.release.patch_source(&Wanted::another().text());
    let others: Vec<String> = NODES[..2].iter().map(|name| (*name).to_owned()).collect();
    fleet.wait_for(&others, "Ready", &before);
    assert!(manifests(control_plane)[2] == text, "{CUT} begins nothing");
    assert!(fleet.record()["sealed"] != fleet.annotations()["cp1"]["digest"].as_str(), "not every node has proven it");
    control_plane.cluster.change_nodes("heal", &[CUT]);
    fleet.wait_for_all("Ready", &before);
    fleet.wait_until_sealed();
}

fn a_node_whose_api_server_lost_its_peers_and_refuses_everybody_repairs_drift(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    control_plane.cluster.change_nodes("partition", &[CUT]);
    let heal = Heal(control_plane);
    let node = control_plane.cluster.node(CUT);
    wait_until("its API server to be started anew and to refuse everybody", seconds(300), || {
        let asked = node.kubectl(&["get", "--raw", "/version"]);
        if asked.stderr.contains("Forbidden") { Ok(()) } else { Err(asked.last_words()) }
    });
    fleet.drift_is_repaired(seconds(120));
    drop(heal);
    fleet.wait_until_quiet();
    fleet.wait_for_all("Ready", &[]);
    fleet.wait_until_sealed();
}

impl Fleet<'_> {
    /// Somebody writes the original there, and the agent puts our edit back.
    #[track_caller]
    fn drift_is_repaired(&self, within: Duration) {
        let path = self.control_plane.cluster.node(CUT).path(MANIFEST);
        let hidden = path.with_file_name(".e2e-kube-scheduler.yaml");
        fs::write(&hidden, &originals(self.control_plane)[2]).expect("the node's files can be written");
        fs::rename(&hidden, &path).expect("renamed");
        let has_ours = || fs::read_to_string(&path).unwrap_or_default().contains("schedpatch.io/revision");
        wait_until("our edit to be back", within, || if has_ours() { Ok(()) } else { Err("it is not".to_owned()) });
        stays("our edit is in place", seconds(5), || if has_ours() { Ok(()) } else { Err("it is not".to_owned()) });
    }
}

/// Ends every cut of the bed, also when the test fails.
struct Heal<'a>(&'a ControlPlane);

impl Drop for Heal<'_> {
    fn drop(&mut self) {
        self.0.cluster.change_nodes("heal", &[]);
    }
}
