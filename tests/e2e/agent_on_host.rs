//! The agent as a process on the host: many changes and many restarts.

use crate::agent::{Agent, LONG};
use crate::agent_installed::{is_ready_again, one_restart};
use crate::control_plane::{ControlPlane, QUIET};
use crate::runner::Test;
use crate::tests;
use crate::wait::stays;
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick each_change_under_an_agent_on_the_host_restarts_the_scheduler_exactly_once,
    Quick twenty_restarts_of_the_agent_restart_no_scheduler_and_each_is_ready_within_two_seconds,
];

fn each_change_under_an_agent_on_the_host_restarts_the_scheduler_exactly_once(control_plane: &ControlPlane) {
    let (agent, _) = Agent::start_ready(control_plane);
    for _ in 0..3 {
        let wanted = Wanted::another();
        one_restart(control_plane, || {
            control_plane.write_source(&wanted.text());
            control_plane.readyz().wait_until_ready_at(wanted, LONG);
        });
    }
    drop(agent);
}

fn twenty_restarts_of_the_agent_restart_no_scheduler_and_each_is_ready_within_two_seconds(
    control_plane: &ControlPlane,
) {
    let (agent, wanted) = Agent::start_ready(control_plane);
    drop(agent);
    let mark = control_plane.mark();
    for number in 1..=20 {
        let agent = Agent::start(control_plane, &[]);
        is_ready_again(agent.seconds_to_ready(), &format!("start {number}"));
        if number % 2 == 0 {
            agent.kill_9();
        }
    }
    let agent = Agent::start(control_plane, &[]);
    control_plane.readyz().wait_until_ready_at(wanted, LONG);
    stays("the scheduler is left alone", QUIET, || control_plane.no_restart(mark));
    drop(agent);
}
