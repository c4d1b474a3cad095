//! An earlier text of ours, for one more commit: only what tells commits apart changes.

use yaml_edit::{Kind, Node, Op, Path, Tree, Value, path, write_scalar};

use super::edit::{Draft, new_uid};
use super::pod::{self, GENERATION, Manifest, ROLLED_BACK_FROM, UNDO};
use super::{refuse, restore};
use crate::target::refusal::{Refusal, Rule};

const UID: &str = "/metadata/uid";

/// Drafts the same edit under another generation, and another uid where the manifest fixes one.
pub fn recommit(text: &str, generation: u64) -> Result<Draft<'_>, Refusal> {
    Manifest::read(text)?.recommit(generation, None)
}

impl<'a> Manifest<'a> {
    /// Drafts the same edit under another generation, and another uid where the manifest fixes one.
    pub fn recommit(&self, generation: u64, rolled_back_from: Option<&str>) -> Result<Draft<'a>, Refusal> {
        let Self(tree) = self;
        let Some(ours) = pod::ours(tree) else {
            return Err(Refusal::new(Rule::UndoRecord, "the text carries no edit of schedpatch"));
        };
        let mut ops = vec![set(tree, annotation(GENERATION), &generation.to_string())?];
        let mut undo = restore::record(tree)?;
        if undo.placed.contains_key(UID) {
            let original = self.unpatch()?.prove()?;
            let original = refuse::read_tree(&original)?;
            let old = original.root.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Node::text);
            let uid = new_uid(old.unwrap_or_default(), &ours.revision, generation);
            ops.push(set(tree, path!["metadata", "uid"], &uid)?);
            undo.placed.insert(UID.to_owned(), uid);
            ops.push(set(tree, annotation(UNDO), &undo.to_line())?);
        }
        ops.extend(failed_before(tree, rolled_back_from)?);
        Draft::new(tree, ops)
    }
}

/// Says from which revision the text comes back, or says so no longer.
fn failed_before(tree: &Tree<'_>, rolled_back_from: Option<&str>) -> Result<Option<Op>, Refusal> {
    let at = annotation(ROLLED_BACK_FROM);
    Ok(match (tree.at(&at).is_some(), rolled_back_from) {
        (true, Some(revision)) => Some(set(tree, at, revision)?),
        (true, None) => Some(Op::Remove { leaves: tree.leaves(&at[..at.len() - 1]), at }),
        (false, Some(revision)) => {
            let entries = vec![(ROLLED_BACK_FROM.to_owned(), Value::Quoted(revision.to_owned()))];
            Some(Op::Add { map: path!["metadata", "annotations"], entries })
        }
        (false, None) => None,
    })
}

fn annotation(key: &str) -> Path {
    path!["metadata", "annotations", key]
}

fn set(tree: &Tree<'_>, at: Path, value: &str) -> Result<Op, Refusal> {
    match tree.at(&at).map(|node| &node.kind) {
        Some(Kind::Scalar { style, .. }) => Ok(Op::Set { text: write_scalar(value, *style), at }),
        _ => Err(Refusal::new(Rule::Shape, "our own marks are not written as plain values")),
    }
}
