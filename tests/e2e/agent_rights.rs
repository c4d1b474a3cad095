//! The agent without its rights in the cluster.

use std::fs;

use crate::agent::LONG;
use crate::control_plane::ControlPlane;
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] =
    tests![Quick without_its_rights_the_agent_stays_ready_at_what_was_proven_and_goes_on_when_they_are_back];

fn without_its_rights_the_agent_stays_ready_at_what_was_proven_and_goes_on_when_they_are_back(
    control_plane: &ControlPlane,
) {
    let (release, wanted) = Release::ready(control_plane);
    control_plane.wait_for_annotated("Ready");
    let rights = ["get", "clusterrolebindings,rolebindings", "-A", "-l", "app.kubernetes.io/instance=schedpatch"];
    let kept = control_plane.node().kubectl(&[&rights[..], &["-o", "json"]].concat()).succeeded().stdout;
    fs::write(control_plane.node().path("/etc/kubernetes/e2e/rights.json"), kept)
        .expect("the node's files can be written");
    control_plane.node().kubectl(&["delete", "clusterrolebinding", "-l", rights[4]]).succeeded();
    control_plane.node().kubectl(&["delete", "rolebinding", "-A", "-l", rights[4]]).succeeded();

    // a watch that was begun goes on, so it is a new agent that is refused
    let first = release.pod();
    release.kubectl(&["delete", "pod", &first]).succeeded();
    let unknown = wait_until("a new agent to say Unknown", LONG, || {
        let told = release.told(&release.pod());
        let unknown = told.iter().find(|told| told.phase == "Unknown").cloned();
        unknown.ok_or_else(|| format!("{told:?}"))
    });
    assert!(unknown.message.contains("forbidden"), "{}", unknown.message);
    control_plane.readyz().wait_until_ready_at(wanted, seconds(10));

    let (manifest, next) = (control_plane.manifest(), Wanted::another());
    release.edit(next);
    let waiting = control_plane
        .readyz()
        .wait("the agent to wait", LONG, |sample| sample.said.starts_with("Blocked: LeaseForbidden"));
    assert!(waiting.code == 503 && waiting.said.contains("forbidden"), "{}", waiting.said);
    assert_eq!(control_plane.manifest(), manifest, "nothing new is begun");

    control_plane.node().kubectl(&["create", "-f", "/etc/kubernetes/e2e/rights.json"]).succeeded();
    control_plane.readyz().wait_until_ready_at(next, LONG);
    control_plane.wait_for_annotated("Ready");
}
