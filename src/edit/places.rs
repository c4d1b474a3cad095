//! Looking things up in a YAML text that is not edited: bare words, and the lines of places.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use granit_parser::ScalarStyle;

use super::refusal::{Refusal, Rule};
use super::tree::{Kind, Node, Path, Seg, Tree};

/// The first bare word for which `is` holds, and its line; or why the text should not be given to another reader: no
/// YAML, too deep, keys or documents twice, aliases that multiply.
pub(crate) fn find_bare(text: &str, is: fn(&str) -> bool) -> Result<Option<(String, usize)>, Refusal> {
    let tree = match Tree::read(text) {
        Ok(tree) => tree,
        Err(Refusal { rule: Rule::NotAPod, .. }) => return Ok(None),
        Err(refusal) => return Err(refusal),
    };
    let mut pending = vec![&tree.root];
    while let Some(node) = pending.pop() {
        match &node.kind {
            Kind::Scalar { value, style: ScalarStyle::Plain }
                if !node.decorated && !node.is_unwritten() && is(value) =>
            {
                return Ok(Some((value.to_string(), tree.line(node.span.start))));
            }
            Kind::Scalar { .. } | Kind::Alias => {}
            Kind::List(items) => pending.extend(items.iter().rev()),
            Kind::Map(entries) => pending.extend(entries.iter().rev().flat_map(|entry| [&entry.value, &entry.key])),
        }
    }
    Ok(None)
}

/// The line of every place in a YAML text: for a key its own line, not that of its value.
pub(crate) fn lines_of_places(text: &str) -> HashMap<Path, usize> {
    let mut lines = HashMap::new();
    let Ok(tree) = Tree::read(text) else { return lines };
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
