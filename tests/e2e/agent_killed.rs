//! The agent ends in the middle of a change, with and without warning: whoever comes next brings it to its end.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::agent::{Agent, LONG, kill_9};
use crate::control_plane::{ControlPlane, MANIFEST};
use crate::runner::Test;
use crate::tests;
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick an_agent_killed_right_after_the_rename_leaves_a_change_that_the_next_one_proves,
    Quick an_agent_killed_while_verifying_leaves_a_change_that_the_next_one_proves,
    Quick an_agent_killed_while_rolling_back_leaves_a_way_back_that_the_next_one_goes_to_its_end,
];

fn an_agent_killed_right_after_the_rename_leaves_a_change_that_the_next_one_proves(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let (mark, wanted) = (control_plane.mark(), Wanted::another());
    kill_at_rename(control_plane, &agent, || control_plane.write_source(&wanted.text()));
    drop(agent);
    proven_by_the_next_with_one_restart(control_plane, mark, wanted);
}

fn an_agent_killed_while_verifying_leaves_a_change_that_the_next_one_proves(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    let (mark, wanted, since) = (control_plane.mark(), Wanted::another(), agent.told().len());
    control_plane.write_source(&wanted.text());
    agent.wait_for("Verifying", since, LONG);
    agent.kill_9();
    proven_by_the_next_with_one_restart(control_plane, mark, wanted);
}

fn an_agent_killed_while_rolling_back_leaves_a_way_back_that_the_next_one_goes_to_its_end(
    control_plane: &ControlPlane,
) {
    let (agent, good) = Agent::start_ready(control_plane);
    let (bad, since) = (Wanted::another(), agent.told().len());
    control_plane.write_source(&bad.bad_text());
    agent.wait_for("Verifying", since, LONG);
    kill_at_rename(control_plane, &agent, || {});
    drop(agent);

    let agent = Agent::start(control_plane, &[]);
    let rolled_back = agent.wait_for("RolledBack", 0, LONG);
    assert!(rolled_back.message.contains("Nonsense"), "{}", rolled_back.message);
    let now = control_plane.readyz().last().expect("samples");
    assert_eq!((now.code, now.running), (503, [good.mark()].into()), "{}", now.said);
}

/// Kills the agent as soon as the manifest is another file.
#[track_caller]
fn kill_at_rename(control_plane: &ControlPlane, agent: &Agent<'_>, change: impl FnOnce()) {
    let pid = agent.outer_pid();
    let manifest = control_plane.node().path(MANIFEST);
    let file = || std::fs::metadata(&manifest).map(|file| (file.ino(), file.mtime(), file.mtime_nsec())).ok();
    let (before, begin) = (file(), std::time::Instant::now());
    change();
    while file() == before {
        assert!(begin.elapsed() < LONG, "the agent replaces the manifest");
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_9(&pid);
    control_plane.cluster.note(&format!("the agent was killed after the rename; it had told {:#?}", agent.told()));
}

#[track_caller]
fn proven_by_the_next_with_one_restart(control_plane: &ControlPlane, mark: crate::containers::Mark, wanted: Wanted) {
    let _agent = Agent::start(control_plane, &[]);
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
    let lives = control_plane.lives(mark);
    assert_eq!((lives.started.len(), lives.ended.len()), (1, 1), "one restart for one change: {lives:?}");
}
