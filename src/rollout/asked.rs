//! What people ask for without a program of ours: annotations of the Lease, which the next agent that sees them carries out
//! and takes away.

use std::collections::{BTreeMap, BTreeSet};

use super::record::Record;

/// `true` stops beginnings, anything else lets them go on.
pub const PAUSE: &str = "schedpatch.io/pause";
/// Tries again what failed, whatever its value.
pub const RETRY: &str = "schedpatch.io/retry";
/// The name of a node that is not waited for any more.
pub const FORGET: &str = "schedpatch.io/forget";
/// Removes everything from every node, whatever its value.
pub const UNINSTALL: &str = "schedpatch.io/uninstall";
/// The name of a node from which everything is removed.
pub const UNINSTALL_NODE: &str = "schedpatch.io/uninstall-node";

/// All of them.
pub const REQUESTS: [&str; 5] = [PAUSE, RETRY, FORGET, UNINSTALL, UNINSTALL_NODE];

/// The record with what these annotations ask for, if they ask for anything. `agents` is the DaemonSet that would be
/// uninstalled.
pub fn asked(record: &Record, annotations: &BTreeMap<String, String>, agents: &(String, i64)) -> Option<Record> {
    if !REQUESTS.iter().any(|key| annotations.contains_key(*key)) {
        return None;
    }
    let mut asked = record.clone();
    if let Some(pause) = annotations.get(PAUSE) {
        asked.paused = pause == "true";
    }
    if annotations.contains_key(RETRY) {
        asked.retry();
    }
    if let Some(node) = annotations.get(FORGET).filter(|node| !node.is_empty()) {
        asked.forget(node);
    }
    if annotations.contains_key(UNINSTALL) {
        asked.ask_uninstall(agents, &BTreeSet::new());
    }
    if let Some(node) = annotations.get(UNINSTALL_NODE).filter(|node| !node.is_empty()) {
        asked.ask_uninstall(agents, &BTreeSet::from([node.clone()]));
    }
    Some(asked)
}
