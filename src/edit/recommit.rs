//! An earlier text of ours, for one more commit: only what tells commits apart changes.

use super::draft::Draft;
use super::format;
use super::op::Op;
use super::pod::{self, GENERATION, UNDO};
use super::refusal::{Refusal, Rule};
use super::restore;
use super::static_pod::{new_uid, unpatch};
use super::tree::{Kind, Node, Path, Seg, Tree};

const UID: &str = "/metadata/uid";

/// Drafts the same edit under another generation, and another uid where the manifest fixes one.
pub fn recommit(text: &str, generation: u64) -> Result<Draft<'_>, Refusal> {
    let tree = pod::read_tree(text)?;
    let Some(ours) = pod::ours(&tree) else {
        return Err(Refusal::new(Rule::UndoRecord, "the text carries no edit of schedpatch"));
    };
    let mut ops = vec![set(&tree, annotation(GENERATION), &generation.to_string())?];
    let mut undo = restore::record(&tree)?;
    if undo.placed.contains_key(UID) {
        let original = unpatch(text)?.prove()?;
        let original = pod::read_tree(&original)?;
        let old = original.root.get("metadata").and_then(|metadata| metadata.get("uid")).and_then(Node::text);
        let uid = new_uid(old.unwrap_or_default(), &ours.revision, generation);
        ops.push(set(&tree, vec![Seg::Key("metadata".into()), Seg::Key("uid".into())], &uid)?);
        undo.placed.insert(UID.to_owned(), uid);
        ops.push(set(&tree, annotation(UNDO), &undo.to_line())?);
    }
    Draft::new(&tree, ops)
}

fn annotation(key: &str) -> Path {
    ["metadata", "annotations", key].map(|key| Seg::Key(key.to_owned())).to_vec()
}

fn set(tree: &Tree<'_>, at: Path, value: &str) -> Result<Op, Refusal> {
    match tree.at(&at).map(|node| &node.kind) {
        Some(Kind::Scalar { style, .. }) => Ok(Op::Set { text: format::scalar(value, *style), at }),
        _ => Err(Refusal::new(Rule::Shape, "our own marks are not written as plain values")),
    }
}
