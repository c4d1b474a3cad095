//! The command line, and what the agent serves.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

mod cluster;
mod cluster_objects;
mod cluster_sources;
mod cluster_verdict;
mod cluster_view;
mod k3s;
mod plan;
mod probes_and_metrics;
mod program;
mod rollout_view;
mod rollout_watch;
mod sandbox;
mod target;
mod uninstall;
mod usage;
