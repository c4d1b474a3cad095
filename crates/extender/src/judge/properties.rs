//! What holds for all policies, values and nodes, tried on many random ones.

use std::borrow::Cow;
use std::fmt::Write as _;

use super::*;
use crate::config::{Config, Prefer, WhenAllExceed, parse};
use crate::snapshot::{Column, UNKNOWN};

const CASES: usize = 3000;

/// A small generator: the same cases each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: u64) -> u64 {
        self.next() % end
    }

    fn is_one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }

    fn value(&mut self) -> f64 {
        let small = f64::from(u32::try_from(self.below(2001)).expect("small")) / 1000.0 - 1.0;
        match self.below(12) {
            0 => f64::NAN,
            1 => small * 1e300,
            2 => 0.0,
            3 => small * f64::MAX,
            4 => -0.0,
            5 => f64::from_bits(self.below(3)),
            _ => small,
        }
    }
}

struct Case {
    config: Config,
    values: Vec<Vec<f64>>,
    asked: Vec<u32>,
}

impl Case {
    fn new(random: &mut Random) -> Self {
        let mut text = "prometheus: {url: 'http://p'}\npolicies:\n".to_owned();
        let policies = 1 + random.below(5);
        for number in 0..policies {
            let prefer = if random.is_one_in(2) { "lower" } else { "higher" };
            let _ = write!(text, "- {{name: p{number}, query: q, prefer: {prefer}, weight: {}", 1 + random.below(4));
            if random.is_one_in(2) {
                text.push_str(", range: {from: -0.5, to: 0.75}");
            }
            if random.is_one_in(2) {
                text.push_str(", avoidAbove: 0.5");
            }
            if random.is_one_in(3) {
                text.push_str(", avoidBelow: -0.5");
            }
            if random.is_one_in(2) {
                text.push_str(", whenAllExceed: reject");
            }
            text.push_str("}\n");
        }
        let config = parse("random.yaml".as_ref(), &text).expect("it is valid");
        let nodes = random.below(40);
        let values = (0..policies).map(|_| (0..nodes).map(|_| random.value()).collect()).collect();
        let mut asked: Vec<u32> = (0..u32::try_from(nodes).expect("small")).filter(|_| !random.is_one_in(5)).collect();
        if random.is_one_in(3) {
            asked.push(UNKNOWN);
        }
        Self { config, values, asked }
    }

    fn columns(&self) -> Vec<Column<'_>> {
        let both = self.config.policies.iter().zip(&self.values).enumerate();
        both.map(|(number, (policy, values))| Column { number, policy, values: Cow::Borrowed(values) }).collect()
    }
}

fn cases(mut check: impl FnMut(&mut Random, Case)) {
    let mut random = Random(0x5eed_5eed_5eed_5eed);
    for _ in 0..CASES {
        let case = Case::new(&mut random);
        check(&mut random, case);
    }
}

#[test]
fn points_are_from_0_to_10_and_totals_are_numbers() {
    cases(|_, case| {
        let scores = score(&case.columns(), &case.asked, None, 0.1);
        assert_eq!(scores.points.len(), case.asked.len());
        assert!(scores.points.iter().all(|points| *points <= 10));
        assert!(scores.totals.iter().all(|total| (0.0..=1.0).contains(total)), "{:?}", scores.totals);
    });
}

#[test]
fn the_order_of_the_nodes_does_not_matter() {
    cases(|random, case| {
        let mut order: Vec<usize> = (0..case.asked.len()).collect();
        order.sort_by_cached_key(|_| random.next());
        let shuffled: Vec<u32> = order.iter().map(|at| case.asked[*at]).collect();
        let (one, other) =
            (score(&case.columns(), &case.asked, None, 0.1), score(&case.columns(), &shuffled, None, 0.1));
        let (mine, theirs) = (refuse(&case.columns(), &case.asked), refuse(&case.columns(), &shuffled));
        for (at, from) in order.iter().enumerate() {
            assert!(one.points[*from].abs_diff(other.points[at]) <= 1, "sums differ by rounding at most");
            assert_eq!(mine.by[*from], theirs.by[at]);
        }
    });
}

#[test]
fn a_better_value_never_costs_points_in_comparison() {
    cases(|_, case| {
        // of two nodes where one is at least as good in every policy, it has at least as many points
        let (columns, scores) = (case.columns(), score(&case.columns(), &case.asked, None, 0.1));
        for (a, first) in case.asked.iter().enumerate() {
            for (b, second) in case.asked.iter().enumerate() {
                let is_as_good = columns.iter().all(|column| {
                    let (first, second) = (column.value(*first), column.value(*second));
                    match column.policy.prefer {
                        Prefer::Lower => first <= second,
                        Prefer::Higher => first >= second,
                    }
                });
                assert!(!is_as_good || scores.points[a] >= scores.points[b]);
            }
        }
    });
}

#[test]
fn a_node_without_values_is_neither_the_best_nor_the_worst() {
    cases(|_, case| {
        let asked: Vec<u32> = case.asked.iter().copied().filter(|at| *at != UNKNOWN).chain([UNKNOWN]).collect();
        let scores = score(&case.columns(), &asked, None, 0.1);
        let (known, own) = scores.totals.split_at(asked.len() - 1);
        if let (Some(least), Some(most)) =
            (known.iter().copied().reduce(f64::min), known.iter().copied().reduce(f64::max))
        {
            assert!(own[0] >= least - 1e-9 && own[0] <= most + 1e-9, "{} is not from {least} to {most}", own[0]);
        }
    });
}

#[test]
fn nobody_is_refused_without_a_value_and_nobody_who_keeps_within_the_thresholds() {
    cases(|_, case| {
        let (columns, refusals) = (case.columns(), refuse(&case.columns(), &case.asked));
        for (at, position) in case.asked.iter().enumerate() {
            let is_over = columns.iter().any(|column| column.policy.exceeds(column.value(*position)));
            assert!(refusals.passes(at) || is_over);
            assert_eq!(refusals.passes(at), refusals.reason(&columns, &case.asked, at).is_none());
        }
        assert_eq!(refusals.count, (0..case.asked.len()).filter(|at| !refusals.passes(*at)).count());
    });
}

#[test]
fn policies_that_allow_never_refuse_the_last_node() {
    cases(|_, mut case| {
        for policy in &mut case.config.policies {
            policy.when_all_exceed = WhenAllExceed::Allow;
        }
        let refusals = refuse(&case.columns(), &case.asked);
        assert!(case.asked.is_empty() || refusals.count < case.asked.len());
    });
}

#[test]
fn pods_that_were_just_bound_never_make_their_node_better() {
    cases(|random, case| {
        let mut penalties = vec![0.0; case.asked.len()];
        let Some(first) = penalties.first_mut() else { return };
        *first = 0.05 * f64::from(u32::try_from(1 + random.below(9)).expect("small"));
        let before = score(&case.columns(), &case.asked, None, 0.1);
        let after = score(&case.columns(), &case.asked, Some(&penalties), 0.1);
        let rank = |scores: &Scores| scores.totals.iter().filter(|other| **other > scores.totals[0]).count();
        assert!(rank(&after) >= rank(&before));
    });
}

/// Exact points, before they are rounded, from totals on their scale.
fn exact(scores: &Scores, before: &Scores) -> Vec<f64> {
    let ends = |scores: &Scores| {
        let least = scores.totals.iter().copied().fold(f64::INFINITY, f64::min);
        scores.totals.iter().copied().fold(f64::NEG_INFINITY, f64::max) - least
    };
    let scale = ends(scores).max(ends(before)).max(0.1);
    scores.totals.iter().map(|total| total / scale * 10.0).collect()
}

#[test]
fn pods_on_one_node_change_the_difference_of_no_other_pair_by_more_than_half() {
    cases(|random, case| {
        if case.asked.is_empty() {
            return;
        }
        let columns = case.columns();
        let chosen = usize::try_from(random.below(case.asked.len() as u64)).expect("small");
        let mut penalties = vec![0.0; case.asked.len()];
        penalties[chosen] = 0.05 * f64::from(u32::try_from(1 + random.below(200)).expect("small"));
        let before = score(&columns, &case.asked, None, 0.1);
        let after = score(&columns, &case.asked, Some(&penalties), 0.1);
        let (old, new) = (exact(&before, &before), exact(&after, &before));
        for a in (0..old.len()).filter(|at| *at != chosen) {
            for b in (0..old.len()).filter(|at| *at != chosen) {
                let (old, new) = (old[a] - old[b], new[a] - new[b]);
                assert!((new - old).abs() <= old.abs() / 2.0 + 1e-6, "from {old} to {new}");
                let points = f64::from(after.points[a]) - f64::from(after.points[b]);
                assert!((points - new).abs() <= 1.0 + 1e-6, "points are rounded, and nothing else: {points}, {new}");
            }
        }
    });
}

#[test]
fn what_pods_cost_every_node_changes_nothing() {
    cases(|random, case| {
        let mut penalties: Vec<f64> = {
            let some = |random: &mut Random| f64::from(u32::try_from(random.below(9)).expect("small")) * 0.05;
            case.asked.iter().map(|_| some(random)).collect()
        };
        let columns = case.columns();
        let one = score(&columns, &case.asked, Some(&penalties), 0.1);
        for penalty in &mut penalties {
            *penalty += 7.0;
        }
        let other = score(&columns, &case.asked, Some(&penalties), 0.1);
        for (one, other) in one.points.iter().zip(&other.points) {
            assert!(one.abs_diff(*other) <= 1, "they differ by rounding at most");
        }
    });
}

#[test]
fn a_hundred_fresh_pods_on_one_node_leave_the_policies_in_force_among_the_others() {
    let text =
        "prometheus: {url: 'http://p'}\npolicies:\n- {name: cpu, query: q, prefer: lower, range: {from: 0, to: 1}}\n";
    let config = parse("test.yaml".as_ref(), text).expect("it is valid");
    let columns = [Column { number: 0, policy: &config.policies[0], values: Cow::Borrowed(&[0.3, 0.2, 0.4, 0.25]) }];
    let scores = score(&columns, &[0, 1, 2, 3], Some(&[5.0, 0.0, 0.0, 0.0]), 0.1);
    assert_eq!(scores.points, [0, 10, 5, 9], "{:?}", scores.totals);
    let costs = scores.costs.iter().map(|cost| (cost * 100.0).round()).collect::<Vec<_>>();
    assert_eq!(costs, [30.0, 0.0, 0.0, 0.0], "no more than the spread below the worst");
}

#[test]
fn values_that_differ_by_less_than_any_number_are_the_same() {
    let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower}\n- {name: b, query: q, prefer: lower}\n";
    let config = parse("test.yaml".as_ref(), text).expect("it is valid");
    let values = [[0.0, f64::from_bits(1)], [0.0, 1.0]];
    let columns =
        [0, 1].map(|at| Column { number: at, policy: &config.policies[at], values: Cow::Borrowed(&values[at][..]) });
    let scores = score(&columns, &[0, 1], None, 0.1);
    assert_eq!(scores.points, [10, 0], "the other policy decides: {:?}", scores.totals);
}

#[test]
fn clear_differences_use_all_points_and_noise_does_not() {
    let text =
        "prometheus: {url: 'http://p'}\npolicies:\n- {name: cpu, query: q, prefer: lower, range: {from: 0, to: 1}}\n";
    let config = parse("test.yaml".as_ref(), text).expect("it is valid");
    let points = |values: &[f64]| {
        let asked: Vec<u32> = (0..u32::try_from(values.len()).expect("small")).collect();
        let columns = [Column { number: 0, policy: &config.policies[0], values: Cow::Borrowed(values) }];
        score(&columns, &asked, None, 0.1).points
    };
    assert_eq!(points(&[0.2, 0.8, 0.5]), [10, 0, 5]);
    assert_eq!(points(&[0.2, 0.3]), [10, 0], "a difference of minimumSpread is a clear one");
    assert_eq!(points(&[0.300, 0.301]), [5, 5], "a thousandth is noise");
    assert_eq!(points(&[0.9, 0.9, f64::NAN]), [5, 5, 5], "an exporter that is down does not win");
    assert_eq!(points(&[f64::NAN, f64::NAN]), [5, 5]);
    assert!(points(&[]).is_empty());
    assert_eq!(points(&[0.0, -0.0]), [5, 5]);
}
