//! Scores and refusals: from columns and the nodes that are asked for to points and reasons. Pure.

mod clear;
mod filter;
mod score;

pub use clear::Clear;
pub use filter::{NONE, Refusals, SIGNATURE, refuse, short};
pub use score::{Scores, score, unit_scores};

use crate::snapshot::Index;
use crate::wire::Text;

/// Positions of the nodes that are asked for.
pub fn positions(index: &Index, names: &[Text<'_>]) -> Vec<u32> {
    names.iter().map(|name| index.position(name)).collect()
}

#[cfg(test)]
mod properties;
