//! Points from 0 to 10.
//!
//! 1. Each policy gives each node a score from 0 (worst) to 1 (best), on its range. A missing value gets the mean of the
//!    others: it neither helps nor hurts. A policy that knows none of the nodes does not count.
//! 2. The weighted mean of the policies is the node's total. What pods cost that were just bound there is subtracted from it:
//!    less what such pods cost every node that is asked for, at most 1, and no further than the spread below the worst mean,
//!    where the spread is the distance of the best mean from the worst, and at least `minimumSpread`.
//! 3. Totals are stretched over 0 to 10 around their middle. A difference below `minimumSpread` is not blown up to all ten
//!    points, since it may be noise. The scale is never shorter than the spread, nor, by the bound above, longer than twice
//!    the spread: what pods cost one node takes at most half of the difference of any two others, and adds nothing to it.

use crate::config::{Prefer, Range};
use crate::snapshot::Column;

/// What came out.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Scores {
    /// By node: 0 to 10
    pub points: Vec<u8>,
    /// By node: weighted mean from 0 to 1, less what recently bound pods cost
    pub totals: Vec<f64>,
    /// By node: what they cost; empty if there are no such pods
    pub costs: Vec<f64>,
    /// By column: how many nodes have no value
    pub missing: Vec<usize>,
}

/// Scores the nodes at these positions. `penalties` are in the same order.
pub fn score(columns: &[Column<'_>], asked: &[u32], penalties: Option<&[f64]>, minimum_spread: f64) -> Scores {
    let mut totals = vec![0.0; asked.len()];
    let mut units = vec![0.0; asked.len()];
    let mut missing = Vec::with_capacity(columns.len());
    let mut weights = 0.0;
    for column in columns {
        let known = unit_scores(column, asked, &mut units);
        missing.push(asked.len() - known);
        let weight = column.policy.weight;
        if known == 0 || weight <= 0.0 {
            continue;
        }
        weights += weight;
        for (total, unit) in totals.iter_mut().zip(&units) {
            *total += weight * unit;
        }
    }
    if weights > 0.0 {
        for total in &mut totals {
            *total /= weights;
        }
    } else {
        totals.fill(0.5);
    }
    let (least, most) = ends(&totals);
    let spread = (most - least).max(minimum_spread);
    // where nothing is known, nothing is said
    let costs = penalties.filter(|_| weights > 0.0).map(|penalties| take_off(&mut totals, penalties, least - spread));
    Scores { points: stretch(&totals, spread), totals, costs: costs.unwrap_or_default(), missing }
}

/// The smallest and the greatest.
fn ends(totals: &[f64]) -> (f64, f64) {
    let least = totals.iter().copied().fold(f64::INFINITY, f64::min);
    (least, totals.iter().copied().fold(f64::NEG_INFINITY, f64::max))
}

/// Subtracts what recently bound pods cost, down to `lowest`, and returns what that is for each node.
fn take_off(totals: &mut [f64], penalties: &[f64], lowest: f64) -> Vec<f64> {
    let (common, _) = ends(penalties);
    let both = totals.iter_mut().zip(penalties);
    let costs = both.map(|(total, penalty)| {
        let before = *total;
        *total = (before - (penalty - common).min(1.0)).max(lowest);
        before - *total
    });
    costs.collect()
}

/// Fills in a policy's score of each node, and returns how many have a value.
pub fn unit_scores(column: &Column<'_>, asked: &[u32], units: &mut [f64]) -> usize {
    let (mut least, mut most, mut known) = (f64::INFINITY, f64::NEG_INFINITY, 0_usize);
    for (unit, position) in units.iter_mut().zip(asked) {
        let value = column.value(*position);
        *unit = value;
        // a comparison with NaN is false, so that missing values change nothing
        if value < least {
            least = value;
        }
        if value > most {
            most = value;
        }
        known += usize::from(!value.is_nan());
    }
    if known == 0 {
        units.fill(0.5);
        return 0;
    }
    let (from, to) = match column.policy.range {
        Range::MinMax => (least, most),
        Range::Fixed { from, to } => (from, to),
    };
    let (worst, best) = match column.policy.prefer {
        Prefer::Lower => (to, from),
        Prefer::Higher => (from, to),
    };
    // halved, since the distance of two numbers may be greater than any number
    let width = best / 2.0 - worst / 2.0;
    if width == 0.0 {
        // all nodes have the same value, or values whose distance is smaller than any number
        units.fill(0.5);
        return known;
    }
    let mut sum = 0.0;
    for unit in units.iter_mut() {
        let score = ((*unit / 2.0 - worst / 2.0) / width).clamp(0.0, 1.0);
        *unit = score;
        if !score.is_nan() {
            sum += score;
        }
    }
    if known < asked.len() {
        let mean = sum / count(known);
        units.iter_mut().filter(|unit| unit.is_nan()).for_each(|unit| *unit = mean);
    }
    known
}

fn stretch(totals: &[f64], spread: f64) -> Vec<u8> {
    let (least, most) = ends(totals);
    let middle = f64::midpoint(least, most);
    let factor = 10.0 / (most - least).max(spread);
    totals.iter().map(|total| point(5.0 + (total - middle) * factor)).collect()
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is below 11 after the clamp")]
fn point(exact: f64) -> u8 {
    // rounded without a call of the mathematical library
    (exact.clamp(0.0, 10.0) + 0.5) as u8
}

#[expect(clippy::cast_precision_loss, reason = "numbers of nodes stay far below 2^52")]
fn count(number: usize) -> f64 {
    number as f64
}
