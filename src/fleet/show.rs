//! All nodes for people: one table, then what lacks. Pure.

use std::fmt::{self, Write as _};

use super::table::{Columns, NOTHING, table};
use super::{Counts, Fleet, NodeRow, Wanted};
use crate::plan::visible;
use crate::timestamp::Timestamp;

/// All columns; those that everybody needs come first.
const ALL: [&str; 14] = [
    "NODE",
    "PHASE",
    "AGE",
    "VERIFIED",
    "RUNNING",
    "READY",
    "LEADER",
    "REASON",
    "WANTED",
    "GENERATION",
    "PLATFORM",
    "SCHEDULER",
    "SINCE",
    "IMAGE",
];
/// So many of them fit a terminal.
const FEW: usize = 8;
/// Enough of a digest to tell it from others.
const SHORT: usize = 12;

/// The table and what is below it; without the findings.
pub fn show(fleet: &Fleet, columns: Columns, now: Timestamp) -> String {
    let mut out = String::new();
    // writing to a String cannot fail
    let _ = write(&mut out, fleet, columns, now);
    out
}

fn write(out: &mut String, fleet: &Fleet, columns: Columns, now: Timestamp) -> fmt::Result {
    let Fleet { proven, wanted, counts, leader, nodes, .. } = fleet;
    if !nodes.is_empty() {
        let rows: Vec<_> = nodes.iter().map(|node| cells(node, wanted, now)).collect();
        let shown = match columns {
            Columns::All => table(ALL, &rows, columns),
            Columns::Few => table(first::<FEW, &str>(&ALL), &rows.iter().map(first).collect::<Vec<_>>(), columns),
        };
        writeln!(out, "{shown}")?;
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

/// What is shown of a node, in the order of `ALL`.
fn cells(node: &NodeRow, wanted: &Wanted, now: Timestamp) -> [String; ALL.len()] {
    let said = &node.said;
    let text = |text: &Option<String>| visible(text.as_deref().unwrap_or(NOTHING));
    let digest = |digest: &Option<String>| digest.as_deref().map_or_else(|| NOTHING.to_owned(), short);
    let scheduler = node.scheduler.as_ref();
    let running = scheduler.map(|running| running.revision.clone().unwrap_or_else(|| "unpatched".to_owned()));
    let reason = node.gap.as_ref().map(|gap| gap.reason.clone()).or_else(|| said.reason.clone());
    [
        node.name.clone(),
        text(&said.phase),
        age(said.since.as_deref(), now),
        digest(&said.verified_digest),
        text(&running),
        yes_or_no(scheduler.map(|running| running.ready)),
        yes_or_no(node.leader),
        text(&reason),
        digest(&wanted.digest),
        text(&said.generation),
        text(&said.platform),
        text(&said.scheduler_version),
        text(&said.since),
        text(&said.scheduler_image),
    ]
}

/// The first columns of a row.
fn first<const N: usize, T: Clone>(row: &[T; ALL.len()]) -> [T; N] {
    std::array::from_fn(|column| row[column].clone())
}

fn yes_or_no(answer: Option<bool>) -> String {
    match answer {
        Some(true) => "yes",
        Some(false) => "no",
        None => NOTHING,
    }
    .to_owned()
}

/// How long something is so, as kubectl shows ages.
pub fn age(since: Option<&str>, now: Timestamp) -> String {
    let since = since.and_then(|since| Timestamp::try_from(since.to_owned()).ok());
    since.map_or_else(|| NOTHING.to_owned(), |since| since.age(now))
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
