//! End-to-end tests: the real program on a real kubeadm cluster that `hack/testbed` makes. Run them with `hack/e2e`.
//!
//! A test is a function whose name is a sentence. It gets a control plane that is up, first brings it into the state that
//! it begins from, and panics with what it saw when that is not what it should be.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test makes its own files, runs programs and fails by panicking"
)]

mod agent;
mod agent_api;
mod agent_drift;
mod agent_failures;
mod agent_installed;
mod agent_killed;
mod agent_on_host;
mod agent_rights;
mod agent_undone;
mod cluster;
mod containers;
mod control_plane;
mod extender;
mod facts_kubeadm;
mod facts_kubelet;
mod fleet;
mod hosts;
mod mirror;
mod options;
mod readyz;
mod readyz_law;
mod release;
mod runner;
mod wait;
mod wanted;

use std::process::ExitCode;

use options::Suite;

fn main() -> ExitCode {
    runner::main(|suite| match suite {
        Suite::Host => [hosts::TESTS, facts_kubelet::TESTS, facts_kubeadm::TESTS].concat(),
        Suite::Fleet => fleet::tests(),
        // the law is asked last, about all that was done before
        Suite::Agent => [
            agent_installed::TESTS,
            agent_drift::TESTS,
            agent_rights::TESTS,
            agent_undone::TESTS,
            agent_on_host::TESTS,
            agent_failures::TESTS,
            agent_killed::TESTS,
            agent_api::TESTS,
            readyz_law::TESTS,
        ]
        .concat(),
    })
}
