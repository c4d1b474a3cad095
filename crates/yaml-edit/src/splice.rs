//! Changes of a text as a set of cuts and insertions: everything outside them stays as it is, byte for byte.

use super::error::{Error, ErrorKind};

/// Cut `cut` bytes at `at` and put `put` there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Splice {
    /// Byte offset
    pub at: usize,
    /// Bytes that go
    pub cut: usize,
    /// Text that comes
    pub put: String,
    /// How deep in the document the change is: of two insertions at one place the deeper comes first
    pub depth: usize,
}

impl Splice {
    /// Text at a place.
    pub fn insert(at: usize, put: String, depth: usize) -> Self {
        Self { at, cut: 0, put, depth }
    }

    /// Text in place of a range.
    pub fn replace(range: std::ops::Range<usize>, put: String) -> Self {
        Self { at: range.start, cut: range.len(), put, depth: 0 }
    }

    /// A range less.
    pub fn delete(range: std::ops::Range<usize>) -> Self {
        Self::replace(range, String::new())
    }

    fn end(&self) -> usize {
        self.at + self.cut
    }
}

/// The text with all splices done.
pub fn apply(text: &str, mut splices: Vec<Splice>) -> Result<String, Error> {
    splices.sort_by(|a, b| a.at.cmp(&b.at).then(b.depth.cmp(&a.depth)));
    let splices = merge_cuts(text, splices)?;
    let grown: usize = splices.iter().map(|splice| splice.put.len()).sum();
    let mut out = String::with_capacity(text.len() + grown);
    let mut done = 0;
    for splice in &splices {
        out.push_str(&text[done..splice.at]);
        out.push_str(&splice.put);
        done = splice.end();
    }
    out.push_str(&text[done..]);
    Ok(out)
}

/// Joins cuts that touch, and lets a cut at the end of a text without final line break take the break before it.
fn merge_cuts(text: &str, splices: Vec<Splice>) -> Result<Vec<Splice>, Error> {
    let mut merged: Vec<Splice> = Vec::with_capacity(splices.len());
    for splice in splices {
        match merged.last_mut() {
            Some(last) if last.put.is_empty() && splice.put.is_empty() && splice.at <= last.end() => {
                last.cut = last.cut.max(splice.end() - last.at);
            }
            Some(last) if splice.at < last.end() => {
                return Err(Error::new(ErrorKind::Unproven, "two changes meet at one place"));
            }
            _ => merged.push(splice),
        }
    }
    if let Some(last) = merged.last_mut()
        && last.put.is_empty()
        && last.cut > 0
        && last.end() == text.len()
        && !text.ends_with('\n')
    {
        let before = &text[..last.at];
        let kept = before.strip_suffix('\n').map_or(before, |line| line.strip_suffix('\r').unwrap_or(line));
        last.cut += last.at - kept.len();
        last.at = kept.len();
    }
    Ok(merged)
}
