//! Looking things up in a YAML text that is not edited: bare words, values, and the lines of places.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use granit_parser::ScalarStyle;
use serde_yaml::Value;

use super::refusal::Refusal;
use super::tree::{Kind, Node, Path, Seg, Tree};
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
pub fn survey(text: &str, question: fn(&str) -> bool) -> Result<Survey, Refusal> {
    let tree = Tree::read_uncommented(text)?;
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

/// The line of every place in a YAML text: for a key its own line, not that of its value.
pub(crate) fn lines_of_places(text: &str) -> HashMap<Path, usize> {
    let mut lines = HashMap::new();
    let Ok(tree) = Tree::read_uncommented(text) else { return lines };
    let (mut line, mut counted) = (1, 0);
    let mut pending: Vec<(Path, &Node<'_>)> = vec![(Path::new(), &tree.root)];
    while let Some((path, node)) = pending.pop() {
        let child = |seg: Seg| path.iter().cloned().chain([seg]).collect::<Path>();
        for (index, item) in node.items().iter().enumerate().rev() {
            pending.push((child(Seg::Index(index)), item));
        }
        for entry in node.entries().iter().rev() {
            let key = entry.key.text().unwrap_or_default().to_owned();
            pending.push((child(Seg::Key(key.clone())), &entry.value));
            pending.push((child(Seg::Key(key)), &entry.key));
        }
        // the key comes before its value and has the same path: it is the one that counts
        if let Entry::Vacant(place) = lines.entry(path) {
            let start = node.span.start.max(counted);
            line += text[counted..start].matches('\n').count();
            counted = start;
            place.insert(line);
        }
    }
    lines
}
