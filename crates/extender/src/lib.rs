//! schedpatch-extender: a kube-scheduler extender that scores and filters nodes by what Prometheus knows of them.
//!
//! Pure: [`config`], [`wire`], [`select`], [`series`], [`mapping`], [`snapshot`], [`judge`], [`explain`]. [`poll`] asks
//! Prometheus, [`serve`] answers the scheduler, [`pods`] and [`nodes`] follow the API server, [`wake`] has waiting pods tried
//! again, [`run`] wires them.

pub mod cli;
pub mod config;
pub mod decisions;
pub mod explain;
pub mod judge;
pub mod mapping;
pub mod metrics;
pub mod misfit;
pub mod nodes;
pub mod pods;
pub mod poll;
pub mod prometheus;
pub mod run;
pub mod select;
pub mod series;
pub mod serve;
pub mod snapshot;
pub mod state;
pub mod tls;
pub mod url;
pub mod wake;
pub mod watchfile;
pub mod wire;
