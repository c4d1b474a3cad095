//! Taking our edit out of a manifest that may have been edited by others since.

use yaml_edit::{Node, Op, Path, Segment, Splice, Tree};

use super::edit::Draft;
use super::pod::{GENERATION, REVISION, ROLLED_BACK_FROM, UNDO, annotation};
use super::undo_record::{Undo, resolve};
use crate::target::refusal::{Refusal, Rule};

const ANNOTATIONS: &str = "/metadata/annotations";

/// Drafts the text without our edit, by the record that the manifest carries.
pub(super) fn draft<'a>(tree: &Tree<'a>) -> Result<Draft<'a>, Refusal> {
    let undo = record(tree)?;
    let mut restore = Restore { tree, undo: &undo, ops: Vec::new(), splices: Vec::new(), gone: Vec::new() };
    restore.put_values_back()?;
    restore.take_children_out()?;
    restore.settle_collections()?;
    restore.spare_comments()?;
    Ok(Draft(yaml_edit::Draft::from_splices(tree, restore.ops, restore.splices)?))
}

/// The record of our edit.
pub(super) fn record(tree: &Tree<'_>) -> Result<Undo, Refusal> {
    let Some(node) = annotation(tree, UNDO) else {
        return Err(Refusal::new(Rule::UndoRecord, format!("the annotation {UNDO} is missing beside our others")));
    };
    Undo::from_line(node.text().unwrap_or_default()).map_err(|why| {
        let message = format!("the annotation {UNDO} cannot be read: {why}");
        Refusal::at_line(Rule::UndoRecord, tree.line(node.span.start), message)
    })
}

struct Restore<'t, 'a> {
    tree: &'t Tree<'a>,
    undo: &'t Undo,
    ops: Vec<Op>,
    splices: Vec<Splice>,
    /// Entries and items that go
    gone: Vec<Path>,
}

impl Restore<'_, '_> {
    /// Where a recorded place is now.
    fn find(&self, at: &str) -> Option<Path> {
        resolve(self.tree, at, self.undo.placed.get(at).map(String::as_str))
    }

    /// Whether the value that we wrote is still there.
    fn is_still_ours(&self, at: &str, path: &Path) -> bool {
        let value = self.tree.at(path).and_then(Node::text);
        value.is_some() && value == self.undo.placed.get(at).map(String::as_str)
    }

    /// What we displaced comes back where our value is still in place; what others wrote since stays.
    fn put_values_back(&mut self) -> Result<(), Refusal> {
        for (at, text) in &self.undo.displaced {
            let Some(path) = self.find(at).filter(|path| self.is_still_ours(at, path)) else { continue };
            let mut range = self.tree.one_line_scalar(&path)?;
            if is_null_text(text) {
                range.start = self.tree.past_colon(&path).unwrap_or(range.start);
            }
            self.splices.push(Splice::replace(range, text.clone()));
            self.ops.push(Op::Set { at: path, text: text.clone() });
        }
        Ok(())
    }

    /// Our annotations, the values that we added and that are still ours, and the items that have our names go.
    fn take_children_out(&mut self) -> Result<(), Refusal> {
        let annotations = self.find(ANNOTATIONS);
        for key in [REVISION, GENERATION, UNDO, ROLLED_BACK_FROM] {
            let path = annotations.iter().cloned().map(|mut path| {
                path.push(Segment::Key(key.to_owned()));
                path
            });
            self.gone.extend(path.filter(|path| self.tree.at(path).is_some()));
        }
        for at in &self.undo.created {
            let Some(path) = self.find(at) else { continue };
            let is_named_item = matches!(path.last(), Some(Segment::Index(_))) && !self.undo.placed.contains_key(at);
            if is_named_item {
                self.is_as_we_wrote_it(&path)?;
            }
            if is_named_item || self.is_still_ours(at, &path) {
                self.gone.push(path);
            }
        }
        // of several items of one list the last goes first, so that the others keep their places
        self.gone.sort_by_key(|path| {
            std::cmp::Reverse(if let Some(Segment::Index(index)) = path.last() { *index } else { 0 })
        });
        let mut parents: Vec<&[Segment]> = Vec::new();
        for path in &self.gone {
            let parent = &path[..path.len() - 1];
            if !parents.contains(&parent) {
                parents.push(parent);
            }
        }
        for parent in parents {
            let children = self.gone.iter().filter(|path| path.len() == parent.len() + 1 && path.starts_with(parent));
            let children: Vec<&Segment> = children.filter_map(|path| path.last()).collect();
            self.splices.extend(self.tree.cut_children(parent, &children)?);
        }
        for path in &self.gone {
            let leaves = self.tree.leaves(&path[..path.len() - 1]);
            self.ops.push(Op::Remove { at: path.clone(), leaves });
        }
        Ok(())
    }

    /// Somebody may have added to a volume or mount of ours: that is not ours to take out.
    fn is_as_we_wrote_it(&self, path: &Path) -> Result<(), Refusal> {
        let Some(node) = self.tree.at(path) else { return Ok(()) };
        let only = |node: &Node<'_>, known: &[&str]| {
            node.entries().iter().all(|entry| entry.key.text().is_some_and(|key| known.contains(&key)))
        };
        let host_path = node.get("hostPath").is_none_or(|host_path| only(host_path, &["path", "type"]));
        if host_path && only(node, &["hostPath", "name", "mountPath", "readOnly"]) {
            return Ok(());
        }
        let message = "somebody has added to a volume or mount that schedpatch wrote";
        Err(Refusal::at_line(Rule::UndoRecord, self.tree.line(node.span.start), message))
    }

    /// A comment inside what goes is somebody's: where it cannot be kept, nothing is done.
    fn spare_comments(&self) -> Result<(), Refusal> {
        for splice in self.splices.iter().filter(|splice| splice.cut > 0) {
            let first = self.tree.comments.partition_point(|comment| comment.start < splice.at);
            let inside =
                self.tree.comments[first..].iter().take_while(|comment| comment.start < splice.at + splice.cut);
            for comment in inside {
                if !splice.put.contains(self.tree.text[comment.clone()].trim_end()) {
                    let message = "a comment is inside the lines that must be removed, and would be lost";
                    return Err(Refusal::at_line(Rule::Shape, self.tree.line(comment.start), message));
                }
            }
        }
        Ok(())
    }

    /// A collection that we made goes when nothing is left in it; one that was null becomes null again.
    fn settle_collections(&mut self) -> Result<(), Refusal> {
        let created = self.undo.created.iter().map(|at| (at, None));
        let displaced = self.undo.displaced.iter().map(|(at, text)| (at, Some(text)));
        for (at, text) in created.chain(displaced) {
            let Some(path) = self.find(at).filter(|path| self.is_emptied(path)) else { continue };
            let Some(text) = text else {
                self.splices.push(self.tree.cut_key(&path)?);
                let leaves = self.tree.leaves(&path[..path.len() - 1]);
                self.ops.push(Op::Remove { at: path, leaves });
                continue;
            };
            let Some(colon) = self.tree.past_colon(&path) else { continue };
            let span = self.tree.at(&path).filter(|node| node.flow).map(|node| node.span.clone());
            if let Some(span) = span {
                // the children's own cuts lie inside this one
                self.splices.retain(|splice| splice.at < span.start || splice.at >= span.end);
                self.splices.push(Splice::replace(colon..span.end, text.clone()));
                self.ops.push(Op::Set { at: path, text: text.clone() });
            } else {
                self.splices.push(Splice::insert(colon, text.clone(), 0));
            }
        }
        Ok(())
    }

    /// Whether it is a collection of which every child goes.
    fn is_emptied(&self, path: &Path) -> bool {
        let children = self.tree.at(path).map_or(0, |node| node.entries().len() + node.items().len());
        let going = self.gone.iter().filter(|gone| gone.len() == path.len() + 1 && gone.starts_with(path)).count();
        children > 0 && children == going
    }
}

/// A displaced null is recorded with the blanks after its colon; a displaced value never begins with a blank.
fn is_null_text(text: &str) -> bool {
    text.is_empty() || text.starts_with([' ', '\t'])
}
