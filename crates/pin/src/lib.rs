//! schedpatch-pin: keeps pods on the nodes that hold their data, by labels on nodes.
//!
//! Pure: [`labels`], [`fit`], [`affinity`], [`decide`], [`reason`], [`gate`], [`state`]. The rest talks to the API server.

pub mod affinity;
pub mod api;
pub mod attempt;
pub mod cli;
pub mod counters;
pub mod decide;
pub mod engine;
pub mod events;
pub mod facts;
pub mod fit;
pub mod gate;
pub mod labels;
pub mod lead;
pub mod model;
pub mod quantity;
pub mod reason;
pub mod run;
pub mod state;
pub mod volumes;
