//! The lossless editor: what others wrote stays, damaged files are refused, and two readers agree.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

mod foreign_edits;
mod fuzz;
mod readers_agree;
