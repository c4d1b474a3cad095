//! Killed, failing, losing power and meeting other writers at every call that changes a file. `hack/crash` runs more of it.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

#[path = "../support/mod.rs"]
mod support;

#[cfg(feature = "real-crash")]
mod ext4;
mod k3s;
mod kill;
mod power_loss;
mod restart;
#[cfg(feature = "real-crash")]
mod rights;
#[cfg(feature = "real-crash")]
mod syscalls;
mod two_writers;
