//! `restore --purge` removes what schedpatch stored, and nothing else.

use super::host::{APPLY, Host, STATE, everything, listing};
use std::fs;

#[test]
fn purge_leaves_no_trace_but_what_is_not_ours() {
    let host = Host::new("purge");
    let before: Vec<_> = everything(&host.root.join("host")).into_iter().map(|entry| entry.0).collect();
    host.ok(&APPLY);
    assert!(host.ok(&["restore", "--purge"]).contains("No trace"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    let mut after: Vec<_> = everything(&host.root.join("host")).into_iter().map(|entry| entry.0).collect();
    // the directories above ours stay, since others may have begun to use them
    after.retain(|path| !path.ends_with("var") && !path.ends_with("var/lib"));
    assert_eq!(before, after);
    host.ok(&APPLY);
    fs::write(host.state("notes.txt"), "somebody's").expect("written");
    assert!(host.ok(&["restore", "--purge"]).contains("it holds other files"));
    let left: Vec<_> = listing(&host.state("")).into_iter().map(|entry| entry.0).collect();
    assert_eq!(left, [host.state("notes.txt")]);
}

#[test]
fn what_is_not_ours_survives_a_purge() {
    let host = Host::new("not-ours");
    host.ok(&["restore", "--purge"]);
    assert!(!host.root.join("host").join(STATE).exists(), "nothing is made in order to be removed");
    host.ok(&APPLY);
    fs::write(host.state("texts/notes.txt"), "somebody's").expect("written");
    fs::create_dir(host.state("revisions/backup")).expect("made");
    fs::write(host.state("revisions/backup/mine"), "somebody's").expect("written");
    assert!(host.ok(&["restore", "--purge"]).contains("it holds other files"));
    assert!(host.state("texts/notes.txt").is_file() && host.state("revisions/backup/mine").is_file());
    assert!(!host.state("state.json").exists());
}

#[test]
fn purge_looks_at_every_manifest() {
    let host = Host::new("every");
    host.ok(&APPLY);
    let copy = host.text().replace("name: kube-scheduler\n", "name: second\n");
    for (dir, name) in
        [("etc/kubernetes/manifests", "second.yaml"), ("var/lib/rancher/rke2/agent/pod-manifests", "x.yaml")]
    {
        let dir = host.root.join("host").join(dir);
        fs::create_dir_all(&dir).expect("a directory");
        fs::write(dir.join(name), &copy).expect("written");
        let args = ["restore", "--purge", "--target", "/etc/kubernetes/manifests/kube-scheduler.yaml"];
        host.refuses(&args, "still-used");
        host.refuses(&[&args[..], &["--dry-run"]].concat(), "still-used");
        fs::remove_file(dir.join(name)).expect("removed");
    }
    host.ok(&["restore", "--purge"]);
}
