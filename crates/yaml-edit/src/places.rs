//! Looking things up in a YAML text that is not edited: bare words, values, and the lines of places.

use std::collections::HashMap;
use std::collections::hash_map::{DefaultHasher, Entry};
use std::hash::{Hash as _, Hasher as _};

use granit_parser::ScalarStyle;
use serde_yaml::Value;

use super::error::Error;
use super::guard;
use super::tree::{Kind, Node, Segment, Tree};
use super::values::values;

/// What one reading of a text shows.
#[derive(Debug)]
pub struct Survey {
    /// The first bare word for which the question holds, and its line
    pub bare: Option<(String, usize)>,
    /// Its values, if it is plainly written; else `serde_yaml` must be asked
    pub values: Option<Value>,
}

/// Reads a text of exactly one document. A refusal says why no other reader should get to see it either: no YAML, too
/// deep, keys or documents twice, aliases that multiply.
pub fn survey(text: &str, question: fn(&str) -> bool) -> Result<Survey, Error> {
    let tree = Tree::read_uncommented(text).map_err(|refusal| guard::explain_unreadable(text, refusal))?;
    Ok(Survey { bare: find_bare(&tree, question), values: values(tree) })
}

fn find_bare(tree: &Tree<'_>, question: fn(&str) -> bool) -> Option<(String, usize)> {
    let mut pending = vec![&tree.root];
    while let Some(node) = pending.pop() {
        match &node.kind {
            Kind::Scalar { value, style: ScalarStyle::Plain }
                if !node.decorated && !node.is_unwritten() && question(value) =>
            {
                return Some((value.to_string(), tree.line(node.span.start)));
            }
            Kind::Scalar { .. } | Kind::Alias => {}
            Kind::List(items) => pending.extend(items.iter().rev()),
            Kind::Map(entries) => pending.extend(entries.iter().rev().flat_map(|entry| [&entry.value, &entry.key])),
        }
    }
    None
}

/// The lines of the places in a YAML text. Places are kept as hashes: a path of its own for every value would take
/// many times the memory of the text, and a wrong line in one of 2^64 cases harms nobody.
#[derive(Clone, Debug, Default)]
pub struct Lines(HashMap<u64, u32>);

impl Lines {
    /// The line of a place, from 1.
    pub fn get(&self, place: &[Segment]) -> Option<usize> {
        let line = self.0.get(&place.iter().fold(ROOT, below));
        line.and_then(|line| usize::try_from(*line).ok())
    }
}

/// The hash of the whole document's place.
const ROOT: u64 = 0;

/// The hash of a place directly below another one.
fn below(parent: u64, seg: &Segment) -> u64 {
    let mut hasher = DefaultHasher::new();
    (parent, seg).hash(&mut hasher);
    hasher.finish()
}

/// The line of every place in a YAML text: for a key its own line, not that of its value.
pub fn lines_of_places(text: &str) -> Lines {
    let mut lines = HashMap::new();
    let Ok(tree) = Tree::read_uncommented(text) else { return Lines(lines) };
    let (mut line, mut counted) = (1, 0);
    let mut pending: Vec<(u64, &Node<'_>)> = vec![(ROOT, &tree.root)];
    while let Some((place, node)) = pending.pop() {
        for (index, item) in node.items().iter().enumerate().rev() {
            pending.push((below(place, &Segment::Index(index)), item));
        }
        for entry in node.entries().iter().rev() {
            let child = below(place, &Segment::Key(entry.key.text().unwrap_or_default().to_owned()));
            pending.push((child, &entry.value));
            pending.push((child, &entry.key));
        }
        // the key comes before its value and has the same place: it is the one that counts
        if let Entry::Vacant(place) = lines.entry(place) {
            let start = node.span.start.max(counted);
            line += text[counted..start].matches('\n').count();
            counted = start;
            place.insert(u32::try_from(line).unwrap_or(u32::MAX));
        }
    }
    Lines(lines)
}
