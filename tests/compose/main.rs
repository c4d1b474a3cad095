//! From sources to the configuration that the scheduler reads.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

mod merging;
#[cfg(feature = "real-scheduler")]
mod real_scheduler;
mod sources;
