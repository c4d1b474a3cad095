//! All nodes for people: one table, then what lacks. Pure.

use std::fmt::{self, Write as _};

use super::{Counts, Fleet, NodeRow, Wanted};
use crate::plan::visible;

const TITLES: [&str; 10] =
    ["NODE", "PLATFORM", "SCHEDULER", "PHASE", "WANTED", "VERIFIED", "RUNNING", "SINCE", "LEADER", "REASON"];
/// Enough of a digest to tell it from others.
const SHORT: usize = 12;
/// What is not known.
const NOTHING: &str = "-";

/// The table and what is below it; without the findings.
pub fn show(fleet: &Fleet) -> String {
    let mut out = String::new();
    // writing to a String cannot fail
    let _ = write(&mut out, fleet);
    out
}

fn write(out: &mut String, fleet: &Fleet) -> fmt::Result {
    let Fleet { proven, wanted, counts, leader, nodes, .. } = fleet;
    if !nodes.is_empty() {
        let rows: Vec<_> = nodes.iter().map(|node| cells(node, wanted)).collect();
        table(out, &rows)?;
        writeln!(out)?;
    }
    let digest = wanted.digest.as_deref().map_or_else(|| "unknown".to_owned(), short);
    let from = if wanted.config_maps.is_empty() { "no ConfigMap".to_owned() } else { wanted.config_maps.join(", ") };
    writeln!(out, "wanted      {digest} ({from})")?;
    writeln!(out, "agents      {}", wanted.daemon_set.as_deref().unwrap_or("none"))?;
    writeln!(out, "leader      {}", visible(leader.as_deref().unwrap_or("unknown")))?;
    writeln!(out, "counts      {}", counts_line(counts))?;
    for node in nodes {
        if let Some(gap) = &node.gap {
            writeln!(out, "not proven  {}: {}: {}", node.name, visible(&gap.reason), visible(&gap.message))?;
        }
    }
    for node in nodes {
        if let Some(urls) = &node.said.extenders_unreachable {
            writeln!(out, "extenders   {}: cannot reach {}", node.name, visible(urls))?;
        }
    }
    let all = if *proven {
        "All schedulers are proven at what is wanted."
    } else {
        "Not all schedulers are proven at what is wanted."
    };
    writeln!(out, "\n{all}")
}

fn cells(node: &NodeRow, wanted: &Wanted) -> [String; TITLES.len()] {
    let said = &node.said;
    let text = |text: &Option<String>| visible(text.as_deref().unwrap_or(NOTHING));
    let digest = |digest: &Option<String>| digest.as_deref().map_or_else(|| NOTHING.to_owned(), short);
    let running = node.scheduler.as_ref().map(|running| {
        let revision = running.revision.as_deref().unwrap_or("unpatched");
        if running.ready { visible(revision) } else { format!("{} (not ready)", visible(revision)) }
    });
    let leader = match node.leader {
        Some(true) => "yes",
        Some(false) => "no",
        None => NOTHING,
    };
    let reason = node.gap.as_ref().map(|gap| gap.reason.clone()).or_else(|| said.reason.clone());
    [
        node.name.clone(),
        text(&said.platform),
        text(&said.scheduler_version),
        text(&said.phase),
        digest(&wanted.digest),
        digest(&said.verified_digest),
        text(&running),
        text(&said.since),
        leader.to_owned(),
        text(&reason),
    ]
}

fn table(out: &mut String, rows: &[[String; TITLES.len()]]) -> fmt::Result {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([TITLES[column].len()]).max().unwrap_or_default()
    };
    let widths: Vec<usize> = (0..TITLES.len()).map(width).collect();
    for row in std::iter::once(&TITLES.map(str::to_owned)).chain(rows) {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        writeln!(out, "{}", cells.collect::<Vec<_>>().join("  ").trim_end())?;
    }
    Ok(())
}

/// The counts in words.
pub(super) fn counts_line(Counts { control_planes, agents, schedulers, proven }: &Counts) -> String {
    let some = |number: &usize, noun: &str| format!("{number} {noun}{}", if *number == 1 { "" } else { "s" });
    format!(
        "{}, {}, {}; {proven} proven",
        some(control_planes, "control-plane node"),
        some(agents, "agent"),
        some(schedulers, "scheduler")
    )
}

/// Enough of a digest.
pub(super) fn short(digest: &str) -> String {
    visible(&digest.chars().take(SHORT).collect::<String>())
}
