//! The revision that ran before comes back, and nothing else.

use super::host::{APPLY, Host, listing};
use std::fs;

#[test]
fn back_to_last_good_changes_only_what_tells_commits_apart() {
    let host = Host::new("back");
    host.ok(&APPLY);
    let good = host.text();
    host.proven();
    assert_eq!(host.status()["applied"]["verified"], true);
    host.ok(&["apply", "--source", "b"]);
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&["restore", "--to", "last-good"]);
    assert_eq!(host.text(), good.replace("generation: \"1\"", "generation: \"3\""));
    assert_eq!(host.status()["hold"]["by"], "schedpatch restore --to last-good");
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn the_last_good_text_does_not_undo_an_upgrade() {
    let host = Host::new("back-upgrade");
    host.ok(&APPLY);
    host.proven();
    let upgraded = String::from_utf8(host.original.clone()).expect("text").replace("v1.36.1", "v1.36.2");
    fs::write(host.target(), &upgraded).expect("written");
    host.ok(&["apply", "--source", "b"]);
    assert!(host.ok(&["restore", "--to", "last-good"]).contains("the manifest itself has changed since"));
    assert_eq!(host.text(), upgraded);
}

#[test]
fn the_last_good_revision_comes_back_only_whole() {
    let host = Host::new("whole");
    fs::write(host.root.join("a/ca.txt"), "a file beside").expect("written");
    host.ok(&APPLY);
    host.proven();
    let revision = host.status()["applied"]["revision"].as_str().expect("text").to_owned();
    host.ok(&["apply", "--source", "b"]);
    fs::remove_file(host.state("revisions").join(revision).join("ca.txt")).expect("removed");
    assert!(host.ok(&["restore", "--to", "last-good", "--dry-run"]).contains("warning[no-last-good]"));
    assert!(host.ok(&["restore", "--to", "last-good"]).contains("its files are not what they were"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
}

#[test]
fn only_the_very_text_that_was_proven_counts_as_verified() {
    let host = Host::new("verified");
    host.ok(&APPLY);
    host.proven();
    assert_eq!(host.status()["applied"]["verified"], true);
    fs::write(host.target(), host.text().replace("v1.36.1", "v1.36.2")).expect("written");
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&APPLY);
    assert_eq!(host.status()["drift"], "none", "what others added is taken in");
    assert_eq!(host.status()["applied"]["verified"], false);
    host.ok(&["restore"]);
    let original = String::from_utf8(host.original.clone()).expect("text");
    assert_eq!(host.text(), original.replace("v1.36.1", "v1.36.2"));
}

#[test]
fn what_must_not_be_forgotten_is_saved_from_a_journal_that_cannot_be_read() {
    let host = Host::new("rescued");
    for source in ["a", "b", "a"] {
        host.ok(&["apply", "--source", source]);
    }
    host.edit_journal(|journal| {
        journal["version"] = 99.into();
        journal["bad"]["0123456789ab"] = serde_json::json!({"reason": "no", "since": "2026-11-16T18:31:08Z"});
    });
    let texts = listing(&host.state("texts")).len();
    host.ok(&["restore"]);
    assert_eq!(host.journal()["generation"], 3);
    assert_eq!(host.journal()["bad"]["0123456789ab"]["reason"], "no");
    assert_eq!(listing(&host.state("texts")).len(), texts, "who cannot read what is needed removes nothing");
    assert!(host.state("state.json.damaged-1").is_file());
}
