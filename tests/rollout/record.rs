//! What the Lease keeps: its limits, and texts that cannot be used.

use schedpatch::rollout::{ChangeKind, Entry, Failed, Record, RecordError};
use schedpatch::timestamp::Timestamp;

use crate::world::digest;

fn failed(number: usize, words: String) -> Failed {
    Failed { digest: digest(number), node: "cp1".to_owned(), words, since: Timestamp::from_unix(0) }
}

fn entry() -> Entry {
    Entry {
        node: "cp1".to_owned(),
        nonce: "n".to_owned(),
        change: ChangeKind::Back,
        digest: None,
        revision: None,
        number: 3,
        generation: 7,
        renewed: 2,
    }
}

#[test]
fn ten_failures_are_kept_and_never_that_of_what_is_wanted_is_dropped() {
    let mut record = Record::default();
    for number in 0..14 {
        record.fail(failed(number, String::new()), Some(digest(0)));
    }
    assert_eq!(record.failed.len(), 10);
    assert!(record.has_failed(digest(0)) && record.has_failed(digest(13)) && !record.has_failed(digest(1)));
}

#[test]
fn the_words_of_a_failure_are_cut_to_a_kibibyte_between_characters() {
    let mut record = Record::default();
    record.fail(failed(0, "ä".repeat(1000)), None);
    assert_eq!(record.failed[0].words, "ä".repeat(512));
}

#[test]
fn what_is_written_is_read_again() {
    let mut record = Record { paused: true, sealed: Some(digest(1)), ..Record::default() };
    record.fail(failed(0, "it ended".to_owned()), None);
    record.entry = Some(entry());
    assert_eq!(Record::read(&record.write().expect("JSON")), Ok(record));
}

#[test]
fn a_newer_or_malformed_text_is_an_error_and_never_an_empty_record() {
    let newer = r#"{"version": 2, "somethingNew": []}"#;
    assert_eq!(Record::read(newer), Err(RecordError::Newer(2)));
    for text in ["", "null", "{}", "[", r#"{"version": 1, "pausd": true}"#, r#"{"version": 1, "sealed": "x"}"#] {
        assert!(matches!(Record::read(text), Err(RecordError::Malformed(_))), "{text}");
    }
}

#[test]
fn a_retry_voids_failures_and_forgetting_a_node_frees_its_turn() {
    let mut record = Record::default();
    record.fail(failed(0, String::new()), None);
    record.retry();
    assert_eq!((record.retries, record.failed.len()), (1, 0));
    record.entry = Some(entry());
    record.forget("cp2");
    assert!(record.entry.is_some(), "another node's");
    record.forget("cp1");
    assert_eq!(record.entry, None);
}
