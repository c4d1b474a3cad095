//! Others edit the unit between our edit and its restoration.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use support::{Random, corpus};
use unit_edit::{Argument, Change, Edit, ErrorKind, Unit};

const OWNER: &str = "schedpatch";
const INSTALLED: &str =
    "[Service]\nExecStart=/usr/local/bin/k3s \\\n    server \\\n\t'--disable=traefik' \\\n\n[Install]\nWantedBy=x\n";

fn ours(value: &str) -> [Argument; 1] {
    [Argument::new(format!("--kube-scheduler-arg=config={value}")).named("--kube-scheduler-arg=config=")]
}

fn edit(text: &str, value: &str) -> String {
    let arguments = ours(value);
    let edit = Edit { owner: OWNER, note: "", arguments: &arguments };
    String::from_utf8(Unit::parse("k3s.service", text.as_bytes()).edit(&edit).unwrap()).unwrap()
}

fn restore(text: &str) -> String {
    String::from_utf8(Unit::parse("k3s.service", text.as_bytes()).restore(OWNER).unwrap()).unwrap()
}

fn is_applied(text: &str, value: &str) -> bool {
    let arguments = ours(value);
    Unit::parse("k3s.service", text.as_bytes())
        .is_applied(&Edit { owner: OWNER, note: "", arguments: &arguments })
        .unwrap()
}

#[track_caller]
fn check(change: (&str, &str), expected: (&str, &str)) {
    let edited = edit(INSTALLED, "/new");
    assert!(edited.contains(change.0), "{edited}");
    let restored = restore(&edited.replacen(change.0, change.1, 1));
    assert_eq!(restored, INSTALLED.replacen(expected.0, expected.1, 1));
}

#[test]
fn an_argument_added_before_ours_stays() {
    check(
        ("\t'--disable=traefik' \\\n", "\t'--disable=traefik' \\\n\t--more \\\n"),
        ("traefik' \\\n", "traefik' \\\n\t--more \\\n"),
    );
}

#[test]
fn an_argument_added_behind_ours_stays() {
    let last = "\t'--kube-scheduler-arg=config=/new' \\\n";
    check((last, &format!("{last}\t--more \\\n")), ("traefik' \\\n", "traefik' \\\n\t--more \\\n"));
}

#[test]
fn a_list_that_somebody_closed_at_our_argument_is_closed_before_it() {
    check(("/new' \\\n\n[Install]", "/new'\n[Install]"), ("traefik' \\\n\n[Install]", "traefik'\n[Install]"));
}

#[test]
fn our_argument_on_another_line_or_with_other_quotes_is_found() {
    check((" \\\n\t'--kube-scheduler-arg=config=/new' \\\n", " --kube-scheduler-arg=config=/new \\\n"), ("x", "x"));
    check(("'--kube-scheduler-arg=config=/new'", "\"--kube-scheduler-arg=config=/new\""), ("x", "x"));
}

#[test]
fn a_comment_between_the_lines_stays() {
    check(("\t'--kube", "# a note\n\t'--kube"), ("traefik' \\\n", "traefik' \\\n# a note\n"));
}

#[test]
fn an_argument_that_somebody_removed_is_not_missed() {
    check(("\t'--kube-scheduler-arg=config=/new' \\\n", ""), ("x", "x"));
}

#[test]
fn an_argument_that_somebody_changed_is_theirs_now() {
    check(("/new' \\", "/theirs' \\"), ("traefik' \\\n", "traefik' \\\n\t'--kube-scheduler-arg=config=/theirs' \\\n"));
}

#[test]
fn changes_elsewhere_stay() {
    check(("WantedBy=x", "WantedBy=y\nAlias=z"), ("WantedBy=x", "WantedBy=y\nAlias=z"));
    check(("[Service]\n", "# top\n[Service]\nRestart=no\n"), ("[Service]\n", "# top\n[Service]\nRestart=no\n"));
}

#[test]
fn a_command_that_somebody_put_behind_ours_is_left_alone() {
    let text = edit(INSTALLED, "/new").replace("[Install]", "ExecStart=\nExecStart=/other\n[Install]");
    assert!(!is_applied(&text, "/new"));
    assert_eq!(restore(&text), INSTALLED.replace("[Install]", "ExecStart=\nExecStart=/other\n[Install]"));
}

#[test]
fn an_argument_of_the_same_name_behind_ours_overrides_it_and_is_taken_over() {
    let text = edit(INSTALLED, "/new").replace("/new' \\\n", "/new' \\\n\t--kube-scheduler-arg=config=/theirs \\\n");
    assert!(!is_applied(&text, "/new"));
    let again = edit(&text, "/new");
    assert!(is_applied(&again, "/new") && !again.contains("config=/theirs \\"));
    assert_eq!(
        restore(&again),
        INSTALLED.replace("traefik' \\\n", "traefik' \\\n\t--kube-scheduler-arg=config=/theirs \\\n")
    );
}

#[test]
fn a_displaced_argument_comes_back_between_other_changes() {
    let patched = INSTALLED.replace("'--disable=traefik'", "\"--kube-scheduler-arg=config=/theirs\" --x");
    let edited = edit(&patched, "/new");
    assert_eq!(
        edited.matches("--kube-scheduler-arg").count(),
        3,
        "once in the command line, twice in the comment: {edited}"
    );
    let unit = Unit::parse("k3s.service", edited.as_bytes());
    let was = b"\"--kube-scheduler-arg=config=/theirs\"".to_vec();
    let word = "--kube-scheduler-arg=config=/new".to_owned();
    assert_eq!(unit.record(OWNER).unwrap().unwrap().changes, [Change::Set { word, was }]);
    assert_eq!(restore(&edited.replace("--x", "--x --y")), patched.replace("--x", "--x --y"));
}

#[test]
fn two_owners_come_and_go_in_any_order() {
    let other = [Argument::new("--other")];
    let other = Edit { owner: "other", note: "", arguments: &other };
    let first = edit(INSTALLED, "/new");
    let both = Unit::parse("k3s.service", first.as_bytes()).edit(&other).unwrap();
    let unit = Unit::parse("k3s.service", &both);
    let without_other = unit.restore("other").unwrap();
    assert_eq!(String::from_utf8(without_other).unwrap(), first);
    let without_ours = unit.restore(OWNER).unwrap();
    assert_eq!(Unit::parse("k3s.service", INSTALLED.as_bytes()).edit(&other).unwrap(), without_ours);
}

#[test]
fn a_comment_that_was_changed_or_doubled_is_refused_with_its_line() {
    let edited = edit(INSTALLED, "/new");
    for text in
        [edited.replace("add=", "add=-"), edited.replace("[Service]\n# s", "[Service]\n# schedpatch-undo: v2 x\n# s")]
    {
        let error = Unit::parse("k3s.service", text.as_bytes()).restore(OWNER).unwrap_err();
        assert_eq!((error.kind, error.line), (ErrorKind::Record, Some(2)), "{error}");
    }
    let line = edited.lines().nth(1).unwrap();
    let text = edited.replace("[Service]\n", &format!("[Service]\n{line}\n"));
    let error = Unit::parse("k3s.service", text.as_bytes()).restore(OWNER).unwrap_err();
    assert_eq!((error.kind, error.line), (ErrorKind::Record, Some(3)), "{error}");
}

#[test]
fn a_note_changes_the_comment_alone() {
    let arguments = ours("/new");
    let apply = |text: &[u8], note: &str| {
        Unit::parse("k3s.service", text).edit(&Edit { owner: OWNER, note, arguments: &arguments }).unwrap()
    };
    let first = apply(INSTALLED.as_bytes(), "generation=1, with blanks \\");
    let second = apply(&first, "generation=2");
    let differing = String::from_utf8_lossy(&first)
        .lines()
        .zip(String::from_utf8_lossy(&second).lines())
        .filter(|(a, b)| a != b)
        .count();
    assert_eq!(differing, 1);
    assert_eq!(Unit::parse("k3s.service", &first).record(OWNER).unwrap().unwrap().note, "generation=1, with blanks \\");
}

/// Lines that others add anywhere outside of our lines are there after restoring, and nothing else has changed.
#[test]
fn lines_added_anywhere_outside_of_the_command_line_stay() {
    let arguments = ours("/new");
    let edit = Edit { owner: OWNER, note: "1", arguments: &arguments };
    let mut random = Random(7);
    let mut tried = 0;
    for before in corpus() {
        let Ok(after) = Unit::parse("u.service", &before).edit(&edit) else { continue };
        let same_start = before.iter().zip(&after).take_while(|(a, b)| a == b).count();
        let same_end = before.iter().rev().zip(after.iter().rev()).take_while(|(a, b)| a == b).count();
        for _ in 0..50 {
            let line = format!(
                "{}\n",
                random.pick::<str>(&["# note", "", "X-Key=value", "Environment=A=b", "; \\", "[Service]"])
            );
            // a whole line before all changes, or behind them
            let starts = |text: &[u8]| {
                text.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect::<Vec<_>>()
            };
            let is_before = random.chance(50);
            let is_outside = |at: &usize| if is_before { *at < same_start } else { after.len() - at < same_end };
            let places: Vec<usize> = starts(&after).into_iter().filter(is_outside).collect();
            let Some(&at) = places.get(random.below(places.len())) else { continue };
            let at_before = if is_before { at } else { before.len() - (after.len() - at) };
            let insert = |text: &[u8], at: usize| [&text[..at], line.as_bytes(), &text[at..]].concat();
            let (foreign, expected) = (insert(&after, at), insert(&before, at_before));
            match Unit::parse("u.service", &foreign).restore(OWNER) {
                Ok(restored) => assert_eq!(String::from_utf8_lossy(&restored), String::from_utf8_lossy(&expected)),
                Err(error) => panic!("{error}\n{}", String::from_utf8_lossy(&foreign)),
            }
            tried += 1;
        }
    }
    assert!(tried > 1_000, "{tried}");
}
