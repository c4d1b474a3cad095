//! Stage 4: whether the scheduler that runs is the one that was written. Asks the cluster and the scheduler, never a clock
//! on the wall; what to make of the answers is pure ([`Trial`], [`PreflightTrial`]).

mod health;
mod preflight;
mod trial;

pub use health::Health;
pub use preflight::{PreflightTrial, PreflightVerdict, RUNS_FOR};
pub use trial::{Cause, Failure, Limits, Trial, Verdict};
