//! Stage 4: whether the scheduler that runs is the one that was written. Asks the cluster and the scheduler, never a clock
//! on the wall; what to make of the answers is pure ([`Trial`]).

mod api;
mod expectation;
mod health;
mod klog;
mod pod;
mod trial;
mod watch;

pub use api::Pod;
pub use expectation::Expectation;
pub use health::Health;
pub use pod::{Container, MirrorPod, Observation, summarize};
pub use trial::{Cause, Failure, Limits, Trial, Verdict};
pub use watch::{PodAnswer, PodWatch};
