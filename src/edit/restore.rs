//! Taking our edit out of a manifest that may have been edited by others since.

use super::draft::Draft;
use super::op::Op;
use super::pod::{GENERATION, REVISION, UNDO, annotation};
use super::refusal::{Refusal, Rule};
use super::splice::Splice;
use super::tree::{Node, Path, Seg, Tree, line_end, line_start};
use super::undo::{Undo, resolve};

const ANNOTATIONS: &str = "/metadata/annotations";

/// Drafts the text without our edit, by the record that the manifest carries.
pub(crate) fn draft<'a>(tree: &Tree<'a>) -> Result<Draft<'a>, Refusal> {
    let undo = record(tree)?;
    let mut ops = Vec::new();
    let mut splices = Vec::new();

    for (at, text) in &undo.displaced {
        if let Some(path) = resolve(tree, at).filter(|path| still_ours(tree, &undo, at, path)) {
            ops.push(Op::Set { at: path, text: text.clone() });
        }
    }
    let mut gone: Vec<Path> = Vec::new();
    for key in [REVISION, GENERATION, UNDO] {
        gone.extend(resolve(tree, ANNOTATIONS).map(|path| child(path, key)).filter(|path| tree.at(path).is_some()));
    }
    for at in &undo.created {
        gone.extend(resolve(tree, at).filter(|path| {
            let ours = tree.at(path).is_some_and(|node| node.text().is_some() || node.get("name").is_some());
            ours && still_ours_or_unnamed(tree, &undo, at, path)
        }));
    }
    // of several items of one list the last goes first, so that the others keep their places
    gone.sort_by_key(|path| std::cmp::Reverse(if let Some(Seg::Index(index)) = path.last() { *index } else { 0 }));
    for path in &gone {
        let parent = &path[..path.len().saturating_sub(1)];
        ops.push(Op::Remove { at: path.clone(), leaves: tree.leaves(parent) });
    }
    for op in &ops {
        splices.extend(tree.write(op)?);
    }
    for at in collections(&undo) {
        let Some(path) = resolve(tree, at).filter(|path| is_emptied(tree, path, &gone)) else { continue };
        if undo.created.iter().any(|created| created == at) {
            splices.push(cut_key(tree, &path)?);
            ops.push(Op::Remove { at: path.clone(), leaves: tree.leaves(&path[..path.len() - 1]) });
        } else if let (Some(text), Some(colon)) = (undo.displaced.get(at), tree.past_colon(&path)) {
            let node = tree.at(&path).filter(|node| node.flow);
            if let Some(span) = node.map(|node| node.span.clone()) {
                // the children's own cuts lie inside this one
                splices.retain(|splice| splice.at < span.start || splice.at >= span.end);
                splices.push(Splice::replace(colon..span.end, text.clone()));
                ops.push(Op::Set { at: path.clone(), text: text.clone() });
            } else {
                splices.push(Splice::insert(colon, text.clone(), 0));
            }
        }
    }
    Draft::from_splices(tree, ops, splices)
}

fn record(tree: &Tree<'_>) -> Result<Undo, Refusal> {
    let Some(node) = annotation(tree, UNDO) else {
        return Err(Refusal::new(Rule::UndoRecord, format!("the annotation {UNDO} is missing beside our others")));
    };
    Undo::from_line(node.text().unwrap_or_default()).map_err(|why| {
        Refusal::at_line(
            Rule::UndoRecord,
            tree.line(node.span.start),
            format!("the annotation {UNDO} cannot be read: {why}"),
        )
    })
}

fn child(mut path: Path, key: &str) -> Path {
    path.push(Seg::Key(key.to_owned()));
    path
}

/// Whether the value that we wrote still stands there.
fn still_ours(tree: &Tree<'_>, undo: &Undo, at: &str, path: &Path) -> bool {
    let value = tree.at(path).and_then(Node::text);
    value.is_some() && value == undo.placed.get(at).map(String::as_str)
}

/// A scalar must still be ours; an item that has our name is.
fn still_ours_or_unnamed(tree: &Tree<'_>, undo: &Undo, at: &str, path: &Path) -> bool {
    !undo.placed.contains_key(at) || still_ours(tree, undo, at, path)
}

/// The collections that the record names: those we made, and those that were null.
fn collections(undo: &Undo) -> impl Iterator<Item = &str> {
    let names = [ANNOTATIONS, "/volumes", "/volumeMounts"];
    undo.created
        .iter()
        .chain(undo.displaced.keys())
        .map(String::as_str)
        .filter(move |at| names.iter().any(|name| at.ends_with(name)))
}

/// Whether every child of the collection goes.
fn is_emptied(tree: &Tree<'_>, path: &Path, gone: &[Path]) -> bool {
    let Some(node) = tree.at(path) else { return false };
    let children = node.entries().len() + node.items().len();
    let going = gone.iter().filter(|gone| gone.len() == path.len() + 1 && gone.starts_with(path)).count();
    children > 0 && children == going
}

/// Cuts the line of a key whose children are cut already; a comment that somebody put between them stays.
fn cut_key(tree: &Tree<'_>, path: &Path) -> Result<Splice, Refusal> {
    let colon = tree.past_colon(path).unwrap_or_default();
    let start = line_start(tree.text, colon);
    let end = line_end(tree.text, colon);
    let alone =
        tree.text[colon..end].trim().is_empty() && tree.text[start..].trim_start().starts_with(|c: char| c != '-');
    if tree.at(path).is_some_and(|node| !node.flow) && alone {
        return Ok(Splice::delete(start..end));
    }
    let op = Op::Remove { at: path.clone(), leaves: tree.leaves(path) };
    tree.write(&op)?.into_iter().next().ok_or_else(|| Refusal::new(Rule::Unproven, "nothing to cut"))
}
