//! `plan`: text, JSON and exit codes.

use super::program::{CASE, first_rule, good_manifest, host, json, plan, plan_on, schedpatch, text};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn a_plan_is_told_in_words_and_diffs_and_exits_with_0() {
    let output = plan(&[]);
    let out = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{out}");
    for part in [
        "platform    kubeadm",
        "scheduler   v1.36",
        "origins",
        "+++ /etc/kubernetes/manifests/kube-scheduler.yaml",
        "+    - --config=/var/lib/schedpatch/revisions/",
        "2 files to change. Nothing was written.",
    ] {
        assert!(out.contains(part), "{part:?} is missing in\n{out}");
    }
    assert!(!out.contains('\x1b'), "no colour where there is no terminal");
    assert!(text(&plan(&["--color", "always"]).stdout).contains("\x1b[32m+"));
}

#[test]
fn check_exits_with_3_when_something_must_change() {
    assert_eq!(plan(&["--check"]).status.code(), Some(3));
    let restore = schedpatch(&["plan", "--restore", "--check", "--host-root", &format!("{CASE}/host")]);
    assert_eq!(restore.status.code(), Some(0), "nothing of ours is there to restore");
}

#[test]
fn json_is_printed_on_errors_too_and_exits_with_1() {
    let output = schedpatch(&["plan", "--host-root", "/nonexistent", "--source", "x", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    let document = json(&output);
    assert_eq!(document["version"], 1);
    assert_eq!(document["findings"][0]["rule"], "host-root");
    assert_eq!(document["steps"].as_array().map(Vec::len), Some(0));
    let keys: Vec<_> = document.as_object().expect("an object").keys().cloned().collect();
    let expected = [
        "digest",
        "evidence",
        "findings",
        "generation",
        "origins",
        "platform",
        "revision",
        "scheduler",
        "steps",
        "version",
    ];
    let mut sorted = keys.clone();
    sorted.sort();
    assert_eq!(sorted, expected);
}

#[test]
fn a_source_that_is_not_there_is_named() {
    let output =
        schedpatch(&["plan", "--host-root", &format!("{CASE}/host"), "--source", "/no/such/dir", "-o", "json"]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(json(&output)["findings"][0]["file"], "/no/such/dir");
}

#[test]
fn a_version_can_be_said_where_the_tag_is_silent() {
    let root = host("no-tag", &good_manifest().replace(":v1.36", ":custom-1.36"));
    assert_eq!(first_rule(&plan_on(&root, &[])), "scheduler-version");
    let output = plan_on(&root, &["--scheduler-version", "v1.36.0"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(json(&output)["scheduler"]["from"], "--scheduler-version");
}

#[test]
fn two_platforms_on_one_host_must_be_told_apart_by_a_person() {
    let root = host("two-platforms", &good_manifest());
    fs::create_dir_all(root.join("host/var/lib/rancher/k3s/server")).expect("a directory");
    assert_eq!(first_rule(&plan_on(&root, &[])), "ambiguous-platform");
    assert_eq!(plan_on(&root, &["--platform", "kubeadm"]).status.code(), Some(0));
}

#[test]
fn a_mounted_configmap_is_read_through_its_data_link() {
    let root = host("configmap", &good_manifest());
    let mount = root.join("mount");
    fs::create_dir_all(mount.join("..2026_01")).expect("a directory");
    let config =
        fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("source/config.yaml")).expect("readable");
    fs::write(mount.join("..2026_01/config.yaml"), &config).expect("a file");
    symlink("..2026_01", mount.join("..data")).expect("linked");
    symlink("..data/config.yaml", mount.join("config.yaml")).expect("linked");
    let host = root.join("host").display().to_string();
    let output = schedpatch(&["plan", "-o", "json", "--host-root", &host, "--source", &mount.display().to_string()]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
    assert_eq!(json(&output)["digest"], json(&plan_on(&root, &[]))["digest"]);
}

#[test]
fn what_others_added_around_our_lines_is_no_reason_to_write_again() {
    let root = host("foreign", &good_manifest());
    let manifest = root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("expected/kube-scheduler.yaml");
    let patched = fs::read_to_string(expected).expect("the golden result");
    let line = patched.lines().find(|line| line.contains("- --config=")).expect("our flag").to_owned();
    let edited = patched.replace(&line, &format!("{line}\n    - --v=4 # theirs"));
    fs::write(&manifest, &edited).expect("written");
    let steps = json(&plan_on(&root, &[]))["steps"].clone();
    let kinds: Vec<_> =
        steps.as_array().into_iter().flatten().map(|step| step["kind"].as_str().unwrap_or_default()).collect();
    assert_eq!(kinds, ["writeFile"], "only the revision's file is missing on this host");
    let restored = json(&schedpatch(&[
        "plan",
        "--restore",
        "-o",
        "json",
        "--host-root",
        &root.join("host").display().to_string(),
    ]));
    let diff = restored["steps"][0]["diff"].as_str().unwrap_or_default().to_owned();
    assert!(diff.contains("-    - --config=") && !diff.contains("---v=4") && !diff.contains("-    - --v=4"), "{diff}");
}

#[test]
fn errors_of_a_plan_go_to_standard_error_and_stay_in_the_json_document() {
    let root = host("errors", &good_manifest().replace("kind: Pod", "kind: [Pod"));
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    for command in [&["plan"][..], &["apply", "--dry-run"], &["plan", "--check"]] {
        let output = schedpatch(&[command, &["--host-root", &host, "--source", &source]].concat());
        assert_eq!(output.status.code(), Some(1));
        assert!(output.stdout.is_empty(), "{command:?}: {}", text(&output.stdout));
        assert!(text(&output.stderr).contains("error["), "{command:?}: {}", text(&output.stderr));
    }
    let output = plan_on(&root, &[]);
    assert!(output.stderr.is_empty() && json(&output)["findings"][0]["level"] == "error");
}
