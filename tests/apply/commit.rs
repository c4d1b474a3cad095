//! `apply` on a host: what it writes, prints and keeps.

use super::host::{APPLY, Host, everything, listing, second_scheduler};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::process::Command;

#[test]
fn apply_prints_each_step_and_a_second_apply_writes_nothing() {
    let host = Host::new("twice");
    let said = host.ok(&APPLY);
    let order = ["wrote ", "replaced ", "Applied revision "].map(|word| said.find(word).expect(word));
    assert!(order.is_sorted(), "{said}");
    let before = everything(&host.root.join("host"));
    assert!(host.ok(&APPLY).contains("Nothing to change"));
    assert_eq!(before, everything(&host.root.join("host")));
}

#[test]
fn a_dry_run_says_all_and_writes_nothing() {
    let host = Host::new("dry");
    let before = everything(&host.root.join("host"));
    let said = host.ok(&["apply", "--source", "a", "--dry-run"]);
    assert!(said.contains("+    - --config=") && said.contains("Nothing was written"), "{said}");
    assert_eq!(before, everything(&host.root.join("host")));
}

#[test]
fn a_revision_that_failed_is_not_tried_again_unless_somebody_says_so() {
    let host = Host::new("bad");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    host.ok(&["restore"]);
    host.edit_journal(|journal| {
        journal["bad"][&revision] =
            serde_json::json!({"reason": "unknown flag: --nonsense", "since": "2026-11-16T18:31:08Z"});
    });
    assert!(host.refuses(&APPLY, "bad-revision").contains("unknown flag: --nonsense"));
    assert_eq!(host.status()["bad"][0]["reason"], "unknown flag: --nonsense");
    host.ok(&["apply", "--source", "b"]);
    host.ok(&["apply", "--source", "a", "--retry"]);
    assert_eq!(host.status()["bad"], serde_json::json!([]));
}

#[test]
fn a_damaged_file_of_the_revision_is_mended_without_a_restart() {
    let host = Host::new("mended");
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    let config = host.state("revisions").join(&revision).join("config.yaml");
    let before = (fs::read(&config).expect("there"), fs::metadata(host.target()).expect("there").ino());
    fs::write(&config, "tampered").expect("written");
    assert!(host.ok(&APPLY).contains("schedpatch's own files are repaired"));
    let after = (fs::read(&config).expect("there"), fs::metadata(host.target()).expect("there").ino());
    assert_eq!(before, after);
}

#[test]
fn old_revisions_go_and_the_last_three_stay() {
    let host = Host::new("garbage");
    let mut seen = Vec::new();
    for parallelism in 1..=6 {
        let config = host.root.join("b/config.yaml");
        let text = fs::read_to_string(host.root.join("a/config.yaml")).expect("text");
        fs::write(config, format!("{text}podInitialBackoffSeconds: {parallelism}\n")).expect("written");
        host.ok(&["apply", "--source", "b"]);
        seen.push(host.status()["applied"]["revision"].as_str().expect("text").to_owned());
    }
    let mut left: Vec<_> = listing(&host.state("revisions"))
        .iter()
        .map(|entry| entry.0.file_name().expect("a name").to_string_lossy().into_owned())
        .collect();
    left.sort();
    let mut last = seen[3..].to_vec();
    last.sort();
    assert_eq!(left, last);
}

#[test]
fn another_target_is_refused_while_ours_is_in_the_first() {
    let host = Host::new("other");
    host.ok(&APPLY);
    let other = host.root.join("host/opt/manifests");
    fs::create_dir_all(&other).expect("a directory");
    fs::write(other.join("kube-scheduler.yaml"), &host.original).expect("written");
    let args = ["apply", "--source", "a", "--platform", "kubeadm", "--manifest-dir", "/opt/manifests"];
    assert!(
        host.refuses(&args, "other-target").contains("restore --target /etc/kubernetes/manifests/kube-scheduler.yaml")
    );
    host.ok(&["restore"]);
    host.ok(&args);
}

#[test]
fn a_revision_that_any_manifest_uses_stays() {
    let host = Host::new("used");
    let second = second_scheduler(&host);
    host.ok(&APPLY);
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    fs::remove_file(host.state("state.json")).expect("removed");
    for number in 1..=5 {
        let text = fs::read_to_string(host.root.join("a/config.yaml")).expect("text");
        fs::write(host.root.join("b/config.yaml"), format!("{text}podInitialBackoffSeconds: {number}\n"))
            .expect("written");
        host.ok(&["apply", "--source", "b", "--target", second]);
    }
    assert!(host.state("revisions").join(&revision).join("config.yaml").is_file(), "the first scheduler uses it");
    fs::write(host.state("state.json"), "garbage").expect("written");
    host.refuses(&["restore", "--purge", "--target", second], "still-used");
}

#[test]
fn work_in_flight_on_one_target_blocks_another() {
    let host = Host::new("flight");
    let second = second_scheduler(&host);
    host.ok(&APPLY);
    host.edit_journal(|journal| {
        journal["inFlight"] = serde_json::json!({
            "from": "0".repeat(64), "to": journal["current"]["text"], "commit": journal["current"],
            "original": journal["original"], "since": "2026-11-16T18:31:08Z"
        });
        journal["current"] = serde_json::Value::Null;
    });
    host.refuses(&["apply", "--source", "b", "--target", second], "other-target");
    host.ok(&APPLY);
    assert!(host.journal()["inFlight"].is_null());
    assert_eq!(host.status()["applied"]["generation"], 1, "the commit had happened, so nothing was restarted");
}

#[test]
fn a_generation_is_never_given_twice() {
    let host = Host::new("generation");
    for source in ["a", "b", "a"] {
        host.ok(&["apply", "--source", source]);
    }
    fs::remove_file(host.state("state.json")).expect("removed");
    host.ok(&["restore"]);
    host.ok(&APPLY);
    assert_eq!(host.status()["applied"]["generation"], 4);
}

#[test]
fn long_names_of_source_files_work() {
    let host = Host::new("long");
    fs::write(host.root.join("a").join("x".repeat(253)), "beside").expect("written");
    host.ok(&APPLY);
    assert_eq!(host.run(&["status"]).status.code(), Some(0));
}

#[test]
fn answers_go_to_standard_output_and_complaints_to_standard_error() {
    let host = Host::new("streams");
    let output = host.run(&["apply", "--source", "missing"]);
    assert!(output.stdout.is_empty() && !output.stderr.is_empty());
    let json = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
        .args(["status", "-o", "json", "--host-root", "/nonexistent"])
        .output()
        .expect("it runs");
    let status: serde_json::Value = serde_json::from_slice(&json.stdout).expect("JSON on errors too");
    assert_eq!(status["findings"][0]["rule"], "host-root");
}
