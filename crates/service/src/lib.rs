//! What the daemons of schedpatch share: log setup, probe endpoint, metrics text, shutdown signals, API client.

pub mod client;
pub mod http;
pub mod log;
pub mod metrics;
pub mod shutdown;
