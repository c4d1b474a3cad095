//! Changes of a text as cuts and insertions: everything outside them stays as it is, byte for byte.

use std::ops::Range;

/// Put `put` in place of `range`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Splice {
    pub range: Range<usize>,
    pub put: Vec<u8>,
}

impl Splice {
    pub fn insert(at: usize, put: Vec<u8>) -> Self {
        Self { range: at..at, put }
    }

    pub fn delete(range: Range<usize>) -> Self {
        Self { range, put: Vec::new() }
    }
}

/// The text with all splices done; nothing if two of them overlap.
pub(crate) fn apply(text: &[u8], mut splices: Vec<Splice>) -> Option<Vec<u8>> {
    splices.sort_by_key(|splice| (splice.range.start, splice.range.end));
    let mut out = Vec::with_capacity(text.len() + splices.iter().map(|splice| splice.put.len()).sum::<usize>());
    let mut done = 0;
    for splice in &splices {
        out.extend_from_slice(text.get(done..splice.range.start)?);
        out.extend_from_slice(&splice.put);
        done = splice.range.end;
    }
    out.extend_from_slice(text.get(done..)?);
    Some(out)
}
