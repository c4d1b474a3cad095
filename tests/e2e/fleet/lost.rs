//! An agent or a node is lost in the middle of its turn.

use std::time::Instant;

use super::{Fleet, NODES, ROLLOUT};
use crate::control_plane::ControlPlane;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick lost_agents_are_replaced_and_the_rollout_goes_on,
    Slow a_node_that_is_lost_in_its_turn_and_comes_back_goes_on,
    Slow a_node_that_is_lost_in_its_turn_is_waited_for_until_a_person_forgets_it,
];

fn lost_agents_are_replaced_and_the_rollout_goes_on(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let before = fleet.digests();
    fleet.release.patch_source(&Wanted::another().text());
    wait_until("a node to be in the middle", ROLLOUT, || {
        let all = fleet.annotations();
        if all.values().any(|own| own["phase"] == "Verifying") { Ok(()) } else { Err(format!("{all:?}")) }
    });
    fleet.release.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]).succeeded();
    fleet.wait_for_all("Ready", &before);
}

fn a_node_that_is_lost_in_its_turn_and_comes_back_goes_on(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let before = fleet.digests();
    fleet.release.patch_source(&Wanted::another().text());
    let lost = fleet.wait_for_turn();
    let gone = Lost::begin(control_plane, lost);
    let mark = Instant::now();
    stays("nobody else begins", seconds(20), || fleet.nobody_begins(lost, mark));
    drop(gone);
    fleet.wait_for_all("Ready", &before);
    fleet.wait_until_sealed();
}

fn a_node_that_is_lost_in_its_turn_is_waited_for_until_a_person_forgets_it(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let before = fleet.digests();
    fleet.release.patch_source(&Wanted::another().text());
    let lost = fleet.wait_for_turn();
    let gone = Lost::begin(control_plane, lost);
    let mark = Instant::now();
    // longer than the takeover wait: its node is not ready, so nobody can say what runs there
    stays("nobody else begins", seconds(260), || fleet.nobody_begins(lost, mark));
    let others: Vec<String> = NODES.into_iter().filter(|name| *name != lost).map(str::to_owned).collect();
    fleet.rollout(&["forget", lost]).succeeded();
    fleet.wait_for(&others, "Ready", &before);
    drop(gone);
    fleet.wait_for_all("Ready", &before);
    fleet.wait_until_sealed();
    let record = fleet.record();
    assert_eq!(record["forgotten"], serde_json::json!([]), "{record:#}");
}

impl Fleet<'_> {
    /// Nothing was begun on another node since.
    fn nobody_begins(&self, holder: &str, since: Instant) -> Result<(), String> {
        let changes = self.control_plane.sampler().changes_since(since);
        let others: Vec<_> = changes.iter().filter(|change| change.node != holder).collect();
        if others.is_empty() { Ok(()) } else { Err(format!("{others:?}")) }
    }
}

/// A node without power, until this is dropped.
pub struct Lost<'a>(&'a ControlPlane, &'static str);

impl<'a> Lost<'a> {
    #[track_caller]
    pub fn begin(control_plane: &'a ControlPlane, name: &'static str) -> Self {
        control_plane.cluster.node(name).lose();
        Self(control_plane, name)
    }
}

impl Drop for Lost<'_> {
    fn drop(&mut self) {
        self.0.cluster.change_nodes("return", &[self.1]);
    }
}
