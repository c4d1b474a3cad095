//! The agent from its chart and image: what installing, changing and restarting it does to the scheduler.

use crate::agent::LONG;
use crate::control_plane::{ControlPlane, QUIET};
use crate::extender::{Extender, Pod};
use crate::mirror::Mirror;
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick helm_install_ends_with_a_proven_scheduler,
    Quick a_pod_is_scheduled_through_the_extender_that_was_installed,
    Quick each_change_of_the_configmap_restarts_the_scheduler_exactly_once,
    Quick an_upgrade_without_change_a_deleted_pod_and_a_killed_agent_restart_no_scheduler,
    Quick an_agents_pod_deleted_in_the_middle_leaves_a_scheduler_that_binds_the_next_one,
];

/// From the agent's start to Ready, where nothing is to be done.
const READY_AGAIN: f64 = 2.0;

fn helm_install_ends_with_a_proven_scheduler(control_plane: &ControlPlane) {
    control_plane.begin_without_release();
    let before = control_plane.start_from_original();
    let (mark, wanted) = (control_plane.mark(), Wanted::another());
    let release = Release::install(control_plane, wanted);
    control_plane.readyz().wait_until_ready_at(wanted, LONG);

    let told = control_plane.wait_for_annotated("Ready");
    assert_eq!(told["generation"], "1");
    assert_eq!(told["digest"], told["verified-digest"]);
    assert_eq!(told["scheduler-version"], control_plane.cluster.version());
    let mirror = Mirror::of(control_plane.node()).expect("a mirror pod");
    assert_eq!(mirror.annotation("schedpatch.io/revision"), told["revision"]);
    assert_eq!(mirror.annotation("schedpatch.io/generation"), told["generation"]);
    control_plane.assert_one_restart(mark, &before, &mirror);
    release.kubectl(&["rollout", "status", "daemonset/schedpatch", "--timeout=30s"]).succeeded();
}

fn a_pod_is_scheduled_through_the_extender_that_was_installed(control_plane: &ControlPlane) {
    Release::ready(control_plane);
    let extender = Extender::listen(control_plane.node());
    let welcome = Pod::create(control_plane.node(), "through-the-extender", "welcome");
    welcome.wait_until_it_runs();
    assert_eq!(extender.calls_for("through-the-extender"), ["/filter"]);
}

fn each_change_of_the_configmap_restarts_the_scheduler_exactly_once(control_plane: &ControlPlane) {
    let (release, _) = Release::ready(control_plane);
    for _ in 0..2 {
        let before = control_plane.annotations();
        let wanted = Wanted::another();
        one_restart(control_plane, || {
            release.change(wanted);
            control_plane.readyz().wait_until_ready_at(wanted, LONG);
        });
        let after = wait_until("the node to be annotated with the new digest", seconds(30), || {
            let after = control_plane.annotations();
            let is_new = after["phase"] == "Ready" && after["digest"] != before["digest"];
            if is_new { Ok(after) } else { Err(format!("{after:?}")) }
        });
        assert_eq!(after["digest"], after["verified-digest"]);
    }
}

fn an_upgrade_without_change_a_deleted_pod_and_a_killed_agent_restart_no_scheduler(control_plane: &ControlPlane) {
    let (release, wanted) = Release::ready(control_plane);
    let (mark, first) = (control_plane.mark(), release.pod());

    release.helm("upgrade", wanted, &[]).succeeded();
    release.kubectl(&["rollout", "status", "daemonset/schedpatch", "--timeout=60s"]).succeeded();
    assert_eq!(release.pod(), first, "an upgrade without change leaves the agent alone");

    release.kubectl(&["delete", "pod", &first]).succeeded();
    let second = wait_until("another pod", LONG, || {
        let pod = release.pod();
        if pod == first { Err(pod) } else { Ok(pod) }
    });
    is_ready_again(release.seconds_to_ready(&second), "after its pod was deleted");

    release.kubectl(&["exec", &second, "--", "/schedpatch", "--version"]).succeeded();
    let agent = control_plane.node().run(&["pgrep", "-x", "schedpatch"]).succeeded().stdout;
    control_plane.node().run(&["kill", "-9", agent.trim()]).succeeded();
    wait_until("the kubelet to start it again", LONG, || {
        let previous = release.kubectl(&["logs", "--previous", &second]);
        if previous.status == 0 { Ok(()) } else { Err(previous.stderr) }
    });
    is_ready_again(release.seconds_to_ready(&second), "after it was killed");
    control_plane.readyz().wait_until_ready_at(wanted, LONG);

    stays("the scheduler is left alone", QUIET, || control_plane.no_restart(mark));
}

fn an_agents_pod_deleted_in_the_middle_leaves_a_scheduler_that_binds_the_next_one(control_plane: &ControlPlane) {
    let (release, _) = Release::ready(control_plane);
    let (wanted, first) = (Wanted::another(), release.pod());
    release.change(wanted);
    control_plane.readyz().wait("the agent to verify", LONG, |sample| sample.said.starts_with("Verifying"));
    release.kubectl(&["delete", "pod", &first, "--wait=false"]).succeeded();
    wait_until("another pod to be bound", LONG, || {
        let pod = release.pod();
        let shown = release.kubectl(&["get", "pod", &pod, "-o", "jsonpath={.status.phase}"]).stdout;
        if pod != first && shown == "Running" { Ok(()) } else { Err(format!("{pod} {shown}")) }
    });
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
    let pod = Pod::create(control_plane.node(), "after-the-middle", "welcome");
    pod.wait_until_it_runs();
}

#[track_caller]
pub fn one_restart(control_plane: &ControlPlane, change: impl FnOnce()) {
    let mark = control_plane.mark();
    change();
    let lives = control_plane.lives(mark);
    assert_eq!((lives.started.len(), lives.ended.len()), (1, 1), "exactly one restart for one change: {lives:?}");
}

#[track_caller]
pub fn is_ready_again(took: f64, what: &str) {
    assert!(took <= READY_AGAIN, "Ready again {took:.2} s after its start, {what}");
}
