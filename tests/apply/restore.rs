//! `restore`: the original comes back, and stays until the next `apply`.

use super::host::{APPLY, Host, everything};
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;

#[test]
fn restore_gives_back_every_byte_and_holds_until_the_next_apply() {
    let host = Host::new("restore");
    host.ok(&APPLY);
    assert!(host.ok(&["restore"]).contains("Held"));
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    assert_eq!(host.status()["hold"]["by"], "schedpatch restore");
    let before = everything(&host.root.join("host"));
    host.ok(&["restore"]);
    assert_eq!(before, everything(&host.root.join("host")), "restoring twice writes nothing");
    assert!(host.ok(&["plan", "--source", "a"]).contains("note[hold]"));
    host.ok(&APPLY);
    assert!(host.status()["hold"].is_null());
    assert_eq!(host.status()["applied"]["generation"], 2);
}

#[test]
fn restore_needs_no_state_and_bears_a_damaged_one() {
    let host = Host::new("stateless");
    host.ok(&APPLY);
    fs::remove_dir_all(host.state("")).expect("removed");
    host.ok(&["restore"]);
    assert_eq!(fs::read(host.target()).expect("there"), host.original);
    host.ok(&APPLY);
    for damage in ["", "{", "{\"version\":99}", "{\"version\":1,\"surprise\":true}", "[]"] {
        fs::write(host.state("state.json"), damage).expect("written");
        host.refuses(&["apply", "--source", "b"], "state");
        assert!(host.ok(&["restore"]).contains("warning[state]"), "{damage}");
        assert_eq!(fs::read(host.target()).expect("there"), host.original, "{damage}");
        host.ok(&APPLY);
    }
}

#[test]
fn an_upgrade_in_between_is_never_undone() {
    let host = Host::new("upgrade");
    host.ok(&APPLY);
    let upgraded = host.text().replace("v1.36.1", "v1.36.2");
    assert_ne!(upgraded, host.text());
    fs::write(host.target(), &upgraded).expect("written");
    assert_eq!(host.status()["drift"], "edited");
    host.ok(&["restore"]);
    let original = String::from_utf8(host.original.clone()).expect("text");
    assert_eq!(host.text(), original.replace("v1.36.1", "v1.36.2"));
}

#[test]
fn odd_things_in_our_directory_do_not_stop_a_restore() {
    let host = Host::new("odd");
    let oddities: [fn(&Host); 7] = [
        |host| fs::create_dir(host.state("texts/foo")).expect("made"),
        |host| symlink("/nonexistent", host.state("texts/foo")).expect("linked"),
        |host| fs::create_dir_all(host.state("revisions/cafe/sub")).expect("made"),
        |host| fs::create_dir(host.state(".x.schedpatch")).expect("made"),
        |host| fs::write(host.state("texts/big"), vec![b'x'; 11 << 20]).expect("written"),
        |host| {
            fs::remove_file(host.state("state.json")).expect("removed");
            fs::create_dir(host.state("state.json")).expect("made");
        },
        |host| fs::remove_dir_all(host.state("revisions")).expect("removed"),
    ];
    for (number, oddity) in oddities.iter().enumerate() {
        let _ = fs::remove_dir_all(host.state(""));
        fs::write(host.target(), &host.original).expect("written");
        host.ok(&APPLY);
        oddity(&host);
        host.ok(&["restore"]);
        assert_eq!(fs::read(host.target()).expect("there"), host.original, "oddity {number}");
    }
}

#[test]
fn somebody_who_took_ours_out_before_us_is_believed() {
    let host = Host::new("gone");
    host.ok(&APPLY);
    let upgraded = String::from_utf8(host.original.clone()).expect("text").replace("v1.36.1", "v1.36.2");
    fs::write(host.target(), &upgraded).expect("written");
    assert_eq!(host.status()["drift"], "gone");
    host.ok(&["restore"]);
    assert_eq!(host.status()["drift"], "none");
    assert_eq!(host.text(), upgraded);
}

#[test]
fn the_hold_of_the_page_for_three_in_the_morning_is_understood() {
    let host = Host::new("by-hand");
    host.ok(&APPLY);
    fs::write(host.target(), &host.original).expect("written");
    let page =
        fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/use/undo-by-hand.md")).expect("the page");
    let line = page.lines().find(|line| line.starts_with("printf ")).expect("the line that writes a hold");
    let json = line.split('\'').nth(1).expect("in quotes").replace("%s", "2026-11-16T18:31:08Z").replace("\\n", "\n");
    fs::write(host.state("state.json"), json).expect("written");
    assert_eq!(host.status()["hold"]["by"], "me");
    assert_eq!(host.status()["drift"], "none");
    host.ok(&APPLY);
    assert_eq!(host.status()["applied"]["generation"], 1001);
}

#[test]
fn a_half_undone_manifest_is_not_called_clean() {
    let host = Host::new("half");
    host.ok(&APPLY);
    let half: String = host
        .text()
        .lines()
        .filter(|line| !line.contains("schedpatch.io/"))
        .fold(String::new(), |text, line| text + line + "\n");
    fs::write(host.target(), half.replace("schedpatch-config", "my-config")).expect("written");
    for args in [&["restore"][..], &["restore", "--purge"], &["restore", "--to", "last-good"]] {
        assert!(host.refuses(args, "undo-record").contains("texts/"), "{args:?}");
    }
    assert!(host.state("revisions").read_dir().expect("there").next().is_some());
}

#[test]
fn a_failed_apply_does_not_end_a_hold() {
    let host = Host::new("kept-hold");
    host.ok(&APPLY);
    host.ok(&["restore"]);
    // something in the way of the unfinished manifest
    let temp = host.target().with_file_name(".kube-scheduler.yaml.schedpatch");
    fs::create_dir(&temp).expect("made");
    assert_eq!(host.run(&APPLY).status.code(), Some(1));
    assert!(!host.status()["hold"].is_null());
    fs::remove_dir(&temp).expect("removed");
    host.ok(&APPLY);
    assert!(host.status()["hold"].is_null());
}
