//! Flags of the scheduler that `helm upgrade` changes: the agents are replaced, and want different things meanwhile.

use std::time::Instant;

use super::{Fleet, NODES, VALUES, manifests};
use crate::cluster::Node;
use crate::control_plane::ControlPlane;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};

pub const TESTS: &[Test] = tests![Slow flags_go_over_three_nodes_when_the_leaders_agent_is_the_first_new_one];

fn flags_go_over_three_nodes_when_the_leaders_agent_is_the_first_new_one(control_plane: &ControlPlane) {
    let fleet = Fleet::ready(control_plane);
    let leader = fleet.leader();
    let others: Vec<Node<'_>> =
        NODES.into_iter().filter(|name| *name != leader).map(|name| control_plane.cluster.node(name)).collect();
    let (before, began) = (fleet.digests(), Instant::now());
    let verbosity = if String::from_utf8_lossy(&manifests(control_plane)[0]).contains("--v=3") { "4" } else { "3" };
    // these kubelets do not replace their agents yet: the old ones go on, with the old flags
    let paused = Paused::begin(others);
    let flag = format!("scheduler.args.v={verbosity}");
    let more = [&VALUES[..], &["--set-string", &flag]].concat();
    fleet.release.helm("upgrade", fleet.wanted(), &more).succeeded();
    let text = format!("--v={verbosity}");
    wait_until("the leader's node to have the new flag", seconds(120), || {
        let all = manifests(control_plane);
        let with: Vec<&str> = NODES
            .into_iter()
            .zip(&all)
            .filter(|(_, manifest)| String::from_utf8_lossy(manifest).contains(&text))
            .map(|(name, _)| name)
            .collect();
        if with == [leader.as_str()] { Ok(()) } else { Err(format!("{with:?} have it, the leader is {leader}")) }
    });
    drop(paused);
    fleet.wait_for_all("Ready", &before);
    fleet.wait_until_sealed();
    for (name, manifest) in NODES.into_iter().zip(manifests(control_plane)) {
        assert!(String::from_utf8_lossy(&manifest).contains(&text), "{name} has {text}");
    }
    let changes = control_plane.sampler().changes_since(began);
    let mut nodes: Vec<&str> = changes.iter().map(|one| one.node.as_str()).collect();
    nodes.sort_unstable();
    assert_eq!(nodes, NODES, "one restart each");
}

impl Fleet<'_> {
    /// The node whose scheduler leads.
    #[track_caller]
    fn leader(&self) -> String {
        let path = "jsonpath={.spec.holderIdentity}";
        let lease = ["-n", "kube-system", "get", "lease", "kube-scheduler", "-o", path];
        let holder = self.control_plane.node().kubectl(&lease).succeeded().stdout;
        holder.rsplit_once('_').map_or_else(|| holder.clone(), |(node, _)| node.to_owned())
    }
}

/// Kubelets that do nothing, until this is dropped. Shorter than the time after which their nodes count as lost.
struct Paused<'a>(Vec<Node<'a>>);

impl<'a> Paused<'a> {
    fn begin(nodes: Vec<Node<'a>>) -> Self {
        for node in &nodes {
            node.run(&["pkill", "-STOP", "-x", "kubelet"]).succeeded();
        }
        Self(nodes)
    }
}

impl Drop for Paused<'_> {
    fn drop(&mut self) {
        for node in &self.0 {
            node.run(&["pkill", "-CONT", "-x", "kubelet"]);
        }
    }
}
