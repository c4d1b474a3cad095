//! The rollout for people: a table of the nodes, then what the Lease says. Pure.

use std::fmt::{self, Write as _};

use super::members::NodeSummary;
use super::show::{age, short};
use super::table::{Columns, NOTHING, table};
use crate::plan::visible;
use crate::revision::Digest;
use crate::rollout::Record;
use crate::timestamp::Timestamp;

/// The rollout as it is.
pub fn show_rollout(record: &Record, nodes: &[NodeSummary], columns: Columns, now: Timestamp) -> String {
    let mut out = nodes_table(nodes, columns, now);
    // writing to a String cannot fail
    let _ = write(&mut out, record, nodes, now);
    out
}

fn nodes_table(nodes: &[NodeSummary], columns: Columns, now: Timestamp) -> String {
    let text = |text: &str| visible(if text.is_empty() { NOTHING } else { text });
    let few = |node: &NodeSummary| {
        [
            text(&node.name),
            text(&node.phase),
            age(Some(&node.since), now),
            text(&short(&node.wanted)),
            text(&short(&node.proven)),
            text(&node.reason),
        ]
    };
    let titles = ["NODE", "PHASE", "AGE", "WANTED", "PROVEN", "REASON"];
    if columns == Columns::Few {
        return table(titles, &nodes.iter().map(few).collect::<Vec<_>>(), columns);
    }
    let [node, phase, age, wanted, proven, reason] = titles;
    let titles = [node, phase, age, wanted, proven, reason, "REVISION", "GENERATION", "SCHEDULER", "SINCE"];
    let all = |node: &NodeSummary| {
        let [name, phase, age, wanted, proven, reason] = few(node);
        let more = [&node.revision, &node.generation, &node.scheduler, &node.since].map(|cell| text(cell));
        let [revision, generation, scheduler, since] = more;
        [name, phase, age, wanted, proven, reason, revision, generation, scheduler, since]
    };
    table(titles, &nodes.iter().map(all).collect::<Vec<_>>(), columns)
}

fn write(out: &mut String, record: &Record, nodes: &[NodeSummary], now: Timestamp) -> fmt::Result {
    let digest = |digest: Option<Digest>| digest.map_or_else(|| NOTHING.to_owned(), |digest| of(&digest));
    writeln!(out, "\nsealed      {} (the last that every node proved)", digest(record.sealed))?;
    let turn = record.entry.as_ref().map_or_else(
        || "nobody's".to_owned(),
        |entry| format!("{}: {:?} {}", entry.node, entry.change, digest(entry.digest)),
    );
    writeln!(out, "turn        {turn}")?;
    if record.paused {
        writeln!(out, "paused      schedpatch rollout resume lets it go on")?;
    }
    if let Some(asked) = &record.uninstall {
        let from = if asked.nodes.is_empty() { "every node".to_owned() } else { joined(asked.nodes.iter()) };
        let restored = joined(record.restored.keys());
        writeln!(out, "uninstall   asked for on {from}; removed from: {restored}")?;
    }
    for failed in &record.failed {
        let (digest, words) = (of(&failed.digest), visible(&failed.words));
        writeln!(out, "failed      {digest} on {}, {} ago: {words}", failed.node, failed.since.age(now))?;
    }
    if let Some(stopped) = &record.stopped {
        writeln!(out, "stopped     {} on {}: {}", of(&stopped.digest), stopped.node, visible(&stopped.words))?;
    }
    for node in &record.forgotten {
        writeln!(out, "forgotten   {node}")?;
    }
    for node in nodes.iter().filter(|node| !node.message.is_empty() && node.phase != "Ready") {
        writeln!(out, "{:<11} {}", visible(&node.name), visible(&node.message))?;
    }
    Ok(())
}

fn joined<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<&str> = names.map(String::as_str).collect();
    if names.is_empty() { "none yet".to_owned() } else { names.join(", ") }
}

/// Enough of a digest.
fn of(digest: &Digest) -> String {
    short(&digest.to_string())
}
