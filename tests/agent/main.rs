//! The whole agent, on a real host tree and against an API in the process, with turned time: a whole life takes milliseconds.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

mod api;
mod blame;
mod decide;
mod dir_watcher;
mod fingerprint;
mod fleet;
mod fleet_api;
mod fleet_back;
mod fleet_lost;
mod fleet_rollout;
mod fleet_rules;
mod fleet_stopped;
mod fleet_uninstall;
mod k3s;
mod kubelet;
mod life;
mod log;
mod node;
mod preflight;
mod preflight_pods;
mod preflight_unclear;
mod preflight_undone;
mod rename_hook;
mod second_kind;
mod silence;
#[path = "../support/mod.rs"]
mod support;
mod test_pod;
mod trial;
mod trial_of_service;
mod walk;
mod writers;
mod wrongs;
