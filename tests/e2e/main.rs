//! End-to-end tests: the real program on a real kubeadm cluster that `hack/testbed` makes. Run them with `hack/e2e`.
//!
//! A test is a function whose name is a sentence. It gets the stage (a bed that is up), first brings it into the state that
//! it begins from, and panics with what it saw when that is not what it should be.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "a test makes its own files, runs programs and fails by panicking"
)]

mod bed;
mod containers;
mod extender;
mod facts_kubeadm;
mod facts_kubelet;
mod hosts;
mod mirror;
mod options;
mod runner;
mod stage;
mod wait;

use std::process::ExitCode;

fn main() -> ExitCode {
    runner::main(&[hosts::TESTS, facts_kubelet::TESTS, facts_kubeadm::TESTS].concat())
}
