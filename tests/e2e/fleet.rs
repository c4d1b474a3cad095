//! Three control planes: the agents from their chart and image change one scheduler at a time.

use std::collections::BTreeMap;
use std::fs;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::agent::{ADMIN, PROGRAM};
use crate::control_plane::{ControlPlane, MANIFEST, STATE};
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};
use crate::wanted::Wanted;

pub const TESTS: &[Test] = tests![
    Quick helm_install_brings_three_nodes_to_the_configuration_one_by_one,
    Quick a_change_goes_over_three_nodes_with_one_restart_each,
    Quick a_configuration_that_fails_on_the_first_node_reaches_no_other,
    Quick a_paused_rollout_begins_nothing_until_it_is_resumed,
    Quick a_lost_agent_is_replaced_and_the_rollout_goes_on,
    Quick helm_uninstall_leaves_the_original_bytes_on_every_node,
];

const NODES: [&str; 3] = ["cp1", "cp2", "cp3"];
/// Three schedulers, one after the other.
const ROLLOUT: Duration = seconds(300);
/// Where the manifests of before are kept, for a later run on a bed that was kept.
const KEPT: &str = "/etc/kubernetes/e2e/of-fleet";

fn originals(control_plane: &ControlPlane) -> Vec<Vec<u8>> {
    let original = |name| {
        let node = control_plane.cluster.node(name);
        let kept = node.path(KEPT);
        if !kept.exists() {
            fs::create_dir_all(kept.parent().expect("it has one")).expect("the node's files can be written");
            fs::copy(node.path(MANIFEST), &kept).expect("kubeadm wrote a manifest");
        }
        fs::read(kept).expect("kept")
    };
    NODES.map(original).to_vec()
}

fn manifests(control_plane: &ControlPlane) -> Vec<Vec<u8>> {
    NODES.map(|name| fs::read(control_plane.cluster.node(name).path(MANIFEST)).unwrap_or_default()).to_vec()
}

fn annotations(control_plane: &ControlPlane) -> Vec<BTreeMap<String, String>> {
    let shown = control_plane.node().kubectl(&["get", "nodes", "-o", "json"]);
    let list: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    let of_node = |node: &Value| {
        let all = node["metadata"]["annotations"].as_object().into_iter().flatten();
        let ours = all.filter_map(|(key, text)| {
            Some((key.strip_prefix("schedpatch.io/")?.to_owned(), text.as_str().unwrap_or_default().to_owned()))
        });
        ours.collect()
    };
    list["items"].as_array().into_iter().flatten().map(of_node).collect()
}

/// Waits until all nodes say this phase, and have what this source asks for.
#[track_caller]
fn wait_for_all(control_plane: &ControlPlane, phase: &str, before: &[String]) -> Vec<BTreeMap<String, String>> {
    wait_until(&format!("all nodes to say {phase}"), ROLLOUT, || {
        let all = annotations(control_plane);
        let is = |own: &BTreeMap<String, String>| {
            own.get("phase").is_some_and(|own| own == phase)
                && own.get("digest").is_some_and(|digest| !before.contains(digest))
        };
        if all.len() == NODES.len() && all.iter().all(is) { Ok(all) } else { Err(format!("{all:#?}")) }
    })
}

/// What the nodes want now.
fn digests(control_plane: &ControlPlane) -> Vec<String> {
    annotations(control_plane).iter().filter_map(|own| own.get("digest").cloned()).collect()
}

/// How often the schedulers' containers were started: uid of the pod and number of restarts.
fn starts(control_plane: &ControlPlane) -> BTreeMap<String, String> {
    schedulers(control_plane)
        .into_iter()
        .map(|pod| {
            let status = &pod["status"]["containerStatuses"][0];
            let name = pod["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            (name, status["containerID"].as_str().unwrap_or_default().to_owned())
        })
        .collect()
}

fn schedulers(control_plane: &ControlPlane) -> Vec<Value> {
    let shown = control_plane.node().kubectl(&[
        "-n",
        "kube-system",
        "get",
        "pods",
        "-l",
        "component=kube-scheduler",
        "-o",
        "json",
    ]);
    let list: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
    list["items"].as_array().cloned().unwrap_or_default()
}

/// Does something while somebody counts the schedulers that are not ready.
fn counted<T>(control_plane: &ControlPlane, act: impl FnOnce() -> T) -> T {
    let (is_over, most, samples) = (AtomicBool::new(false), AtomicUsize::new(0), AtomicUsize::new(0));
    let began = Instant::now();
    let done = std::thread::scope(|scope| {
        scope.spawn(|| {
            while !is_over.load(Ordering::SeqCst) {
                let pods = schedulers(control_plane);
                let ready = |pod: &&Value| pod["status"]["containerStatuses"][0]["ready"] == true;
                let down = NODES.len().saturating_sub(pods.iter().filter(ready).count());
                if !pods.is_empty() {
                    most.fetch_max(down, Ordering::SeqCst);
                    samples.fetch_add(1, Ordering::SeqCst);
                }
                std::thread::sleep(Duration::from_millis(300));
            }
        });
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(act));
        is_over.store(true, Ordering::SeqCst);
        done
    });
    let (most, samples) = (most.into_inner(), samples.into_inner());
    let said = format!("{samples} samples in {:.0} s, at most {most} schedulers down", began.elapsed().as_secs_f64());
    control_plane.cluster.note(&said);
    println!("        {said}");
    let done = done.unwrap_or_else(|reason| std::panic::resume_unwind(reason));
    assert!(most <= 1, "{most} schedulers were down at once");
    done
}

fn helm_install_brings_three_nodes_to_the_configuration_one_by_one(control_plane: &ControlPlane) {
    originals(control_plane);
    control_plane.begin_without_release();
    counted(control_plane, || {
        Release::install(control_plane, Wanted::another());
        wait_for_all(control_plane, "Ready", &[]);
    });
    let verified: Vec<_> = annotations(control_plane).iter().map(|own| own["verified-digest"].clone()).collect();
    assert!(verified.iter().all(|one| *one == verified[0]), "{verified:?}");
    wait_until("the rollout to be sealed", seconds(60), || {
        let status = control_plane.node().run(&[PROGRAM, "rollout", "status", "--kubeconfig", ADMIN]);
        if status.stdout.contains(&format!("sealed      {}", &verified[0][..12])) { Ok(()) } else { Err(status.stdout) }
    });
    control_plane.node().run(&[PROGRAM, "status", "--wait=1m", "--kubeconfig", ADMIN]).succeeded();
}

fn a_change_goes_over_three_nodes_with_one_restart_each(control_plane: &ControlPlane) {
    let release = Release::here(control_plane);
    wait_for_all(control_plane, "Ready", &[]);
    let (before, starts_before) = (digests(control_plane), starts(control_plane));
    let began = Instant::now();
    counted(control_plane, || {
        release.patch_source(&Wanted::another().text());
        wait_for_all(control_plane, "Ready", &before);
    });
    println!("        three nodes in {:.1} s", began.elapsed().as_secs_f64());
    let starts_after = starts(control_plane);
    for (name, container) in &starts_before {
        assert_ne!(starts_after.get(name), Some(container), "{name} was restarted");
    }
}

fn a_configuration_that_fails_on_the_first_node_reaches_no_other(control_plane: &ControlPlane) {
    let release = Release::here(control_plane);
    wait_for_all(control_plane, "Ready", &[]);
    let (before, starts_before, texts) = (digests(control_plane), starts(control_plane), manifests(control_plane));
    let told = counted(control_plane, || {
        release.patch_source(&Wanted::another().bad_text());
        wait_for_all(control_plane, "RolledBack", &before)
    });
    for own in &told {
        assert!(own["message"].contains("Nonsense") || own["message"].contains("scoringStrategy"), "{own:#?}");
    }
    let starts_after = starts(control_plane);
    let touched = starts_before.iter().filter(|(name, container)| starts_after.get(*name) != Some(container)).count();
    assert_eq!(touched, 1, "one scheduler was touched");
    let changed = texts.iter().zip(manifests(control_plane)).filter(|(before, after)| **before != *after).count();
    assert_eq!(changed, 1, "one manifest was touched");
    let before = digests(control_plane);
    release.patch_source(&Wanted::another().text());
    wait_for_all(control_plane, "Ready", &before);
}

fn a_paused_rollout_begins_nothing_until_it_is_resumed(control_plane: &ControlPlane) {
    let release = Release::here(control_plane);
    wait_for_all(control_plane, "Ready", &[]);
    let rollout = |verb| control_plane.node().run(&[PROGRAM, "rollout", verb, "--kubeconfig", ADMIN]).succeeded();
    rollout("pause");
    let (before, texts) = (digests(control_plane), manifests(control_plane));
    release.patch_source(&Wanted::another().text());
    let waiting = wait_for_all(control_plane, "Waiting", &before);
    assert!(waiting.iter().all(|own| own["reason"] == "Paused"), "{waiting:#?}");
    stays("nothing is begun", seconds(15), || {
        if manifests(control_plane) == texts { Ok(()) } else { Err("a manifest was changed".to_owned()) }
    });
    rollout("resume");
    wait_for_all(control_plane, "Ready", &before);
}

fn a_lost_agent_is_replaced_and_the_rollout_goes_on(control_plane: &ControlPlane) {
    let release = Release::here(control_plane);
    wait_for_all(control_plane, "Ready", &[]);
    let before = digests(control_plane);
    counted(control_plane, || {
        release.patch_source(&Wanted::another().text());
        wait_until("a node to be in the middle", ROLLOUT, || {
            let all = annotations(control_plane);
            if all.iter().any(|own| own["phase"] == "Verifying") { Ok(()) } else { Err(format!("{all:?}")) }
        });
        release.kubectl(&["delete", "pods", "--all", "--grace-period=0", "--force"]).succeeded();
        wait_for_all(control_plane, "Ready", &before);
    });
}

fn helm_uninstall_leaves_the_original_bytes_on_every_node(control_plane: &ControlPlane) {
    let release = Release::here(control_plane);
    wait_for_all(control_plane, "Ready", &[]);
    counted(control_plane, || release.helm_uninstall());
    assert!(manifests(control_plane) == originals(control_plane), "the very bytes on every node");
    for own in annotations(control_plane) {
        assert!(own.is_empty(), "{own:?}");
    }
    for name in NODES {
        let left = fs::read_dir(control_plane.cluster.node(name).path(STATE)).map(Iterator::count).unwrap_or_default();
        assert_eq!(left, 0, "files in {STATE} on {name}");
    }
    let lease = ["-n", "kube-system", "get", "lease", "schedpatch-rollout"];
    assert!(control_plane.node().kubectl(&lease).stderr.contains("NotFound"));
}
