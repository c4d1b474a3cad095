//! The agent ends in the middle of a change, with and without warning: whoever comes next brings it to its end.

use std::os::unix::fs::MetadataExt as _;
use std::time::Duration;

use crate::agent::{Agent, LONG, kill_9};
use crate::runner::Test;
use crate::stage::{MANIFEST, Stage};
use crate::tests;
use crate::wish::Wish;

pub const TESTS: &[Test] = tests![
    Quick an_agent_killed_right_after_the_rename_leaves_a_change_that_the_next_one_proves,
    Quick an_agent_killed_while_verifying_leaves_a_change_that_the_next_one_proves,
    Quick an_agent_killed_while_rolling_back_leaves_a_way_back_that_the_next_one_goes_to_its_end,
];

fn an_agent_killed_right_after_the_rename_leaves_a_change_that_the_next_one_proves(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let (mark, wish) = (stage.mark(), Wish::another());
    kill_at_rename(stage, &agent, || stage.wish(&wish.text()));
    drop(agent);
    proven_by_the_next_with_one_restart(stage, mark, wish);
}

fn an_agent_killed_while_verifying_leaves_a_change_that_the_next_one_proves(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    let (mark, wish, since) = (stage.mark(), Wish::another(), agent.told().len());
    stage.wish(&wish.text());
    agent.wait_for("Verifying", since, LONG);
    agent.kill_9();
    proven_by_the_next_with_one_restart(stage, mark, wish);
}

fn an_agent_killed_while_rolling_back_leaves_a_way_back_that_the_next_one_goes_to_its_end(stage: &Stage) {
    let (agent, good) = Agent::start_ready(stage);
    let (bad, since) = (Wish::another(), agent.told().len());
    stage.wish(&bad.bad_text());
    agent.wait_for("Verifying", since, LONG);
    kill_at_rename(stage, &agent, || {});
    drop(agent);

    let agent = Agent::start(stage, &[]);
    let rolled_back = agent.wait_for("RolledBack", 0, LONG);
    assert!(rolled_back.message.contains("Nonsense"), "{}", rolled_back.message);
    let now = stage.readyz().last().expect("samples");
    assert_eq!((now.code, now.running), (503, [good.mark()].into()), "{}", now.said);
}

/// Kills the agent as soon as the manifest is another file.
#[track_caller]
fn kill_at_rename(stage: &Stage, agent: &Agent<'_>, change: impl FnOnce()) {
    let pid = agent.outer_pid();
    let manifest = stage.node().path(MANIFEST);
    let file = || std::fs::metadata(&manifest).map(|file| (file.ino(), file.mtime(), file.mtime_nsec())).ok();
    let (before, begin) = (file(), std::time::Instant::now());
    change();
    while file() == before {
        assert!(begin.elapsed() < LONG, "the agent replaces the manifest");
        std::thread::sleep(Duration::from_micros(200));
    }
    kill_9(&pid);
    stage.bed.note(&format!("the agent was killed after the rename; it had told {:#?}", agent.told()));
}

#[track_caller]
fn proven_by_the_next_with_one_restart(stage: &Stage, mark: crate::containers::Mark, wish: Wish) {
    let _agent = Agent::start(stage, &[]);
    stage.readyz().wait_until_ready_at(wish, LONG);
    let lives = stage.lives(mark);
    assert_eq!((lives.started.len(), lives.ended.len()), (1, 1), "one restart for one change: {lives:?}");
}
