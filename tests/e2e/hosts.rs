//! The commands on a host: what `apply` and `restore` do to a real scheduler.

use crate::control_plane::{ControlPlane, SOURCE, STATE};
use crate::extender::{Extender, Pod};
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};

pub const TESTS: &[Test] = tests![
    Quick apply_restarts_the_scheduler_exactly_once_and_the_mirror_pod_tells_which,
    Quick the_scheduler_asks_the_extender_and_heeds_it,
    Quick restore_brings_the_bytes_back_and_a_scheduler_that_asks_nobody,
];

fn apply_restarts_the_scheduler_exactly_once_and_the_mirror_pod_tells_which(control_plane: &ControlPlane) {
    let before = control_plane.start_from_original();
    let mark = control_plane.mark();

    let applied = control_plane.apply();
    assert_eq!(applied.generation, 1);
    let mirror = control_plane.wait_for_applied(&applied);
    let config = format!("--config={STATE}/revisions/{}/config.yaml", applied.revision);
    assert!(mirror.command.contains(&config), "{config} in {:?}", mirror.command);

    let again = control_plane.schedpatch(&["apply", "--source", SOURCE]).succeeded();
    assert!(again.stdout.contains("Nothing to change"), "{}", again.stdout);
    assert_eq!(control_plane.schedpatch(&["plan", "--check", "--source", SOURCE]).status, 0, "nothing is left to plan");
    assert_eq!(control_plane.status()["drift"], "none");

    let ready = control_plane.wait_for_scheduler("and is Ready", |mirror| mirror.ready);
    assert_eq!(ready.container, mirror.container);
    control_plane.assert_one_restart(mark, &before, &ready);
}

fn the_scheduler_asks_the_extender_and_heeds_it(control_plane: &ControlPlane) {
    let extender = Extender::listen(control_plane.node());
    control_plane.start_from_applied();

    let welcome = Pod::create(control_plane.node(), "welcome", "welcome");
    welcome.wait_until_it_runs();
    assert_eq!(extender.calls_for("welcome"), ["/filter"]);

    let refused = Pod::create(control_plane.node(), "refused", "refused");
    refused.wait_until_refused("the extender says no");
    assert!(!extender.calls_for("refused").is_empty());
}

fn restore_brings_the_bytes_back_and_a_scheduler_that_asks_nobody(control_plane: &ControlPlane) {
    let extender = Extender::listen(control_plane.node());
    let (_, before) = control_plane.start_from_applied();
    let refused = Pod::create(control_plane.node(), "refused-at-first", "refused");
    wait_until("the extender to be asked", seconds(60), || {
        if extender.calls_for("refused-at-first").is_empty() { Err("no call".to_owned()) } else { Ok(()) }
    });
    let mark = control_plane.mark();

    control_plane.schedpatch(&["restore"]).succeeded();
    assert_eq!(control_plane.manifest(), control_plane.original, "the very bytes");
    let mirror = control_plane.wait_for_scheduler("nothing of schedpatch", |mirror| mirror.generation() == 0);
    assert!(!mirror.command.iter().any(|word| word.starts_with("--config")), "{:?}", mirror.command);
    control_plane.assert_one_restart(mark, &before, &mirror);
    assert!(control_plane.status()["hold"].is_object(), "a hold keeps an agent away");

    let asked = extender.calls_for("refused-at-first").len();
    refused.wait_until_it_runs();
    let pod = Pod::create(control_plane.node(), "unasked", "refused");
    pod.wait_until_it_runs();
    assert!(extender.calls_for("unasked").is_empty());
    assert_eq!(extender.calls_for("refused-at-first").len(), asked, "the extender is not asked any more");
}
