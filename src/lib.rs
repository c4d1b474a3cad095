//! schedpatch puts your scheduler configuration into the kube-scheduler that a cluster already runs.
//!
//! ```text
//!  sources, target, state      pure: platform + compose + target       the only writer
//!  ┌─────────┐   Snapshot    ┌──────┐   Plan                          ┌───────┐   Receipt
//!  │ observe │──────────────►│ plan │────────────────────────────────►│ apply │────────────►  later verified, reported
//!  └─────────┘               └──────┘                                 └───────┘
//! ```
//!
//! Folders are the stages, in this order; `reconcile` is one pass through them. `platform`, `compose`, `plan`, `revision`,
//! `journal` and `status` are pure: no clock, no file, no network, no environment. `host` knows the host's paths and
//! files, `observe` reads them; neither writes. `target` knows what kinds of files define a scheduler: how each is edited
//! (pure), made effective and observed. Only `apply` writes to the host, and every call that does goes through `apply::HostFs`. `fleet` is apart: it asks the cluster
//! where all nodes are. `sandbox` runs the agent against a simulated kubelet and API.

pub mod agent;
pub mod apply;
pub mod cli;
pub mod cluster;
pub mod compose;
pub mod finding;
pub mod fleet;
pub mod host;
pub mod journal;
pub mod observe;
mod overrides;
pub mod phase;
pub mod plan;
pub mod platform;
pub mod reconcile;
pub mod report;
pub mod revision;
pub mod rollout;
pub mod sandbox;
pub mod settings;
pub mod status;
pub mod target;
pub mod test_pod;
pub mod timestamp;
mod url;
pub mod verify;
