//! `status --cluster` as people see it.

use super::cluster_objects::{answers, cluster, judged, root, says};
use schedpatch::fleet::{Columns, Fleet, judge, show};
use schedpatch::rollout::Record;
use schedpatch::timestamp::Timestamp;
use serde_json::{Value, json};
use std::fs;

/// Three days after the fixture.
fn now() -> Timestamp {
    Timestamp::try_from("2026-11-20T17:31:08Z".to_owned()).expect("a time")
}

fn shown(fleet: &Fleet) -> String {
    show(fleet, Columns::Few, now())
}

/// The formats that others may read: `UPDATE_GOLDEN=1` writes them anew.
#[test]
fn the_formats_of_the_status_over_the_cluster_are_pinned() {
    let mut cluster = cluster();
    says(&mut cluster, "phase", "RolledBack");
    says(&mut cluster, "reason", "RevisionFailed");
    says(&mut cluster, "message", "unknown flag: --nonsense \u{1b}[31m");
    cluster["schedulers"][1]["status"]["containerStatuses"][0]["ready"] = false.into();
    let fleet = judge(&answers(&cluster));
    let forms = [
        ("fleet-1.json", fleet.to_json().expect("JSON") + "\n"),
        ("fleet.txt", shown(&fleet)),
        ("fleet-wide.txt", show(&fleet, Columns::All, now())),
    ];
    for (name, form) in forms {
        let path = root().join("tests/formats").join(name);
        if std::env::var_os("UPDATE_GOLDEN").is_some() {
            fs::write(&path, &form).expect("written");
        }
        let pinned = fs::read_to_string(&path).expect("run UPDATE_GOLDEN=1 cargo test --test fleet");
        assert_eq!(form, pinned, "{name}");
    }
}

#[test]
fn each_step_of_a_change_is_shown_by_the_schedulers_mirror_pod() {
    let mut cluster = cluster();
    assert_eq!(judge(&answers(&cluster)).steps().count(), 0, "nothing is changed");
    says(&mut cluster, "phase", "Verifying");
    let (revision, generation) = ("schedpatch.io/revision", "schedpatch.io/generation");
    let step = |cluster: &Value| {
        let fleet = judge(&answers(cluster));
        let steps: Vec<_> = fleet.steps().map(|(node, step)| (node.to_owned(), step)).collect();
        assert_eq!(steps.len(), 1, "{steps:?}");
        assert_eq!(steps[0].0, "cp2");
        steps[0].1.clone()
    };
    says(&mut cluster, "generation", "4");
    assert_eq!(step(&cluster), "the kubelet stops the old pod");
    let pod = cluster["schedulers"][1].clone();
    cluster["schedulers"] = json!([cluster["schedulers"][0]]);
    assert_eq!(step(&cluster), "the old pod is gone; the new one is not there yet");
    cluster["schedulers"] = json!([cluster["schedulers"][0], pod]);
    let annotations = &mut cluster["schedulers"][1]["metadata"]["annotations"];
    annotations[generation] = "4".into();
    let carried = annotations[revision].clone();
    assert!(carried.is_string());
    let status = cluster["schedulers"][1]["status"]["containerStatuses"][0].clone();
    cluster["schedulers"][1]["status"]["containerStatuses"] = json!([]);
    assert_eq!(step(&cluster), "the new pod is there; its container is not created yet");
    let mut with = |state: Value, ready: bool| {
        let mut status = status.clone();
        (status["state"], status["ready"]) = (state, ready.into());
        cluster["schedulers"][1]["status"]["containerStatuses"] = json!([status]);
        step(&cluster)
    };
    assert!(with(json!({"waiting": {"reason": "ContainerCreating"}}), false).contains("creates the container"));
    let pull = with(json!({"waiting": {"reason": "ErrImagePull", "message": "not found"}}), false);
    assert_eq!(pull, "the container does not start: ErrImagePull: not found");
    assert!(with(json!({"running": {}}), false).contains("the image is pulled"));
    assert!(with(json!({"running": {}}), true).contains("settling"));
    assert!(with(json!({"terminated": {"exitCode": 1}}), false).contains("exit code 1"));
}

#[test]
fn an_extender_that_a_node_cannot_reach_stands_below_the_table_and_changes_no_verdict() {
    let mut cluster = cluster();
    says(&mut cluster, "extenders-unreachable", "http://127.0.0.1:8889");
    let fleet = judge(&answers(&cluster));
    assert!(fleet.proven);
    assert!(shown(&fleet).contains("extenders   cp2: cannot reach http://127.0.0.1:8889\n"), "{}", shown(&fleet));
    assert_eq!(judged(&cluster)["nodes"][1]["extendersUnreachable"], "http://127.0.0.1:8889");
}

#[test]
fn the_image_that_runs_stands_in_the_wide_table_and_in_json() {
    let mut cluster = cluster();
    let image = "registry.example/own@sha256:5dd1a124a331";
    says(&mut cluster, "scheduler-image", image);
    let fleet = judge(&answers(&cluster));
    assert!(show(&fleet, Columns::All, now()).contains(image));
    assert_eq!(judged(&cluster)["nodes"][1]["schedulerImage"], image);
}

#[test]
fn the_table_fits_120_columns_whatever_the_nodes_are_called() {
    let mut cluster = cluster();
    let name = "ip-10-0-129-147.eu-central-1.compute.internal-and-then-some";
    cluster["nodes"][1]["name"] = name.into();
    says(&mut cluster, "phase", "RestartRequired");
    says(&mut cluster, "reason", "SomeReasonThatIsLongerThanAnyOther");
    let fleet = judge(&answers(&cluster));
    let shown = shown(&fleet);
    let table: Vec<&str> = shown.lines().take_while(|line| !line.is_empty()).collect();
    assert!(table.len() > 2 && table.iter().all(|line| line.chars().count() <= 120), "{shown}");
    assert!(table.iter().any(|line| line.contains("  3d23h  ")), "{shown}");
    assert!(show(&fleet, Columns::All, now()).contains(name));
}

#[test]
fn a_node_that_somebody_took_out_is_not_proven_and_says_how_it_comes_back() {
    let mut objects = answers(&cluster());
    let mut record = Record::default();
    record.ask_uninstall(&("set".to_owned(), 1), &["cp2".to_owned()].into());
    objects.rollout = Some(record);
    let fleet = judge(&objects);
    assert!(!fleet.proven);
    assert!(shown(&fleet).contains("not proven  cp2: Uninstalled: "), "{}", shown(&fleet));
    assert!(shown(&fleet).contains("schedpatch uninstall --cancel"), "{}", shown(&fleet));
}
