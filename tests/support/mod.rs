//! What several test programs share.
#![allow(dead_code, reason = "each test program uses its own part")]

pub mod configs;
pub mod doors;
pub mod law5;
pub mod laws;
pub mod manifests;
pub mod mutate;
pub mod rng;
pub mod scenario;
