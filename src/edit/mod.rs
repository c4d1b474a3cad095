//! Stage 2b: how a file format is changed. Pure: text in, text out.
//!
//! Every editor keeps these laws: what is not ours stays, byte for byte; editing twice is editing once; taking out
//! what was put in gives the old text; and what is not understood is a [`Refusal`], never a rewrite.

mod conflicts;
mod data;
mod draft;
mod flags;
mod format;
mod guard;
mod is_applied;
mod layout;
mod malformed;
mod mounts;
mod op;
mod places;
mod pod;
mod program;
mod reader;
mod recommit;
mod refusal;
mod restore;
mod run_as;
mod size;
mod splice;
mod static_pod;
mod tree;
mod undo;
mod values;

pub use draft::Draft;
pub use flags::{Flag, last as last_flag, value_of as flag_of};
pub use mounts::Mount;
pub(crate) use places::{Lines, lines_of_places};
pub use places::{Survey, survey};
pub(crate) use pod::{GENERATION, REVISION};
pub use pod::{Manifest, Ours, SchedulerPod, identity, read};
pub(crate) use program::words_after as scheduler_words;
pub use recommit::recommit;
pub use refusal::{Refusal, Rule};
pub use run_as::RunAs;
pub use size::{Size, size_at_most, size_of};
pub use static_pod::{CONFIG_FILE, HostMount, Wanted, patch, read_original, unpatch};
pub(crate) use tree::Seg as Place;
