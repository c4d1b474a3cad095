//! One scheduler of the cluster after the other: which node may begin a change now, and what follows when it does not work.
//!
//! `record` is what all agents share, in one Lease; `view` is what one agent knows; `want` says what a node should run, `order`
//! who goes first, `lost` what becomes of a turn whose agent is gone, and `decide` puts them together: one [`NextStep`] at a time.
//! All of it is pure. Time comes in as durations that [`Memory`] counts. A write of the record is a compare-and-swap.

mod asked;
mod decide;
mod lost;
mod memory;
mod order;
mod record;
mod view;
mod want;

pub use asked::{FORGET, PAUSE, REQUESTS, RETRY, UNINSTALL, UNINSTALL_NODE, asked};
pub use decide::{NextStep, Why, step};
pub use lost::is_trace;
pub use memory::{MAX_GAP, Memory};
pub use order::Waiting;
pub use record::{ChangeKind, Entry, Failed, Record, RecordError, Stopped, Uninstall};
pub use view::{
    AgentState, Me, OnFailure, Other, OtherEtcd, OwnEtcd, Scheduler, Sealed, View, WaitLimits, Waited, Work,
};
pub use want::{NeededChange, needed_change};
