//! Why a node: a table of nodes and policies, and what the points mean beside the scheduler's own plugins. Pure.

use std::fmt::Write as _;

use schedpatch_service::cli::table;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::judge::{refuse, score, short, unit_scores};
use crate::misfit::{self, Misfits};
use crate::select::Choice;
use crate::snapshot::Snapshot;

/// The default plugins of kube-scheduler give a node at most this: 100 × the sum of their weights (3 + 2 + 2 + 2 + 1 + 1 + 1).
const DEFAULT_PLUGINS_MOST: u32 = 1200;
/// What the scheduler multiplies an extender's points with, beside its weight.
const PER_POINT: u32 = 10;

/// A policy in the head of the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Head {
    /// Name
    pub name: String,
    /// Weight
    pub weight: f64,
    /// Age of the values in seconds, if there are some
    pub age: Option<f64>,
    /// Whether they are too old to count
    pub is_stale: bool,
    /// Whether values of the pod's own workload are used where there are some
    pub is_for_workload: bool,
}

/// A node in the table.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Name
    pub node: String,
    /// By policy: value (NaN if missing) and score from 0 to 1
    pub cells: Vec<(f64, f64)>,
    /// What recently bound pods cost
    pub herd: f64,
    /// Weighted mean less that
    pub total: f64,
    /// Points
    pub points: u8,
    /// Why it is refused
    pub refusal: Option<String>,
}

/// The whole table.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    /// Policies that count
    pub heads: Vec<Head>,
    /// Nodes, best first
    pub rows: Vec<Row>,
    /// In words
    pub notes: Vec<String>,
}

/// Explains what these nodes get for a pod with these policies. `weight` is the one that the scheduler gives the extender.
pub fn explain(
    snapshot: &Snapshot,
    choice: &Choice,
    nodes: &[String],
    penalties: Option<&[f64]>,
    (weight, misfits): (u32, &Misfits),
    now: Instant,
) -> Explanation {
    let columns = snapshot.columns(choice, now);
    let asked: Vec<u32> = nodes.iter().map(|name| snapshot.index.position(name)).collect();
    let scores = score(&columns, &asked, penalties, snapshot.config.minimum_spread);
    let refusals = refuse(&columns, &asked);
    let units: Vec<Vec<f64>> = columns
        .iter()
        .map(|column| {
            let mut units = vec![0.0; asked.len()];
            unit_scores(column, &asked, &mut units);
            units
        })
        .collect();
    let heads = columns.iter().map(|column| {
        let values = &snapshot.values[column.number];
        Head {
            name: column.policy.name.clone(),
            weight: column.policy.weight,
            age: values.age(now).map(|age| age.as_secs_f64()),
            is_stale: values.is_stale(column.policy, now),
            is_for_workload: choice.key(column.number).is_some(),
        }
    });
    let row = |at: usize| Row {
        node: nodes[at].clone(),
        cells: columns.iter().zip(&units).map(|(column, units)| (column.value(asked[at]), units[at])).collect(),
        herd: scores.costs.get(at).copied().unwrap_or(0.0),
        total: scores.totals[at],
        points: scores.points[at],
        refusal: refusals.reason(&columns, &asked, at),
    };
    let mut rows: Vec<Row> = (0..nodes.len()).map(row).collect();
    rows.sort_by(|a, b| {
        let key = |row: &Row| (row.refusal.is_some(), std::cmp::Reverse(row.points));
        key(a).cmp(&key(b)).then_with(|| b.total.total_cmp(&a.total)).then_with(|| a.node.cmp(&b.node))
    });
    let mut remarks = vec![weight_note(weight)];
    for column in refusals.waived.iter().filter_map(|number| columns.get(*number)) {
        remarks.push(format!(
            "Every node exceeds the threshold of {}, so it refuses none (whenAllExceed: allow).",
            column.policy.name
        ));
    }
    if refusals.count == nodes.len() && !nodes.is_empty() {
        remarks.push("Every node is refused: the pod waits until a metric recovers.".to_owned());
    }
    if let Some(node) = nodes.first() {
        for at in misfits.find(snapshot, &columns, &asked, now) {
            let column = &columns[at];
            remarks.push(misfit::words(column.policy, &snapshot.values[column.number].report, node) + ".");
        }
    }
    if !choice.unknown.is_empty() {
        remarks.push(format!(
            "The pod's annotation names policies that the file does not have: {}.",
            choice.unknown.join(", ")
        ));
    }
    Explanation { heads: heads.collect(), rows, notes: remarks }
}

/// What the points are worth.
fn weight_note(weight: u32) -> String {
    let most = weight * PER_POINT * 10;
    let decides = if most > DEFAULT_PLUGINS_MOST {
        "so that 10 points against 0 outweigh all of them together"
    } else {
        "so that they can outweigh these points; give the extender a greater weight if it shall decide"
    };
    format!(
        "kube-scheduler adds points × {} (weight {weight} × {PER_POINT}) to the sum of its plugins: at most {most}. Its default plugins give at most {DEFAULT_PLUGINS_MOST} together, {decides}.",
        weight * PER_POINT
    )
}

impl Explanation {
    /// For machines.
    pub fn json(&self) -> Value {
        let number = |value: f64| if value.is_finite() { json!(value) } else { Value::Null };
        let heads = self.heads.iter().map(|head| {
            json!({ "name": head.name, "weight": head.weight, "ageSeconds": head.age, "stale": head.is_stale, "workload": head.is_for_workload })
        });
        let rows = self.rows.iter().map(|row| {
            let cells = row.cells.iter().map(|(value, unit)| json!({ "value": number(*value), "score": number(*unit) }));
            json!({ "node": row.node, "policies": cells.collect::<Vec<_>>(), "herd": row.herd, "total": row.total, "points": row.points, "refused": row.refusal })
        });
        json!({ "policies": heads.collect::<Vec<_>>(), "nodes": rows.collect::<Vec<_>>(), "notes": self.notes })
    }

    /// For people.
    pub fn text(&self) -> String {
        let mut head = vec!["NODE".to_owned()];
        head.extend(self.heads.iter().map(|policy| {
            let age = match policy.age {
                None => "no data".to_owned(),
                Some(age) if policy.is_stale => format!("stale, {age:.0}s"),
                Some(age) => format!("{age:.0}s"),
            };
            let workload = if policy.is_for_workload { ", workload" } else { "" };
            format!("{} ×{} ({age}{workload})", policy.name.to_uppercase(), short(policy.weight))
        }));
        head.extend(["HERD", "TOTAL", "POINTS", "REFUSED"].map(str::to_owned));
        let mut lines = vec![head];
        for row in &self.rows {
            let mut line = vec![row.node.clone()];
            line.extend(row.cells.iter().map(|(value, unit)| {
                if value.is_nan() { "- (neutral)".to_owned() } else { format!("{} → {unit:.2}", short(*value)) }
            }));
            line.push(if row.herd > 0.0 { format!("-{:.2}", row.herd) } else { "0".to_owned() });
            line.extend([format!("{:.2}", row.total), row.points.to_string()]);
            line.push(row.refusal.clone().unwrap_or_else(|| "-".to_owned()));
            lines.push(line);
        }
        let mut text = table(&lines);
        for note in &self.notes {
            let _ = write!(text, "\n{note}");
        }
        text.push('\n');
        text
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::config::parse;
    use crate::snapshot::Values;

    #[test]
    fn the_table_has_values_scores_points_and_what_they_are_worth() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: cpu, query: q, prefer: lower, range: {from: 0, to: 1}, avoidAbove: 0.9}\n";
        let mut snapshot = Snapshot::empty(Arc::new(parse("test.yaml".as_ref(), text).expect("valid")));
        let body = br#"{"status":"success","data":{"resultType":"vector","result":[{"metric":{"node":"a"},"value":[1,"0.25"]},{"metric":{"node":"b"},"value":[1,"0.95"]}]}}"#;
        let policy = &snapshot.config.policies[0];
        let values = Values::read(policy, &[body], &Arc::default(), &mut snapshot.index, Instant::now());
        snapshot.values = vec![Arc::new(values.expect("an answer"))];
        let nodes = ["b", "a", "new"].map(str::to_owned);
        let choice = Choice { mask: 1, ..Choice::default() };
        let explained =
            explain(&snapshot, &choice, &nodes, Some(&[0.0, 0.05, 0.0]), (5, &Misfits::default()), Instant::now());
        let said = explained.text();
        let lines: Vec<&str> = said.lines().collect();
        assert!(lines[0].starts_with("NODE") && lines[0].contains("CPU ×1 (0s)"), "{said}");
        assert!(lines[1].starts_with("a ") && lines[1].contains("0.25 → 0.75") && lines[1].contains("-0.05"), "{said}");
        assert!(lines[2].starts_with("new") && lines[2].contains("- (neutral)"), "{said}");
        assert!(lines[3].starts_with('b') && lines[3].ends_with("cpu is 0.95, above 0.9"), "{said}");
        assert!(said.contains("points × 50") && said.contains("at most 500") && said.contains("1200"), "{said}");
        assert_eq!(explained.json()["nodes"][1]["policies"][0]["value"], Value::Null);
    }
}
