//! The law that `ready` is a measured fact, over all that the suite did: the last test.

use std::collections::BTreeSet;

use crate::control_plane::ControlPlane;
use crate::readyz::{Sample, judge};
use crate::runner::Test;
use crate::tests;

pub const TESTS: &[Test] = tests![
    Quick the_checker_of_readyz_finds_a_lie,
    Quick readyz_never_said_200_while_another_scheduler_ran_than_the_sources_asked_for,
];

fn the_checker_of_readyz_finds_a_lie(_: &ControlPlane) {
    let ready = |at: f64, wanted: u64, running: &[u64]| Sample {
        at,
        code: 200,
        said: "Ready: Proven".to_owned(),
        wanted: BTreeSet::from([wanted]),
        running: running.iter().copied().collect(),
        moving: false,
    };
    let honest = vec![ready(0.0, 17, &[17]), ready(0.9, 18, &[17]), ready(1.8, 18, &[17]), ready(1.9, 18, &[18])];
    let judgement = judge(&honest);
    assert_eq!(
        (judgement.ready, judgement.violations),
        (4, vec![]),
        "within the second it may be at what was asked before"
    );
    let late = ready(2.0, 18, &[17]);
    assert_eq!(judge(&[honest.clone(), vec![late.clone()]].concat()).violations, [late]);
    let two = ready(3.0, 18, &[17, 18]);
    assert_eq!(judge(&[honest.clone(), vec![two.clone()]].concat()).violations, [two], "both must be right");
    let unpatched = ready(3.0, 18, &[0]);
    assert_eq!(judge(&[honest.clone(), vec![unpatched.clone()]].concat()).violations, [unpatched]);
    let apart = [
        ready(4.0, 18, &[]),
        Sample { moving: true, ..ready(4.1, 18, &[17]) },
        Sample { said: "Restored: Held".to_owned(), ..ready(4.2, 18, &[0]) },
        Sample { code: 503, ..ready(4.3, 18, &[17]) },
    ];
    let judgement = judge(&[honest, apart.to_vec()].concat());
    assert_eq!((judgement.dead, judgement.moving, judgement.restored), (1, 1, 1));
    assert_eq!((judgement.samples, judgement.ready, judgement.violations), (8, 7, vec![]));
}

fn readyz_never_said_200_while_another_scheduler_ran_than_the_sources_asked_for(control_plane: &ControlPlane) {
    let samples = control_plane.readyz().samples();
    let judgement = judge(&samples);
    let time = samples.last().map_or(0.0, |last| last.at) - samples.first().map_or(0.0, |first| first.at);
    println!(
        "        /readyz: {} samples in {time:.0} s, {} said 200 (apart: {} without a living scheduler, {} while one began or \
         ended, {} restored), {} violations",
        judgement.samples,
        judgement.ready,
        judgement.dead,
        judgement.moving,
        judgement.restored,
        judgement.violations.len()
    );
    assert!(judgement.violations.is_empty(), "{:#?}", judgement.violations);
    assert!(judgement.ready > 0, "a run in which nothing was ever ready proves nothing");
}
