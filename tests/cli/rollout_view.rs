//! `schedpatch rollout status` as people see it.

use schedpatch::fleet::{Columns, NodeSummary, show_rollout};
use schedpatch::revision::Digest;
use schedpatch::rollout::{ChangeKind, Entry, Failed, Record};
use schedpatch::timestamp::Timestamp;

use super::cluster_objects::root;

fn node(name: &str, phase: &str, reason: &str, since: &str) -> NodeSummary {
    NodeSummary {
        name: name.to_owned(),
        phase: phase.to_owned(),
        reason: reason.to_owned(),
        message: format!("the words of {reason}"),
        since: since.to_owned(),
        wanted: digest(2).to_string(),
        proven: digest(1).to_string(),
        revision: "0a1b2c3d4e5f".to_owned(),
        generation: "7".to_owned(),
        scheduler: "v1.36.4".to_owned(),
        ..NodeSummary::default()
    }
}

fn digest(number: u8) -> Digest {
    Digest::of_bytes(&[number])
}

/// `UPDATE_GOLDEN=1` writes it anew.
#[test]
fn the_rollout_is_shown_in_120_columns_with_ages_and_wide_with_the_rest() {
    let now = Timestamp::try_from("2026-11-16T18:32:00Z".to_owned()).expect("a time");
    let since = Timestamp::try_from("2026-11-13T18:31:18Z".to_owned()).expect("a time");
    let nodes = [
        node("cp1", "Ready", "Proven", "2026-11-13T18:31:18Z"),
        node("cp2", "Verifying", "NotYetProven", "2026-11-16T18:31:18Z"),
        node("ip-10-0-129-147.eu-central-1.compute.internal-and-then-some-more", "Waiting", "AnotherNode", ""),
        NodeSummary { name: "cp4".to_owned(), ..NodeSummary::default() },
    ];
    let mut record = Record { sealed: Some(digest(1)), paused: true, ..Record::default() };
    record.entry = Some(Entry {
        node: "cp2".to_owned(),
        nonce: "n".to_owned(),
        change: ChangeKind::New,
        digest: Some(digest(2)),
        revision: None,
        number: 3,
        generation: 8,
        renewed: 0,
    });
    let words = "revision 9: exit code 1".to_owned();
    record.fail(Failed { digest: digest(3), node: "cp1".to_owned(), words, since }, None);
    record.ask_uninstall(&("set".to_owned(), 1), &["cp4".to_owned()].into());
    let few = show_rollout(&record, &nodes, Columns::Few, now);
    let table: Vec<&str> = few.lines().take_while(|line| !line.is_empty()).collect();
    assert!(table.iter().all(|line| line.chars().count() <= 120), "{few}");
    let forms = format!("{few}\n{}", show_rollout(&record, &nodes, Columns::All, now));
    let path = root().join("tests/formats/rollout.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        std::fs::write(&path, &forms).expect("written");
    }
    assert_eq!(forms, std::fs::read_to_string(&path).expect("run UPDATE_GOLDEN=1 cargo test --test cli"));
}
