//! systemd's rules, one by one. `tests/systemd` asks a real systemd about the same lines.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod support;

use support::rules::{BYTE_ORDER_MARKS, COMMENTS, CONTINUED, PREFIXES, QUOTES, RESETS, Rules};
use unit_edit::{ErrorKind, Unit, effective};

/// The command lines that take effect, with `|` between words and ` / ` between commands.
fn commands(text: &[u8]) -> String {
    let unit = Unit::parse("u.service", text);
    let show = |argv: Vec<Vec<u8>>| {
        argv.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect::<Vec<_>>().join("|")
    };
    unit.exec_starts().iter().map(|command| show(command.argv())).collect::<Vec<_>>().join(" / ")
}

fn service(lines: &str) -> String {
    commands(format!("[Service]\n{lines}").as_bytes())
}

#[track_caller]
fn check(rules: Rules) {
    for (lines, expected) in rules {
        assert_eq!(service(lines), *expected, "{lines:?}");
    }
}

#[test]
fn a_line_is_continued_if_its_very_last_character_is_a_backslash_that_nothing_escapes() {
    check(CONTINUED);
}

#[test]
fn comments_are_whole_lines_and_may_be_between_continued_ones() {
    check(COMMENTS);
}

#[test]
fn quotes_may_be_anywhere_and_escapes_count_in_all_of_them() {
    check(QUOTES);
}

#[test]
fn specifiers_and_variables_stay_as_they_are_until_the_host_replaces_them() {
    let text = b"[Service]\nExecStart=/x %% 100% %n $A ${A} a$A $$A a${B} $\n";
    let unit = Unit::parse("u.service", text);
    let words = unit.exec_start().unwrap().arguments();
    let text = |word: Option<Vec<u8>>| word.map(|word| String::from_utf8(word).unwrap());
    let loaded: Vec<Option<String>> = words.iter().map(|word| text(word.loaded())).collect();
    let literal: Vec<Option<String>> = words.iter().map(|word| text(word.literal())).collect();
    let expect =
        |words: &[&str]| words.iter().map(|word| (*word != "?").then(|| (*word).to_owned())).collect::<Vec<_>>();
    assert_eq!(loaded, expect(&["%", "100%", "?", "$A", "${A}", "a$A", "$$A", "a${B}", "$"]));
    assert_eq!(literal, expect(&["%", "100%", "?", "?", "?", "a$A", "$A", "?", "?"]));
    let unit = Unit::parse("u.service", b"[Service]\nExecStart=:/x $$A\n");
    assert_eq!(text(unit.exec_start().unwrap().arguments()[0].literal()).as_deref(), Some("$$A"));
}

#[test]
fn an_empty_value_resets_and_semicolons_part_commands() {
    check(RESETS);
}

#[test]
fn prefixes_come_before_the_path_in_any_order() {
    check(PREFIXES);
    let unit = Unit::parse("u.service", b"[Service]\nExecStart=-:@!/x name a\n");
    let command = unit.exec_start().unwrap();
    let prefixes = command.prefixes();
    assert!(
        prefixes.ignores_failure && prefixes.keeps_variables && prefixes.names_itself && prefixes.changes_privileges
    );
    assert_eq!(command.path(), b"/x");
    assert_eq!(command.arguments().len(), 1);
}

#[test]
fn the_first_byte_order_mark_at_the_beginning_of_a_line_is_skipped() {
    check(BYTE_ORDER_MARKS);
}

#[test]
fn only_the_service_section_counts_and_it_may_come_twice() {
    for (text, expected) in [
        ("ExecStart=/x\n", ""),
        ("[Unit]\nExecStart=/x\n", ""),
        ("[service]\nExecStart=/x\n", ""),
        ("[ Service]\nExecStart=/x\n", ""),
        ("  [Service]  \nExecStart=/x\n", "/x"),
        ("[Ser\\\nvice]\nExecStart=/x\n", ""),
        ("[Service]\n[Unit]\n[Service]\n execstart=/y\n ExecStart = /x\n", "/x"),
        ("\u{feff}[Service]\nExecStart=/x\n", "/x"),
        ("# c\n\u{feff}[Service]\nExecStart=/x\n", "/x"),
        ("\u{feff}\u{feff}[Service]\nExecStart=/x\n", ""),
        ("[Service]\0ExecStart=/x\0", "/x"),
        ("[Service]\n=/y\nnothing\nExecStart=/x\n", "/x"),
    ] {
        assert_eq!(commands(text.as_bytes()), expected, "{text:?}");
    }
}

#[test]
fn what_systemd_does_not_load_is_named_with_its_line() {
    let long = format!("[Service]\nX-A={}\n", "a".repeat((1 << 20) - 4));
    let longest = format!("[Service]\nX-A={}\n", "a".repeat((1 << 20) - 5));
    let continued = format!("[Service]\nX-A={0}\\\n{0}\n", "a".repeat(600_000));
    for (text, line) in [
        ("[Service]\n[Unit\n", Some(2)),
        ("[Service]\n[a'b]\n", Some(2)),
        ("[Service]\nExecStart=/x 'a\n", Some(2)),
        ("[Service]\nExecStart=/x \\\n %Z\n", Some(3)),
        ("[Service]\nExecStart=\"\"\n", Some(2)),
        ("[Service]\nExecStart=/x/\n", Some(2)),
        ("[Service]\nExecStart=x/y\n", Some(2)),
        ("[Service]\nExecStart=@/x\n", Some(2)),
        ("[Service]\nExecStartPre=/x 'a\n", Some(2)),
        ("[Service]\nX-A=\u{fffe}\n", Some(2)),
        ("[Service]\n# \u{fffe}\nExecStart=-/x 'a\n", None),
        (&long, Some(2)),
        (&longest, None),
        (&continued, Some(3)),
    ] {
        let unit = Unit::parse("u.service", text.as_bytes());
        let found = unit.check().err().map(|error| (error.kind, error.line));
        assert_eq!(found, line.map(|line| (ErrorKind::Unloadable, Some(line))), "{:?}", &text[..text.len().min(60)]);
    }
}

#[test]
fn drop_ins_come_after_the_unit_and_the_last_one_wins() {
    let fragment = Unit::parse("k3s.service", b"[Service]\nType=notify\nExecStart=/x server\n");
    let quiet = || Unit::parse("10-a.conf", b"[Service]\nRestart=no\n");
    let replaces = || Unit::parse("20-b.conf", b"[Service]\n\nExecStart=\nExecStart=/x 'server two'\n");
    let adds = || Unit::parse("30-c.conf", b"[Service]\nExecStart=/y\n");
    let broken = || Unit::parse("40-d.conf", b"[Service]\nExecStart=\nExecStart=/z\n[Unit\nExecStart=\n");

    let files = [quiet()];
    let found = effective(&fragment, &files).unwrap();
    assert_eq!((found.exec_start().unwrap().file(), found.exec_start().unwrap().line()), ("k3s.service", 3));
    assert_eq!(found.overridden_by("k3s.service"), None);

    let files = [quiet(), replaces()];
    let found = effective(&fragment, &files).unwrap();
    let command = found.exec_start().unwrap();
    assert_eq!(
        (command.file(), command.line(), command.argv()),
        ("20-b.conf", 4, vec![b"/x".to_vec(), b"server two".to_vec()])
    );
    assert_eq!(found.overridden_by("k3s.service"), Some(("20-b.conf", 3)));
    assert_eq!(found.overridden_by("20-b.conf"), None);

    let files = [adds()];
    let error = effective(&fragment, &files).unwrap_err();
    assert_eq!((error.kind, error.file.as_str(), error.line), (ErrorKind::SeveralCommands, "30-c.conf", Some(2)));

    let files = [Unit::parse("00.conf", b"[Service]\nType=oneshot\n"), adds()];
    assert_eq!(effective(&fragment, &files).unwrap().commands().len(), 2);

    // systemd uses of a broken drop-in what is before the place
    let files = [broken()];
    let found = effective(&fragment, &files).unwrap();
    assert_eq!(found.exec_start().unwrap().path(), b"/z");
    assert_eq!(found.unreadable().map(|error| error.line).collect::<Vec<_>>(), [Some(4)]);
}
