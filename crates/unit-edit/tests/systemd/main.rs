//! A real systemd judges: what it reads in damaged units, with drop-ins, before and after an edit.
//!
//! `systemd-analyze verify` loads units without a running systemd and, at the debug level, prints all their settings and
//! the words of their command lines. `UNIT_EDIT_SYSTEMD` says how many units, `UNIT_EDIT_SEED` where they begin.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test writes units and runs systemd-analyze")]

mod analyze;
mod case;
#[path = "../support/mod.rs"]
mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use analyze::{Loaded, load, unquote};
use case::Case;
use support::{corpus, rules};
use unit_edit::{Error, ErrorKind};

const BATCH: u64 = 250;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

fn is_same(ours: &[Vec<Option<Vec<u8>>>], theirs: &[Vec<u8>]) -> bool {
    let theirs: Vec<Vec<Vec<u8>>> = theirs.iter().map(|line| unquote(line)).collect();
    let same_words = |(ours, theirs): (&Vec<Option<Vec<u8>>>, &Vec<Vec<u8>>)| {
        ours.len() == theirs.len()
            && ours.iter().zip(theirs).all(|(ours, theirs)| ours.as_ref().is_none_or(|word| word == theirs))
    };
    ours.len() == theirs.len() && ours.iter().zip(&theirs).all(same_words)
}

/// Counts and disagreements.
#[derive(Default)]
struct Tally {
    counts: BTreeMap<&'static str, u64>,
    wrong: Vec<String>,
}

impl Tally {
    fn count(&mut self, what: &'static str) {
        *self.counts.entry(what).or_default() += 1;
    }

    fn judge(&mut self, case: &Case, fragment: &[u8], loaded: Option<&Loaded>, words: &str) {
        if case.is_undecided(fragment) {
            return self.count("not judged: prefix | or a specifier in the path");
        }
        let ours = case.read(fragment);
        let about: Vec<&str> = words.lines().filter(|line| line.contains(&case.name)).collect();
        match (ours, loaded) {
            (Ok(ours), Some(theirs)) if is_same(&ours, &theirs.commands) => self.count("the same commands"),
            (Ok(ours), Some(theirs)) => {
                let theirs: Vec<_> = theirs.commands.iter().map(|line| String::from_utf8_lossy(line)).collect();
                self.wrong.push(format!("seed {}: ours {ours:?}, systemd's {theirs:?}", case.seed));
            }
            (Err(error), None) if is_named(&error, &about) => self.count("both refuse, for the same line"),
            (Err(_), None) if has_other_reason(&about) => self.count("systemd refuses another setting"),
            (Err(error), None) => self.wrong.push(format!("seed {}: we refuse {error}, systemd {about:#?}", case.seed)),
            (Ok(ours), None) if ours.is_empty() => self.count("no command for either"),
            (Ok(_), None) if has_other_reason(&about) => self.count("systemd refuses another setting"),
            (Ok(_), None) => self.wrong.push(format!("seed {}: only systemd refuses: {about:#?}", case.seed)),
            (Err(error), Some(_)) => self.wrong.push(format!("seed {}: only we refuse: {error}", case.seed)),
        }
    }

    fn copy(&mut self, case: &Case, before: Option<&Loaded>, copy: Option<&Loaded>) {
        match (before, copy) {
            (Some(before), Some(copy)) if before.commands == copy.commands => {
                self.count("the same commands as a drop-in");
            }
            (None, None) => self.count("a drop-in of a unit that is not loaded"),
            _ => self.wrong.push(format!("seed {}: a drop-in changes the commands", case.seed)),
        }
    }

    fn compare(&mut self, case: &Case, before: Option<&Loaded>, after: Option<&Loaded>) {
        let (Some(before), Some(after)) = (before, after) else {
            let is_same = before.is_none() == after.is_none();
            if is_same {
                self.count("edited, not loaded before and after");
            } else {
                self.wrong.push(format!("seed {}: loaded only before or only after the edit", case.seed));
            }
            return;
        };
        if before.others == after.others {
            self.count("edited, all other settings the same");
        } else {
            let differs = before.others.iter().zip(&after.others).find(|(before, after)| before != after);
            let differs = differs.or_else(|| Some((before.others.last()?, after.others.last()?)));
            let differs = differs.map(|(before, after)| {
                (String::from_utf8_lossy(before).into_owned(), String::from_utf8_lossy(after).into_owned())
            });
            self.wrong.push(format!("seed {}: other settings changed: {differs:?}", case.seed));
        }
    }
}

/// Whether systemd refuses a unit for our reason: it names the same line, or the second command.
fn is_named(error: &Error, words: &[&str]) -> bool {
    match (error.kind, error.line) {
        (ErrorKind::SeveralCommands, _) => words.iter().any(|line| line.contains("more than one ExecStart=")),
        (_, Some(_)) if words.iter().any(|line| line.ends_with("No buffer space available")) => true,
        (_, Some(line)) => {
            // of a line that is continued up to the end of the file systemd names the end
            let named = |words: &&str| words.split_once(".service:")?.1.split_once(": ")?.0.parse::<usize>().ok();
            words.iter().filter_map(named).any(|found| found == line)
                || words.iter().filter_map(named).next_back().is_some_and(|found| found > line)
        }
        _ => false,
    }
}

/// Reasons to refuse a unit that are no matter of command lines.
fn has_other_reason(words: &[&str]) -> bool {
    let is_other = |line: &&str| {
        line.ends_with("Refusing.") && !line.contains("ExecStart") || line.contains("Invalid user/group name")
    };
    words.iter().any(is_other)
}

#[test]
fn systemd_reads_what_we_read_before_and_after_an_edit() {
    let (inputs, first) = (number("UNIT_EDIT_SYSTEMD", 2_000), number("UNIT_EDIT_SEED", 0));
    let corpus = corpus();
    let mut tally = Tally::default();
    let seeds: Vec<u64> = (first..first + inputs).collect();
    for seeds in seeds.chunks(usize::try_from(BATCH).unwrap()) {
        let cases: Vec<Case> = seeds.iter().map(|seed| Case::new(*seed, &corpus)).collect();
        let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
        let (before, words) = in_folder(&cases, &names, |case| Some((&case.fragment, None)));
        let copied: Vec<&str> =
            cases.iter().filter(|case| case.copy.is_some()).map(|case| case.name.as_str()).collect();
        let (with_drop_in, _) = in_folder(&cases, &copied, |case| Some((&case.fragment, Some(case.copy.as_ref()?))));
        let edited: Vec<&str> =
            cases.iter().filter(|case| case.edited.is_some()).map(|case| case.name.as_str()).collect();
        let (after, words_after) = in_folder(&cases, &edited, |case| Some((case.edited.as_ref()?, None)));
        for case in &cases {
            tally.judge(case, &case.fragment, before.get(&case.name), &words);
            if case.copy.is_some() {
                tally.copy(case, before.get(&case.name), with_drop_in.get(&case.name));
            }
            if let Some(edited) = &case.edited {
                tally.judge(case, edited, after.get(&case.name), &words_after);
                tally.compare(case, before.get(&case.name), after.get(&case.name));
            }
        }
    }
    println!("{inputs} units: {:?}, {} wrong", tally.counts, tally.wrong.len());
    assert!(tally.wrong.is_empty(), "{:#?}", &tally.wrong[..tally.wrong.len().min(20)]);
    assert!(
        tally.counts.get("the same commands").is_some_and(|count| *count >= inputs / 4),
        "too few units were compared"
    );
}

#[test]
fn systemd_reads_the_examples_of_its_rules_as_we_do() {
    let long =
        |length: usize| format!("[Service]\nType=oneshot\nExecStart=/bin/echo a\nX-A={}\n", "a".repeat(length - 4));
    let continued =
        |length: usize| format!("[Service]\nType=oneshot\nExecStart=/bin/echo a\nX-A={0}\\\n{0}\n", "a".repeat(length));
    let rules = rules::ALL.iter().flat_map(|rules| rules.iter());
    let texts = rules.map(|(lines, _)| format!("[Service]\nType=oneshot\n{lines}"));
    let longs =
        [long((1 << 20) - 1), long(1 << 20), continued((1 << 19) - 2), continued((1 << 19) - 3), continued(1 << 19)];
    let texts: Vec<String> = texts.chain(longs).collect();
    let cases: Vec<Case> = (0..).zip(texts).map(|(number, text)| Case::plain(number, text.into_bytes())).collect();
    let names: Vec<&str> = cases.iter().map(|case| case.name.as_str()).collect();
    let (loaded, words) = in_folder(&cases, &names, |case| Some((&case.fragment, None)));
    let mut tally = Tally::default();
    for case in &cases {
        tally.judge(case, &case.fragment, loaded.get(&case.name), &words);
    }
    println!("{} examples: {:?}, {} wrong", cases.len(), tally.counts, tally.wrong.len());
    assert!(tally.wrong.is_empty(), "{:#?}", tally.wrong);
}

/// A unit, and one more drop-in.
type Texts<'a> = Option<(&'a Vec<u8>, Option<&'a Vec<u8>>)>;

fn in_folder(cases: &[Case], names: &[&str], texts: impl Fn(&Case) -> Texts<'_>) -> (BTreeMap<String, Loaded>, String) {
    let folder: PathBuf = std::env::temp_dir().join(format!("unit-edit-{}-{}", std::process::id(), cases[0].name));
    fs::create_dir(&folder).unwrap();
    for case in cases {
        if let Some((fragment, copy)) = texts(case) {
            case.write(&folder, fragment, copy);
        }
    }
    let result = load(&folder, names);
    fs::remove_dir_all(&folder).unwrap();
    result
}
