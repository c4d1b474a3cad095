//! schedpatch puts your scheduler configuration into the kube-scheduler that a cluster already runs.
//!
//! ```text
//!  sources, target, state      pure: platform + compose + edit         the only writer
//!  ┌─────────┐   Snapshot    ┌──────┐   Plan                          ┌───────┐   Receipt
//!  │ observe │──────────────►│ plan │────────────────────────────────►│ apply │────────────►  later verified, reported
//!  └─────────┘               └──────┘                                 └───────┘
//! ```
//!
//! Folders are the stages, in this order; `reconcile` is one pass through them. `platform`, `compose`, `edit`, `plan`, `revision`,
//! `journal` and `status` are pure: no clock, no file, no network, no environment. `host` knows the host's paths and
//! files, `observe` reads them; neither writes. Only
//! `apply` writes to the host, and every call that does goes through `apply::HostFs`. `fleet` is apart: it asks the cluster
//! where all nodes are.

pub mod agent;
pub mod apply;
pub mod cli;
pub mod cluster;
pub mod compose;
pub mod edit;
pub mod finding;
pub mod fleet;
pub mod host;
pub mod journal;
pub mod observe;
pub mod phase;
pub mod plan;
pub mod platform;
pub mod reconcile;
pub mod report;
pub mod revision;
pub mod settings;
pub mod status;
pub mod timestamp;
pub mod verify;
