//! schedpatch puts your scheduler configuration into the kube-scheduler that a cluster already runs.
//!
//! ```text
//!  sources, target, state      pure: platform + compose + edit
//!  ┌─────────┐   Snapshot    ┌──────┐   Plan
//!  │ observe │──────────────►│ plan │─────────►  shown, and later applied, verified, reported
//!  └─────────┘               └──────┘
//! ```
//!
//! Folders are the stages, in this order. `platform`, `compose`, `edit`, `plan` and `revision` are pure: no clock, no
//! file, no network, no environment. `observe` reads and never writes. Nothing in this crate writes to the host yet.

pub mod apply;
pub mod cli;
pub mod compose;
pub mod edit;
pub mod finding;
pub mod journal;
pub mod observe;
pub mod plan;
pub mod platform;
pub mod revision;
pub mod settings;
pub mod stamp;
pub mod status;
pub mod tick;
