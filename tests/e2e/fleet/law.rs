//! The law that one scheduler changes at a time, over all that the suite did: the last test.

use crate::control_plane::ControlPlane;
use crate::runner::Test;
use crate::tests;

pub const TESTS: &[Test] = tests![Quick never_more_than_one_scheduler_was_in_change];

fn never_more_than_one_scheduler_was_in_change(control_plane: &ControlPlane) {
    let counted = control_plane.sampler().counted();
    println!(
        "        {} samples, {} changes, at most {} schedulers in change at once",
        counted.samples,
        counted.changes.len(),
        counted.most
    );
    assert!(counted.violations.is_empty(), "{:#?}", counted.violations);
    assert!(!counted.changes.is_empty(), "a run in which nothing was changed proves nothing");
}
