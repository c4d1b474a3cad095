//! Plainly written documents are read once: the values found then must be those that `serde_yaml` reads. And a text never
//! holds more values than it seems to at a glance.
//!
//! Over the golden files, and over generated and damaged ones. SCHEDPATCH_FUZZ_INPUTS and SCHEDPATCH_FUZZ_SEED try more.

use std::fs;
use std::path::Path;

use crate::support::configs::config;
use crate::support::manifests::manifest;
use crate::support::mutate::mutate;
use crate::support::rng::Rng;
use serde_yaml::Value;

const INPUTS: u64 = 80_000;

/// Values that readers quarrel about.
#[rustfmt::skip]
const WORDS: [&str; 78] = [
    "0", "-0", "+1", "1.0", "1e3", "1E-3", ".5", "5.", "-.5", "+.5", ".inf", "-.inf", "+.Inf", ".nan", ".NaN", "inf",
    "nan", "infinity", "1.2.3", "1e999", "-1e999", "1e-999", "1e", "e1", "--1", "+-1", "-", "+", ".", "..", "0x1F",
    "0X1F", "-0x1f", "+0x10", "0x", "0x+1", "0o17", "-0o17", "017", "08", "0b11", "1_000", "12:30:45", "2001-01-01",
    "18446744073709551615", "18446744073709551616", "-9223372036854775808", "-9223372036854775809",
    "99999999999999999999999999999999999999999999", "0xFFFFFFFFFFFFFFFFF", "0x00000000000000000001", "~", "null",
    "Null", "nULL", "true", "True", "tRUE", "FALSE", "yes", "=", "<<", "''", "\"\"", "'it''s'",
    "\"\\u00e9\\x41\\n\\/\"", "\"\\ud83d\\ude00\"", "\"a\n    b\"", "|\n      a\n       b\n\n",
    ">-\n      a\n      b\n\n      c\n", "|2\n        a\n", "a\n      b\n\n      c", "[a, b: c, {d: e}, 'f', \"g\",]",
    "[]", "{}", "[ ]", "a # b", "a#b",
];

/// Lines that readers quarrel about.
#[rustfmt::skip]
const LINES: [&str; 62] = [
    "--- ", "--- a", "--- # b", "--- a: b", "--- - a", "---", "...", "... # x", "? a", ": b", "? a\n: b", "- - a",
    "-", "- ", "%TAG ! tag:x,2000:", "%FOO bar", "key : v", "'a' : b", "'a': b", "\"a\":b", "a:b", "a: b: c",
    "a: b:c", "@x", "`y", "a: @b", "a: %b", "a: b # c", "#x", "a: - b", "a: ?b", "a: ? b", "a: [", "a: ]",
    "a: {} # x", "a: \"\\q\"", "a: 'x' y", "a: |", "-  - a", "a:   ", "a: -", "a: :", "a: b:", "a: ,", "a: x,y",
    "a: {}x", "a: !", "a: &", "a: *", "a: !!str", "? ", "- ? a", "- a:\n  b", "a:\nb:", "\"a b\" : c", "<<: {a: b}",
    "1: a", "true: a", "True: a", "~: a", "null: a", "'': a",
];

/// What was found; `Err` if the readers do not agree.
fn judge(text: &str) -> Result<&'static str, String> {
    let (size, at_most) = (yaml_edit::size_of(text), yaml_edit::size_at_most(text));
    let is_more = |most: yaml_edit::Size| {
        most.values < size.values || most.keys < size.keys || most.collections < size.collections
    };
    if at_most.is_some_and(is_more) {
        return Err(format!("{size:?} at a glance is at most {at_most:?}\n{text}"));
    }
    let Ok(survey) = yaml_edit::survey(text, |_| false) else { return Ok("refused") };
    let Some(ours) = survey.values else { return Ok("left to serde_yaml") };
    // as texts, because order and the kind of a number count too
    match serde_yaml::from_str::<Value>(text) {
        Ok(theirs) if format!("{ours:?}") == format!("{theirs:?}") => Ok("the same"),
        theirs => Err(format!("{ours:?}\nserde_yaml: {theirs:?}\n{text}")),
    }
}

fn input(rng: &mut Rng) -> String {
    let mut text = match rng.below(6) {
        0 => config(rng, 36).to_string(),
        1..=3 => serde_yaml::to_string(&config(rng, 36)).expect("data is YAML"),
        _ => manifest(rng),
    };
    for _ in 0..rng.below(3) {
        let places: Vec<_> = text.match_indices(": ").map(|(at, _)| at + 2).collect();
        let Some(at) = places.get(rng.below(places.len())).copied() else { break };
        let end = text[at..].find(['\n', ',', '}']).map_or(text.len(), |length| at + length);
        text.replace_range(at..end, rng.pick(&WORDS));
    }
    if rng.once_in(4) {
        let mut lines: Vec<_> = text.split_inclusive('\n').collect();
        let at = rng.below(lines.len() + 1);
        let indent = lines.get(at).map_or(0, |line| line.len() - line.trim_start_matches(' ').len());
        let line = format!("{:indent$}{}\n", "", rng.pick(&LINES));
        lines.insert(at, &line);
        text = lines.concat();
    }
    for _ in 0..rng.below(4).saturating_sub(1) {
        text = mutate(&text, rng);
    }
    text
}

/// All texts below `dir`.
fn texts(dir: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(dir).expect("the folder is there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            texts(&path, found);
        } else {
            found.extend(fs::read_to_string(path));
        }
    }
}

#[test]
fn golden_files_have_the_same_values() {
    let mut found = Vec::new();
    texts(&Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden"), &mut found);
    let same =
        found.iter().filter(|text| judge(text).unwrap_or_else(|failure| panic!("{failure}")) == "the same").count();
    println!("{same} of {} files are plainly written", found.len());
    assert!(same >= 300, "too few files to mean anything");
}

#[test]
fn generated_and_damaged_files_have_the_same_values() {
    let setting = |name: &str, default| std::env::var(name).map_or(default, |value| value.parse().expect("a number"));
    let (first, inputs) = (setting("SCHEDPATCH_FUZZ_SEED", 0), setting("SCHEDPATCH_FUZZ_INPUTS", INPUTS));
    let mut counts = std::collections::BTreeMap::new();
    for seed in first..first + inputs {
        let verdict = judge(&input(&mut Rng::new(seed))).unwrap_or_else(|failure| panic!("seed {seed}: {failure}"));
        *counts.entry(verdict).or_insert(0) += 1;
    }
    println!("{inputs} inputs: {counts:?}");
    assert!(counts["the same"] * 4 >= inputs, "too few inputs are plainly written to mean anything: {counts:?}");
}

/// JSON needs no second reader either; what only looks like it, or what readers quarrel about, does.
#[test]
fn json_is_read_once() {
    for plain in [
        r#"{"a":1,"b":[true,false,null,-2,3.5,1e3],"c":{"d":"e"},"f":[],"g":{}}"#,
        "{\n  \"a\": [\n    \"http://127.0.0.1:80/x\",\n    \"#\", \"- \", \"{{\"\n  ]\n}\n",
        r#"[{"a": ""}, ["b"]]"#,
    ] {
        assert_eq!(judge(plain), Ok("the same"), "{plain}");
    }
    for odd in [
        r#"{"a" :1}"#,
        r#"{"a":1} x"#,
        r#"["a": 1]"#,
        r#"["a", b: c]"#,
        "[1,,2]",
        "[,1]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a",}"#,
        r#"{"a":}"#,
        "{a: 1}",
        "{'a': 1}",
        r#"{"a": 'b'}"#,
        r#"{"a": b}"#,
        r#"{"a": "b\/c"}"#,
        r#"{"a": "\ud83d\ude00"}"#,
        "{\"a\": \"b\n c\"}",
        r#"{"a": 1-2}"#,
        r#"{"a": 0x1F}"#,
        r#"{"a": 017}"#,
        r#"{"a": 1e999}"#,
        r#"{"a": 18446744073709551616}"#,
        r#"{"a": -}"#,
        r#"{"a": .5}"#,
        r#"{"a": +1}"#,
        r#"{"a": 12:30}"#,
        r#"{"a": 1 # b"#,
        "{\"a\": 1 # b\n}",
        r#"{"a": &x 1}"#,
        r#"{"a": !!str 1}"#,
        "{\"a\":\t1}",
        "{\"a\":1}\n---\n{}",
        "{\"a\":1}\n...\n",
        "{\n\"a\":\n1\n}",
        "{\"a\"\n:1}",
        "{1: 2}",
        r#"{"a": ~}"#,
        r#"{"a":NULL}"#,
        r#"? {"a": 1}"#,
        r#"{? "a": 1}"#,
        r#"{"a": [1, 2}"#,
        "[\"a\", \"b\",]",
        r#"{"": 1}"#,
        r#"{"a": 1, "a": 2}"#,
        r#"{"a":1,"b":-0}"#,
    ] {
        judge(odd).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn long_keys_and_deep_files_are_left_to_the_reader_that_has_limits_for_them() {
    for size in [1, 255, 256, 257, 1000, 1024, 1025, 2000] {
        judge(&format!("a: 1\n{}: b\n", "k".repeat(size))).unwrap_or_else(|failure| panic!("{failure}"));
        judge(&format!("{{\"{}\": 1}}\n", "k".repeat(size))).unwrap_or_else(|failure| panic!("{failure}"));
    }
    for depth in [1, 63, 64, 65, 127, 128, 129, 200] {
        let nested = (0..depth).map(|level| " ".repeat(level) + "a:\n").collect::<String>();
        judge(&nested).unwrap_or_else(|failure| panic!("{failure}"));
        judge(&format!("{}a\n", "- ".repeat(depth))).unwrap_or_else(|failure| panic!("{failure}"));
        let json = format!("{}1{}\n", "[".repeat(depth), "]".repeat(depth));
        judge(&json).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn comments_may_be_as_many_as_one_likes() {
    let comments = "  # nothing\n".repeat(5_000);
    let text = format!("a:\n{comments}  b: 1\n{comments}c:\n{comments}- d\n{comments}");
    assert_eq!(judge(&text), Ok("the same"));
}
