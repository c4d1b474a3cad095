//! `plan` over the folders in `tests/golden`.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

mod golden;
