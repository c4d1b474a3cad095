//! The whole extender on the loopback, against a Prometheus that answers, lies, hangs or is away.
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

mod beside_api;
mod cluster;
mod hostile;
mod judging;
mod lies;
mod reload;
mod stage;
mod wire;
