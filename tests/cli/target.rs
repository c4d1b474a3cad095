//! Which file is the target, and which files are refused.

use super::program::{CASE, first_rule, good_manifest, host, json, plan_on, schedpatch, text};
use std::fs;
use std::os::unix::fs::symlink;

#[test]
fn a_target_that_is_a_link_or_no_file_is_refused() {
    let root = host("link", "");
    let manifests = root.join("host/etc/kubernetes/manifests");
    fs::remove_file(manifests.join("kube-scheduler.yaml")).expect("removed");
    fs::write(root.join("host/etc/real.yaml"), good_manifest()).expect("written");
    symlink("/etc/real.yaml", manifests.join("kube-scheduler.yaml")).expect("linked");
    assert_eq!(first_rule(&plan_on(&root, &[])), "symlink", "the link is absolute, and still read beneath the root");
}

#[test]
fn links_do_not_lead_out_of_the_host_root() {
    let root = host("beneath", &good_manifest());
    fs::rename(root.join("host/etc/kubernetes"), root.join("host/data")).expect("moved");
    symlink("../../../../../../../../data", root.join("host/etc/kubernetes")).expect("linked");
    let output = plan_on(&root, &[]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
}

#[test]
fn a_file_beyond_the_kubelets_limit_is_refused() {
    let root = host("large", &format!("{}# {}\n", good_manifest(), "x".repeat(10 * 1024 * 1024)));
    let output = plan_on(&root, &[]);
    assert_eq!(output.status.code(), Some(1));
    assert_eq!(first_rule(&output), "unreadable");
}

#[test]
fn a_large_manifest_within_the_limit_is_planned() {
    let root = host("just-small-enough", &format!("{}# {}\n", good_manifest(), "x".repeat(9 * 1024 * 1024)));
    assert_eq!(plan_on(&root, &[]).status.code(), Some(0));
}

#[test]
fn a_custom_manifest_dir_and_a_target_by_name_are_found() {
    let root = host("custom", "");
    fs::create_dir_all(root.join("host/srv/pods")).expect("a directory");
    fs::write(
        root.join("host/srv/pods/s.yaml"),
        good_manifest().replace("  name: kube-scheduler\n  namespace", "  name: second\n  namespace"),
    )
    .expect("a file");
    let by_dir = plan_on(&root, &["--manifest-dir", "/srv/pods"]);
    assert_eq!(first_rule(&by_dir), "which-scheduler", "{}", text(&by_dir.stdout));
    let by_name = plan_on(&root, &["--target", "/srv/pods/s.yaml"]);
    assert_eq!(by_name.status.code(), Some(0), "{}", text(&by_name.stdout));
    assert_eq!(
        first_rule(&plan_on(&root, &["--target", "/srv/pods/none.yaml", "--platform", "kubeadm"])),
        "no-manifest"
    );
}

#[test]
fn without_a_target_status_and_restore_mean_the_one_that_was_applied() {
    let root = host("known-target", &good_manifest());
    let second = root.join("host/etc/kubernetes/manifests/second.yaml");
    let original = good_manifest().replace("name: kube-scheduler\n", "name: second\n");
    fs::write(&second, &original).expect("a file");
    let elsewhere = root.join("host/opt/pods/third.yaml");
    fs::create_dir_all(elsewhere.parent().expect("above")).expect("a directory");
    fs::write(&elsewhere, &original).expect("a file");
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    for (target, file) in [("/etc/kubernetes/manifests/second.yaml", &second), ("/opt/pods/third.yaml", &elsewhere)] {
        let applied = schedpatch(&["apply", "--host-root", &host, "--source", &source, "--target", target]);
        assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
        let output = schedpatch(&["status", "--host-root", &host, "-o", "json"]);
        assert_eq!(output.status.code(), Some(0), "{}", text(&output.stdout));
        assert_eq!(json(&output)["target"], target);
        assert!(json(&output)["applied"]["revision"].is_string(), "{}", text(&output.stdout));
        let planned = schedpatch(&["plan", "--restore", "--check", "--host-root", &host]);
        assert_eq!(planned.status.code(), Some(3), "{}", text(&planned.stdout));
        let restored = schedpatch(&["restore", "--host-root", &host]);
        assert_eq!(restored.status.code(), Some(0), "{}", text(&restored.stderr));
        assert_eq!(fs::read_to_string(file).expect("there"), original);
        let shown = text(&schedpatch(&["status", "--host-root", &host]).stdout);
        assert!(shown.contains("last good   the manifest without our edit\n"), "{shown}");
    }
}

#[test]
fn what_waiting_does_not_change_is_refused_at_once() {
    let root = host("at-once", &good_manifest());
    let (host, source) = (root.join("host").display().to_string(), format!("{CASE}/source"));
    schedpatch(&["apply", "--host-root", &host, "--source", &source]);
    schedpatch(&["restore", "--host-root", &host]);
    // two schedulers, and neither has the usual name
    let manifests = root.join("host/etc/kubernetes/manifests");
    for name in ["kube-scheduler", "second"] {
        let text = good_manifest().replace("name: kube-scheduler\n", &format!("name: {name}-x\n"));
        fs::write(manifests.join(format!("{name}.yaml")), text).expect("a file");
    }
    let begin = std::time::Instant::now();
    let output = schedpatch(&["restore", "--host-root", &host]);
    assert!(text(&output.stderr).contains("error[which-scheduler]"), "{}", text(&output.stderr));
    assert!(begin.elapsed() < std::time::Duration::from_millis(600), "{:?}", begin.elapsed());
}
