//! Positions of nodes in columns.

use std::collections::HashMap;
use std::sync::Arc;

/// A position that no node has: its values are missing.
pub const UNKNOWN: u32 = u32::MAX;

/// What a name takes: twice in the index, and while a changed index takes the place of the one before.
pub(super) const NAME_BYTES: usize = 192;

/// Positions of nodes in columns, by name. Names are only added, so that old columns stay valid.
#[derive(Clone, Debug, Default)]
pub struct Index {
    positions: HashMap<Arc<str>, u32, foldhash::fast::RandomState>,
    names: Vec<Arc<str>>,
    /// How often positions were given anew
    generation: u64,
}

impl Index {
    /// Position of a node, or [`UNKNOWN`].
    pub fn position(&self, name: &str) -> u32 {
        self.positions.get(name).copied().unwrap_or(UNKNOWN)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        self.names.len() * NAME_BYTES
    }

    /// Name at a position.
    pub fn name(&self, position: u32) -> Option<&Arc<str>> {
        self.names.get(usize::try_from(position).ok()?)
    }

    /// All names, by position.
    pub fn names(&self) -> &[Arc<str>] {
        &self.names
    }

    /// Positions of another generation mean other nodes.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// The index without some positions, and where the others went.
    pub fn without(&self, is_dropped: impl Fn(usize) -> bool) -> (Self, Vec<u32>) {
        let mut kept = Self { generation: self.generation + 1, ..Self::default() };
        let moved = self.names.iter().enumerate().map(|(position, name)| {
            if is_dropped(position) {
                return UNKNOWN;
            }
            let to = u32::try_from(kept.names.len()).unwrap_or(UNKNOWN);
            kept.positions.insert(Arc::clone(name), to);
            kept.names.push(Arc::clone(name));
            to
        });
        let moved = moved.collect();
        (kept, moved)
    }

    pub(super) fn add(this: &mut Arc<Self>, name: &str) -> u32 {
        let known = this.position(name);
        if known != UNKNOWN {
            return known;
        }
        let Ok(position) = u32::try_from(this.names.len()) else { return UNKNOWN };
        let name: Arc<str> = name.into();
        let own = Arc::make_mut(this);
        own.positions.insert(Arc::clone(&name), position);
        own.names.push(name);
        position
    }
}
