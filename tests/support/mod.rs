//! What several test programs share.
#![allow(dead_code, reason = "each test program uses its own part")]
#![allow(
    clippy::expect_used,
    clippy::panic,
    clippy::disallowed_methods,
    reason = "tests make and break their own files"
)]

use std::path::{Path, PathBuf};

pub mod configs;
pub mod disk;
pub mod faulty_fs;
pub mod laws;
pub mod manifests;
pub mod mutate;
pub mod pretended_k3s;
pub mod rng;
pub mod scenario;
pub mod unit_kind;
pub mod whole_host;

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

/// Where the short form makes its hosts: in memory, where there is such a place. What a disk does is modelled, and the long form
/// and what is measured are on one.
pub fn scratch(suite: &str) -> PathBuf {
    let memory = Path::new("/dev/shm");
    if effort() > Effort::Short || suite.starts_with("bench") || !memory.is_dir() {
        return Path::new(env!("CARGO_TARGET_TMPDIR")).join(suite);
    }
    memory.join(format!("schedpatch-{}", std::process::id())).join(suite)
}
