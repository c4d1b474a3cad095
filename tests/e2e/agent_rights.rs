//! The agent without its rights in the cluster.

use std::fs;

use crate::agent::LONG;
use crate::release::Release;
use crate::runner::Test;
use crate::stage::Stage;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wish::Wish;

pub const TESTS: &[Test] =
    tests![Quick without_its_rights_the_agent_stays_ready_at_what_was_proven_and_goes_on_when_they_are_back];

fn without_its_rights_the_agent_stays_ready_at_what_was_proven_and_goes_on_when_they_are_back(stage: &Stage) {
    let (release, wish) = Release::ready(stage);
    stage.wait_for_annotated("Ready");
    let rights = ["get", "clusterrolebindings,rolebindings", "-A", "-l", "app.kubernetes.io/instance=schedpatch"];
    let kept = stage.node().kubectl(&[&rights[..], &["-o", "json"]].concat()).succeeded().stdout;
    fs::write(stage.node().path("/etc/kubernetes/e2e/rights.json"), kept).expect("the node's files can be written");
    stage.node().kubectl(&["delete", "clusterrolebinding", "-l", rights[4]]).succeeded();
    stage.node().kubectl(&["delete", "rolebinding", "-A", "-l", rights[4]]).succeeded();

    // a watch that was begun goes on, so it is a new agent that is refused
    let first = release.pod();
    release.kubectl(&["delete", "pod", &first]).succeeded();
    let unknown = wait_until("a new agent to say Unknown", LONG, || {
        let told = release.told(&release.pod());
        let unknown = told.iter().find(|told| told.phase == "Unknown").cloned();
        unknown.ok_or_else(|| format!("{told:?}"))
    });
    assert!(unknown.message.contains("forbidden"), "{}", unknown.message);
    stage.readyz().wait_until_ready_at(wish, seconds(10));

    let (manifest, next) = (stage.manifest(), Wish::another());
    release.edit(next);
    let waiting = stage.readyz().wait("the agent to wait", LONG, |sample| sample.said.starts_with("Waiting: ApiAway"));
    assert!(waiting.code == 503 && waiting.said.contains("forbidden"), "{}", waiting.said);
    assert_eq!(stage.manifest(), manifest, "nothing new is begun");

    stage.node().kubectl(&["create", "-f", "/etc/kubernetes/e2e/rights.json"]).succeeded();
    stage.readyz().wait_until_ready_at(next, LONG);
    stage.wait_for_annotated("Ready");
}
