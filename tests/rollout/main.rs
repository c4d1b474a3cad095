//! Rollouts over several nodes: the decisions as a table, and agents that decide so in a simulated cluster where everything
//! happens in every order, with the laws checked after every step.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::missing_panics_doc,
    clippy::disallowed_methods,
    clippy::struct_excessive_bools,
    clippy::too_many_lines,
    reason = "a test fails by panicking"
)]

mod agent;
mod etcd;
mod events;
mod laws;
mod lost;
mod record;
#[allow(dead_code, reason = "shared with other suites")]
#[path = "../support/rng.rs"]
mod rng;
mod scene;
mod table;
mod uninstall;
mod walk;
mod world;
