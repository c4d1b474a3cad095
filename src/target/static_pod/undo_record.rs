//! The record in the manifest that says how to take our edit out again, without any state file.
//!
//! One line of JSON in the annotation `schedpatch.io/undo`. Paths are like JSON pointers, but children of lists go by
//! their name (`kube-scheduler`) or flag (`--config`), so that they still hold after somebody else has edited the file.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use yaml_edit::{Kind, Node, Path, Segment, Tree};

use crate::target::flags;

/// The format that this program writes and reads.
const VERSION: u32 = 1;

/// The last segment of the path to the word that names the scheduler's program: it is the one that holds what was placed.
pub(super) const PROGRAM: &str = "@program";

/// What we displaced, created and wrote.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Undo {
    v: u32,
    /// The exact text that stood at a path before.
    pub displaced: BTreeMap<String, String>,
    /// Entries, items and collections that were not there before.
    pub created: Vec<String>,
    /// The value that we wrote at a path. A value that differs by now is somebody else's and stays.
    pub placed: BTreeMap<String, String>,
}

impl Undo {
    pub fn new() -> Self {
        Self { v: VERSION, displaced: BTreeMap::new(), created: Vec::new(), placed: BTreeMap::new() }
    }

    /// One line of JSON.
    pub fn to_line(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The directory of the config that we placed.
    pub fn config_dir(&self) -> Option<&str> {
        let (_, word) = self.placed.iter().find(|(at, _)| at.ends_with("/--config"))?;
        let path = word.strip_prefix("--config=").unwrap_or(word);
        path.rsplit_once('/').map(|(dir, _)| dir)
    }

    /// The program that we put in the place of kube-scheduler's: the container's name, and the word.
    pub fn program(&self) -> Option<(String, &str)> {
        let (at, word) = self.placed.iter().find(|(at, _)| at.rsplit('/').next() == Some(PROGRAM))?;
        let container = at.split('/').nth(3)?.replace("~1", "/").replace("~0", "~");
        Some((container, word))
    }

    /// Reads a record, or says why it cannot be used.
    pub fn from_line(line: &str) -> Result<Self, String> {
        let undo: Self = serde_json::from_str(line).map_err(|error| error.to_string())?;
        if undo.v == VERSION {
            Ok(undo)
        } else {
            Err(format!("its version is {}, this program reads {VERSION}", undo.v))
        }
    }
}

/// Writes a path: `/spec/containers/kube-scheduler/command/--config`.
pub(super) fn pointer(segments: &[&str]) -> String {
    segments.iter().fold(String::new(), |path, segment| path + "/" + &segment.replace('~', "~0").replace('/', "~1"))
}

/// Finds the place that a pointer names in the document as it is now. Of several flags of one name the one that holds
/// `placed` is meant, else the last.
pub(super) fn resolve(tree: &Tree<'_>, pointer: &str, placed: Option<&str>) -> Option<Path> {
    let mut node = &tree.root;
    let mut path = Path::new();
    for segment in pointer.strip_prefix('/')?.split('/') {
        let segment = segment.replace("~1", "/").replace("~0", "~");
        let (seg, child) = match &node.kind {
            Kind::Map(_) => (Segment::Key(segment.clone()), node.get(&segment)?),
            Kind::List(items) => {
                let index = named_item(items, &segment, placed)?;
                (Segment::Index(index), items.get(index)?)
            }
            _ => return None,
        };
        path.push(seg);
        node = child;
    }
    Some(path)
}

/// The item of this name, or the word that holds the value of the flag of this name: of several flags the last one that
/// holds `placed`, else the last.
fn named_item(items: &[Node<'_>], name: &str, placed: Option<&str>) -> Option<usize> {
    if name == PROGRAM {
        return items.iter().position(|item| item.text().is_some() && item.text() == placed);
    }
    let by_name = items.iter().position(|item| item.get("name").and_then(Node::text) == Some(name));
    if by_name.is_some() {
        return by_name;
    }
    let flags = items.iter().enumerate().filter(|(_, item)| item.text().is_some_and(|word| is_flag(word, name)));
    // a flag without a value of its own has it in the next word
    let in_two_words = |item: &Node<'_>| item.text().and_then(flags::split).is_some_and(|(_, value)| value.is_none());
    let values: Vec<usize> = flags.map(|(index, item)| index + usize::from(in_two_words(item))).collect();
    let holds_placed = |index: &&usize| placed.is_some() && items.get(**index).and_then(Node::text) == placed;
    values.iter().rev().find(holds_placed).or_else(|| values.last()).copied()
}

fn is_flag(word: &str, name: &str) -> bool {
    flags::split(word).map(|(name, _)| name) == flags::split(name).map(|(name, _)| name)
}
