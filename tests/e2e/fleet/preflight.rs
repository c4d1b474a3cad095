//! Three nodes with the preflight that the chart switches on: a bad configuration touches nothing, a good one costs little more.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use super::{Fleet, NODES, ROLLOUT, SETTLE, VALUES, manifests};
use crate::control_plane::ControlPlane;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] =
    tests![Quick with_a_preflight_a_bad_configuration_touches_no_scheduler_and_a_good_one_goes_over_three_nodes];

/// What a preflight may add to a change. The nodes make theirs at the same time, before their turns.
const PREFLIGHT: Duration = seconds(4);

fn with_a_preflight_a_bad_configuration_touches_no_scheduler_and_a_good_one_goes_over_three_nodes(
    control_plane: &ControlPlane,
) {
    let fleet = Fleet::ready(control_plane);
    let good = fleet.wanted();
    fleet.switch_preflight("static-pod", good);

    let (before, starts, texts, began) = (fleet.digests(), fleet.starts(), manifests(control_plane), Instant::now());
    fleet.release.patch_source(&Wanted::another().bad_text());
    wait_until("every node to refuse it in the scheduler's words", ROLLOUT, || {
        let all = fleet.annotations();
        let refuses = |own: &BTreeMap<String, String>| {
            let reasons = ["PreflightFailed", "FailedElsewhere"];
            reasons.contains(&own["reason"].as_str())
                && own["message"].contains("Nonsense")
                && !before.contains(&own["digest"])
        };
        if all.len() == NODES.len() && all.values().all(refuses) { Ok(()) } else { Err(format!("{all:#?}")) }
    });
    assert_eq!(fleet.starts(), starts, "every scheduler is the container that ran before");
    assert_eq!(manifests(control_plane), texts, "no manifest changes");
    let changes = control_plane.sampler().changes_since(began);
    assert!(changes.is_empty(), "no scheduler changes: {changes:#?}");
    println!("        refused on every node after {:.1} s", began.elapsed().as_secs_f64());

    let (before, began) = (fleet.digests(), Instant::now());
    fleet.release.patch_source(&Wanted::another().text());
    fleet.wait_for_all("Ready", &before);
    let took = began.elapsed();
    let changes = control_plane.sampler().changes_since(began);
    assert_eq!(changes.len(), NODES.len(), "one change each: {changes:#?}");
    let kubelets: Duration = changes.iter().filter_map(|change| Some(change.ready? - change.began)).sum();
    let goal = kubelets + (SETTLE + PREFLIGHT) * 3 + seconds(5);
    println!(
        "        three nodes in {:.1} s with a preflight each; goal {:.1} s",
        took.as_secs_f64(),
        goal.as_secs_f64()
    );
    assert!(took <= goal, "it took {took:?}, goal {goal:?}");
    fleet.wait_until_sealed();
    fleet.switch_preflight("none", fleet.wanted());
}

impl Fleet<'_> {
    /// Replaces the agents, and waits until the new ones are ready.
    #[track_caller]
    fn switch_preflight(&self, how: &str, wanted: Wanted) {
        let value = format!("preflight={how}");
        self.release.helm("upgrade", wanted, &[&VALUES[..], &["--set", &value]].concat()).succeeded();
        self.release.kubectl(&["rollout", "status", "daemonset/schedpatch", "--timeout=3m"]).succeeded();
        self.wait_for_all("Ready", &[]);
    }
}
