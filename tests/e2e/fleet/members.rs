//! Nodes that join a cluster whose rollout is over.

use std::collections::BTreeMap;
use std::fs;
use std::time::Instant;

use super::{Fleet, NODES, ROLLOUT};
use crate::control_plane::{ControlPlane, MANIFEST};
use crate::release::image;
use crate::runner::Test;
use crate::tests;
use crate::wait::wait_until;
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Slow a_node_that_joins_is_brought_to_the_configuration_and_nobody_else_is_touched,
    Slow a_node_that_cannot_have_the_configuration_joins_and_the_others_go_on_without_it,
];

const JOINS: &str = "cp4";

fn a_node_that_joins_is_brought_to_the_configuration_and_nobody_else_is_touched(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (starts, digest) = (fleet.starts(), fleet.digests()[0].clone());
    let _joined = Joined::begin(control_plane);
    control_plane.cluster.load(&image());
    let all = fleet.wait_for(&[JOINS.to_owned()], "Ready", &[]);
    assert_eq!(all[JOINS]["verified-digest"], digest);
    let now: BTreeMap<_, _> = fleet.starts().into_iter().filter(|(name, _)| *name != JOINS).collect();
    assert_eq!(now, starts, "nobody else was restarted");
    // from now on it takes part
    let before = fleet.digests();
    fleet.release.patch_source(&Wanted::another().text());
    let all = fleet.wait_for_all("Ready", &before);
    assert_eq!(all.len(), NODES.len() + 1);
    fleet.wait_until_sealed();
}

fn a_node_that_cannot_have_the_configuration_joins_and_the_others_go_on_without_it(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let (starts, mark) = (fleet.starts(), Instant::now());
    let _joined = Joined::begin(control_plane);
    // the kubelet reads a directive, and schedpatch refuses to edit around it
    let path = control_plane.cluster.node(JOINS).path(MANIFEST);
    let text = fs::read_to_string(&path).expect("kubeadm wrote it");
    let hidden = path.with_file_name(".e2e-kube-scheduler.yaml");
    fs::write(&hidden, format!("%YAML 1.1\n---\n{text}")).expect("the node's files can be written");
    fs::rename(&hidden, &path).expect("renamed");
    control_plane.cluster.load(&image());
    wait_until("the new node to say Blocked", ROLLOUT, || {
        let all = fleet.annotations();
        let is_blocked = all.get(JOINS).and_then(|own| own.get("phase")).is_some_and(|phase| phase == "Blocked");
        if is_blocked { Ok(()) } else { Err(format!("{all:#?}")) }
    });
    let now: BTreeMap<_, _> = fleet.starts().into_iter().filter(|(name, _)| *name != JOINS).collect();
    assert_eq!(now, starts, "nobody else was restarted");
    let before = fleet.digests();
    fleet.release.patch_source(&Wanted::another().text());
    let nodes = NODES.map(str::to_owned);
    let all = fleet.wait_for(&nodes, "Ready", &before);
    wait_until("the rollout to be sealed without it", ROLLOUT, || {
        let record = fleet.record();
        if record["sealed"] == all["cp1"]["digest"].as_str() { Ok(()) } else { Err(format!("{record:#}")) }
    });
    let changes = control_plane.sampler().changes_since(mark);
    let own = changes.iter().filter(|change| change.node == JOINS).count();
    assert!(own <= 1, "only the test itself changed it: {changes:#?}");
}

/// One more control plane, until this is dropped.
struct Joined<'a>(&'a ControlPlane);

impl<'a> Joined<'a> {
    #[track_caller]
    fn begin(control_plane: &'a ControlPlane) -> Self {
        assert_eq!(control_plane.cluster.change_nodes("add", &[]), JOINS);
        Self(control_plane)
    }
}

impl Drop for Joined<'_> {
    fn drop(&mut self) {
        self.0.cluster.change_nodes("remove", &[JOINS]);
    }
}
