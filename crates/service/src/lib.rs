//! What the daemons of schedpatch share: log setup, probe endpoint, metrics text, shutdown signals, API client, watches, command
//! lines.

pub mod api;
pub mod cli;
pub mod client;
pub mod feed;
pub mod http;
pub mod log;
pub mod metrics;
pub mod patience;
pub mod shutdown;
