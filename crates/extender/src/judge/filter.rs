//! Which nodes a threshold rules out.

use std::fmt::Write as _;

use crate::config::WhenAllExceed;
use crate::snapshot::Column;

/// How reasons begin: the scheduler writes them into the status of pods that wait.
pub const SIGNATURE: &str = "schedpatch-extender: ";
/// No column refuses the node.
pub const NONE: u8 = u8::MAX;

/// What the thresholds say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Refusals {
    /// By node: the column that refuses it, or [`NONE`]
    pub by: Vec<u8>,
    /// How many are refused
    pub count: usize,
    /// Columns that would have refused every node that was left, and therefore refused none
    pub waived: Vec<usize>,
}

impl Refusals {
    /// Whether a node passes.
    pub fn passes(&self, at: usize) -> bool {
        self.by.get(at).is_none_or(|by| *by == NONE)
    }

    /// The refused nodes, each with the number of the text that says which threshold it exceeds, and these texts. The scheduler
    /// counts nodes by their texts and writes each text into the pod's status, so that they must not differ from node to node.
    pub fn thresholds(&self, columns: &[Column<'_>], asked: &[u32]) -> (Vec<(usize, usize)>, Vec<String>) {
        let (mut nodes, mut texts) = (Vec::with_capacity(self.count), Vec::new());
        let mut known = vec![[None; 2]; columns.len()];
        for (at, by) in self.by.iter().enumerate().filter(|(_, by)| **by != NONE) {
            let Some((column, position)) = columns.get(usize::from(*by)).zip(asked.get(at)) else { continue };
            let policy = column.policy;
            let above = policy.avoid_above.filter(|most| column.value(*position) > *most);
            let number = known[usize::from(*by)][usize::from(above.is_some())].get_or_insert_with(|| {
                let limit = match (above, policy.avoid_below) {
                    (Some(most), _) => format!(" above {most}"),
                    (None, Some(least)) => format!(" below {least}"),
                    (None, None) => String::new(),
                };
                texts.push(format!("{SIGNATURE}{}{limit}", policy.name));
                texts.len() - 1
            });
            nodes.push((at, *number));
        }
        (nodes, texts)
    }

    /// Why a node is refused, with its value, for people who ask.
    pub fn reason(&self, columns: &[Column<'_>], asked: &[u32], at: usize) -> Option<String> {
        let column = columns.get(usize::from(*self.by.get(at)?))?;
        let (policy, value) = (column.policy, column.value(*asked.get(at)?));
        let mut text = format!("{SIGNATURE}{} is {}", policy.name, short(value));
        if let Some(most) = policy.avoid_above.filter(|most| value > *most) {
            let _ = write!(text, ", above {most}");
        } else if let Some(least) = policy.avoid_below {
            let _ = write!(text, ", below {least}");
        }
        Some(text)
    }
}

/// A number in few digits.
pub fn short(value: f64) -> String {
    if value.is_nan() {
        "-".to_owned()
    } else if value == 0.0 || (0.001..1e7).contains(&value.abs()) {
        let text = format!("{value:.4}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    } else {
        format!("{value:.3e}")
    }
}

/// Applies the thresholds in the order of the policies. A missing value passes.
pub fn refuse(columns: &[Column<'_>], asked: &[u32]) -> Refusals {
    let mut refusals = Refusals { by: vec![NONE; asked.len()], ..Refusals::default() };
    for (number, column) in columns.iter().enumerate().filter(|(_, column)| column.policy.refuses()) {
        let exceeds = |at: usize| column.policy.exceeds(column.value(asked[at]));
        let left = || (0..asked.len()).filter(|at| refusals.by[*at] == NONE);
        let (left_count, exceeding) = left().fold((0, 0), |(all, some), at| (all + 1, some + usize::from(exceeds(at))));
        if exceeding == 0 {
            continue;
        }
        if exceeding == left_count && column.policy.when_all_exceed == WhenAllExceed::Allow {
            refusals.waived.push(number);
            continue;
        }
        let number = u8::try_from(number).unwrap_or(NONE - 1);
        for at in 0..asked.len() {
            if refusals.by[at] == NONE && exceeds(at) {
                refusals.by[at] = number;
                refusals.count += 1;
            }
        }
    }
    refusals
}

#[cfg(test)]
mod tests {
    use std::borrow::Cow;

    use super::*;

    #[test]
    fn nodes_that_exceed_the_same_threshold_share_its_text() {
        let text = "prometheus: {url: 'http://p'}\npolicies:\n- {name: a, query: q, prefer: lower, avoidAbove: 8, avoidBelow: 2}\n- {name: b, query: q, prefer: lower, avoidAbove: 5}\n";
        let config = crate::config::parse("test.yaml".as_ref(), text).expect("valid");
        let values = [[9.0, 1.0, 3.0, 9.0, 3.0], [0.0, 0.0, 6.0, 0.0, 0.0]];
        let columns =
            [0, 1].map(|n| Column { number: n, policy: &config.policies[n], values: Cow::Borrowed(&values[n][..]) });
        let asked = [0, 1, 2, 3, 4];
        let (nodes, texts) = refuse(&columns, &asked).thresholds(&columns, &asked);
        assert_eq!(
            texts,
            ["schedpatch-extender: a above 8", "schedpatch-extender: a below 2", "schedpatch-extender: b above 5"]
        );
        assert_eq!(nodes, [(0, 0), (1, 1), (2, 2), (3, 0)]);
    }
}
