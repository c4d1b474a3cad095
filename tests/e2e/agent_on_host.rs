//! The agent as a process on the host: many changes and many restarts.

use crate::agent::{Agent, LONG};
use crate::agent_installed::{is_ready_again, one_restart};
use crate::runner::Test;
use crate::stage::{QUIET, Stage};
use crate::tests;
use crate::wait::stays;
use crate::wish::Wish;

pub const TESTS: &[Test] = tests![
    Quick each_change_under_an_agent_on_the_host_restarts_the_scheduler_exactly_once,
    Quick twenty_restarts_of_the_agent_restart_no_scheduler_and_each_is_ready_within_two_seconds,
];

fn each_change_under_an_agent_on_the_host_restarts_the_scheduler_exactly_once(stage: &Stage) {
    let (agent, _) = Agent::start_ready(stage);
    for _ in 0..3 {
        let wish = Wish::another();
        one_restart(stage, || {
            stage.wish(&wish.text());
            stage.readyz().wait_until_ready_at(wish, LONG);
        });
    }
    drop(agent);
}

fn twenty_restarts_of_the_agent_restart_no_scheduler_and_each_is_ready_within_two_seconds(stage: &Stage) {
    let (agent, wish) = Agent::start_ready(stage);
    drop(agent);
    let mark = stage.mark();
    for number in 1..=20 {
        let agent = Agent::start(stage, &[]);
        is_ready_again(agent.seconds_to_ready(), &format!("start {number}"));
        if number % 2 == 0 {
            agent.kill_9();
        }
    }
    let agent = Agent::start(stage, &[]);
    stage.readyz().wait_until_ready_at(wish, LONG);
    stays("the scheduler is left alone", QUIET, || stage.no_restart(mark));
    drop(agent);
}
