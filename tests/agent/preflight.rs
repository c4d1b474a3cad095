//! Preflights: the scheduler itself checks what is new, before anything is touched.

use std::time::Duration;

use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Request, Tried};
use schedpatch::settings::Preflight;
use schedpatch::timestamp::Timestamp;

use crate::api::{LEASES, ROLLOUT};
use crate::kubelet::{FUSSY_IMAGE, NEW_IMAGE};
use crate::node::{MANIFEST, Node, config, story};
use crate::preflight_pods::Preflighting;

pub const TIMEOUT: Duration = Duration::from_mins(10);

/// A story on a node with preflights.
pub fn preflighted<F: Future<Output = ()>>(tell: impl FnOnce(Node) -> F) {
    story(|mut node| {
        node.settings.preflight = Preflight::On { timeout: TIMEOUT };
        tell(node)
    });
}

pub fn files_left(node: &Node) -> Vec<String> {
    let dir = std::fs::read_dir(node.on_host("/etc/kubernetes/manifests")).expect("it is there");
    let names = dir.map(|entry| entry.expect("readable").file_name().into_string().expect("text"));
    names.filter(|name| name.contains("preflight")).collect()
}

pub fn preflights(node: &Node) -> usize {
    node.kubelet.borrow().preflights.names.len()
}

/// Asks as a person does, by an annotation of the rollout's Lease.
pub fn ask(node: &Node, what: &str) {
    ask_for(node, what, "now");
}

pub fn ask_for(node: &Node, what: &str, value: &str) {
    let mut lease = node.api.object(LEASES, ROLLOUT).expect("it is there");
    lease["metadata"]["annotations"][what] = serde_json::json!(value);
    node.api.put(LEASES, ROLLOUT, lease);
}

#[test]
fn a_good_configuration_is_tried_once_and_then_applied() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        assert_eq!(node.manifest(), MANIFEST, "nothing is touched while the scheduler checks it");
        node.until(Phase::Ready, 60).await;
        assert_eq!((preflights(&node), files_left(&node)), (1, vec![]));
        let name = node.kubelet.borrow().preflights.names[0].clone();
        assert_eq!(name, format!("schedpatch-preflight-{}-1-cp1", node.revision().expect("ours")));
        assert_eq!(node.journal().preflights.attempts, 1);
        node.pass(1_300).await;
        assert_eq!(preflights(&node), 1, "what is in place is not tried again, by two checks of the slow timer");
    });
}

#[test]
fn a_configuration_that_the_scheduler_refuses_touches_nothing() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let (manifest, started) = (node.manifest(), node.kubelet.borrow().started());
        node.source(&config("crash."));
        let report = node.until_report("refused", 6, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!(report.node_state.phase, Phase::Blocked);
        assert!(report.node_state.message.contains("the extender crash. is refused"), "{}", report.node_state.message);
        assert_eq!((node.manifest(), node.kubelet.borrow().started()), (manifest, started));
        assert_eq!((preflights(&node), files_left(&node)), (3, vec![]), "it, and what runs, to be sure");
        let bad = node.journal().bad;
        assert!(bad.len() == 1 && bad.values().all(|bad| bad.by_preflight && bad.digest.is_some()), "{bad:?}");
        node.pass(3_600).await;
        assert_eq!((node.phase(), preflights(&node)), (Phase::Blocked, 3), "it is not tried again");
        node.source(&config("two"));
        node.until(Phase::Ready, 60).await;
    });
}

#[test]
fn a_refused_configuration_is_tried_again_when_a_person_insists() {
    preflighted(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until_report("refused", 30, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!(node.manifest(), MANIFEST);
        assert!(node.message().contains("schedpatch rollout retry"), "{}", node.message());
        node.pass(60).await;
        let mut lease = node.api.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"]["schedpatch.io/retry"] = serde_json::json!("now");
        node.api.put(LEASES, ROLLOUT, lease);
        node.pass(20).await;
        assert_eq!((preflights(&node), node.phase()), (4, Phase::Blocked));
    });
}

#[test]
fn a_change_that_is_undone_during_its_preflight_ends_it() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        node.pass(30).await;
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("two"));
        node.until(Phase::Preflight, 10).await;
        node.pass(5).await;
        node.source(&config("one"));
        node.until(Phase::Ready, 10).await;
        assert_eq!(files_left(&node), Vec::<String>::new());
    });
}

#[test]
fn another_image_is_pulled_while_the_old_scheduler_runs() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{NEW_IMAGE}"));
        node.kubelet.borrow_mut().has_registry = false;
        node.source(&config("one"));
        node.start();
        node.until_report("cannot pull", 10, |report| report.node_state.reason == "PreflightObstructed").await;
        assert!(node.message().contains("ErrImagePull"), "{}", node.message());
        node.pass(120).await;
        assert_eq!((node.manifest().as_str(), node.kubelet.borrow().started()), (MANIFEST, 1));
        node.kubelet.borrow_mut().has_registry = true;
        node.until(Phase::Ready, 60).await;
        assert!(node.manifest().contains(NEW_IMAGE) && node.journal().bad.is_empty());
    });
}

#[test]
fn an_image_that_refuses_the_configuration_needs_no_control_run() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some(format!("example.org/own:{FUSSY_IMAGE}"));
        node.source(&config("fussy."));
        node.start();
        node.until_report("refused", 30, |report| report.node_state.reason == "PreflightFailed").await;
        assert_eq!((node.manifest().as_str(), preflights(&node)), (MANIFEST, 1));
    });
}

#[test]
fn an_image_that_is_newer_than_the_api_server_waits_for_its_upgrade() {
    preflighted(|mut node| async move {
        node.settings.overrides.image = Some("example.org/own:v1.37.0".to_owned());
        node.source(&config("one"));
        node.start();
        node.until_report("refused", 30, |report| report.node_state.reason == "SchedulerNewer").await;
        assert_eq!((node.phase(), preflights(&node)), (Phase::Blocked, 0));
        node.pass(120).await;
        assert_eq!(node.manifest(), MANIFEST, "{}", node.message());
        node.api.set_release("v1.37.1");
        node.until(Phase::Ready, 120).await;
        assert!(node.manifest().contains("own:v1.37.0"));
    });
}

#[test]
fn a_volume_that_cannot_be_mounted_touches_nothing_and_leaves_no_mark() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        std::fs::remove_dir_all(node.on_host("/var/lib/schedpatch/revisions")).expect("removed");
        node.until_report("obstructed", 700, |report| report.node_state.reason == "PreflightObstructed").await;
        assert!(node.message().contains("did not start within 600 s: ContainerCreating"), "{}", node.message());
        assert_eq!((node.manifest().as_str(), files_left(&node)), (MANIFEST, vec![]));
        assert!(node.journal().bad.is_empty());
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_change_in_the_middle_of_a_preflight_begins_another() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.pass(20).await;
        node.kubelet.borrow_mut().preflighting = Preflighting::Works;
        node.source(&config("one"));
        node.until(Phase::Ready, 60).await;
        assert!(node.manifest().contains("schedpatch.io/revision") && node.journal().bad.is_empty());
        assert_eq!(files_left(&node), Vec::<String>::new());
    });
}

#[test]
fn told_to_stop_or_killed_in_a_preflight_its_file_goes() {
    preflighted(|mut node| async move {
        node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Preflight, 5).await;
        assert_eq!(files_left(&node).len(), 1);
        node.stop().await.expect("it stops");
        assert_eq!(files_left(&node), Vec::<String>::new());
        node.start();
        node.until(Phase::Preflight, 5).await;
        node.kill().await;
        assert_eq!(files_left(&node).len(), 1, "nobody was there to remove it");
        node.source("apiVersion: v1\nkind: Nonsense\n");
        node.start();
        node.until_report("nothing wanted", 10, |report| report.node_state.reason == "NoSource").await;
        assert_eq!(files_left(&node), Vec::<String>::new(), "who comes next removes it, whatever is wanted");
        assert_eq!(node.manifest(), MANIFEST);
    });
}

#[test]
fn a_person_who_applies_or_restores_removes_the_file_too() {
    for direction in [Direction::Apply, Direction::Restore] {
        preflighted(|mut node| async move {
            node.kubelet.borrow_mut().preflighting = Preflighting::Blocks;
            node.source(&config("one"));
            node.start();
            node.until(Phase::Preflight, 5).await;
            node.kill().await;
            assert_eq!(files_left(&node).len(), 1);
            node.as_person(direction, false).expect("it is done");
            assert_eq!((files_left(&node), node.revision().is_some()), (vec![], direction == Direction::Apply));
        });
    }
}

#[test]
fn only_what_was_tried_is_committed() {
    preflighted(|node| async move {
        node.source(&config("one"));
        let run = |tried: Tried| {
            let request = Request::new(&node.settings, Direction::Apply, Initiator::Agent, "run", TIMEOUT);
            let env = Env { fs: &RealFs, clock: &|| Timestamp::from_unix(1_800_000_000) };
            reconcile::run(&Request { tried, ..request }, &env, &mut |_| {}).expect("it runs")
        };
        let planned = run(Tried::Only(None));
        let tried = planned.plan.preflight.as_ref().expect("it needs one").manifest.tried;
        // an upgrade after the preflight: the same revision, and another text
        node.write_manifest(&MANIFEST.replace("v1.36.1", FUSSY_IMAGE));
        let upgraded = run(Tried::Only(Some(tried)));
        assert_eq!(upgraded.plan.revision, planned.plan.revision);
        assert!(planned.receipt.is_none() && upgraded.receipt.is_none());
        node.write_manifest(MANIFEST);
        assert!(run(Tried::Only(Some(tried))).receipt.is_some_and(|receipt| receipt.committed));
    });
}

#[test]
fn what_was_accepted_long_ago_is_tried_again_once_a_pause_ends() {
    preflighted(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        ask_for(&node, "schedpatch.io/pause", "true");
        node.stop().await.expect("it stops");
        let manifest = node.manifest();
        node.settings.overrides.image = Some(format!("example.org/own:{NEW_IMAGE}"));
        node.start();
        node.pass(3_600).await;
        assert_eq!((preflights(&node), node.manifest()), (2, manifest.clone()), "{}", node.message());
        // the kubelet removed what no container used
        node.kubelet.borrow_mut().has_registry = false;
        ask_for(&node, "schedpatch.io/pause", "false");
        node.until_report("no image", 60, |report| report.node_state.reason == "PreflightObstructed").await;
        assert_eq!(node.manifest(), manifest);
        node.kubelet.borrow_mut().has_registry = true;
        node.until_report("put in", 120, |report| report.generation == Some(2) && report.node_state.is_ready()).await;
    });
}
