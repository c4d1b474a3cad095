//! What several test programs share.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

pub mod configs;
pub mod disk;
pub mod faulty_fs;
pub mod law5;
pub mod laws;
pub mod manifests;
pub mod mutate;
pub mod rng;
pub mod scenario;

/// How much is tried: by `cargo test`, by `hack/crash` (which CI runs), by `hack/crash --all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Effort {
    Short,
    Ci,
    All,
}

pub fn effort() -> Effort {
    match std::env::var("SCHEDPATCH_CRASH").as_deref() {
        Ok("all") => Effort::All,
        Ok("ci") => Effort::Ci,
        _ => Effort::Short,
    }
}
