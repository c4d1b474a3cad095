//! Findings of one file, as many as a person reads: a file can be wrong in a hundred thousand places.

use std::collections::BTreeMap;

use crate::finding::Finding;

/// So many findings of one rule are kept for each file.
const MOST: usize = 100;

/// A list of findings that does not grow with what was found.
#[derive(Debug, Default)]
pub(super) struct Capped {
    findings: Vec<Finding>,
    /// How many were found by rule
    counts: BTreeMap<&'static str, usize>,
    /// One of each rule that was left out
    left_out: BTreeMap<&'static str, Finding>,
}

impl Capped {
    pub fn push(&mut self, finding: Finding) {
        let count = self.counts.entry(finding.rule).or_default();
        *count += 1;
        if *count <= MOST {
            self.findings.push(finding);
        } else {
            self.left_out.entry(finding.rule).or_insert(finding);
        }
    }

    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }

    /// All that were kept, and for each rule how many were not.
    pub fn into_vec(mut self) -> Vec<Finding> {
        for (rule, first) in self.left_out {
            let more = self.counts.get(rule).map_or(0, |count| count - MOST);
            let message =
                format!("{more} more findings of this rule are not listed, the first of them: {}", first.message);
            self.findings.push(Finding { message, ..first });
        }
        self.findings
    }
}
