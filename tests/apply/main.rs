//! The real program writes on a host of its own.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

mod commit;
mod host;
mod last_good;
mod lock;
mod paths;
mod purge;
mod restore;
mod side_files;
mod status;
