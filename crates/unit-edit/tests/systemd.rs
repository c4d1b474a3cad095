//! A real systemd judges: what it reads in damaged units, with drop-ins, before and after an edit.
//!
//! `systemd-analyze verify` loads units without a running systemd and, at the debug level, prints all their settings and
//! the words of their command lines. `UNIT_EDIT_SYSTEMD` says how many units, `UNIT_EDIT_SEED` where they begin.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "a test writes units and runs systemd-analyze")]

mod support;

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use support::{Random, arguments, corpus, damage, rules, soup};
use unit_edit::{Edit, Error, ErrorKind, Unit, effective};

const BATCH: u64 = 250;

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// A unit, its drop-ins, and the unit after an edit.
struct Case {
    name: String,
    seed: u64,
    fragment: Vec<u8>,
    drop_ins: Vec<Vec<u8>>,
    edited: Option<Vec<u8>>,
    /// A drop-in that sets the same commands
    copy: Option<Vec<u8>>,
}

impl Case {
    fn new(seed: u64, corpus: &[Vec<u8>]) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let fragment = match random.below(3) {
            0 => soup(&mut random),
            _ => damage(&corpus[random.below(corpus.len())], &mut random),
        };
        let drop_ins = (0..random.below(6).saturating_sub(3)).map(|_| drop_in(&mut random)).collect();
        let wanted = arguments(random.pick(&[
            "--kube-scheduler-arg=config=/etc/x.yaml\t--kube-scheduler-arg=config=\n",
            "--text=it's 100% $HOME; \"é\"\\\n--debug\n",
        ]));
        let edit = Edit { owner: "judge", note: "1", arguments: &wanted };
        let edited = Unit::parse("u.service", &fragment).edit(&edit).ok();
        let mut case = Self { name: format!("c{seed}.service"), seed, fragment, drop_ins, edited, copy: None };
        case.copy = case.effective_drop_in();
        case
    }

    fn effective_drop_in(&self) -> Option<Vec<u8>> {
        let fragment = Unit::parse("u.service", &self.fragment);
        let drop_ins: Vec<Unit<'_>> = self.drop_ins.iter().map(|text| Unit::parse("d.conf", text)).collect();
        let found = effective(&fragment, &drop_ins).ok()?;
        found.exec_start()?;
        found.to_drop_in().ok()
    }

    /// A unit as it is.
    fn plain(number: u64, fragment: Vec<u8>) -> Self {
        Self {
            name: format!("p{number}.service"),
            seed: number,
            fragment,
            drop_ins: Vec::new(),
            edited: None,
            copy: None,
        }
    }

    fn write(&self, folder: &Path, fragment: &[u8], copy: Option<&Vec<u8>>) {
        fs::write(folder.join(&self.name), fragment).unwrap();
        let drop_ins = folder.join(format!("{}.d", self.name));
        fs::create_dir(&drop_ins).unwrap();
        for (index, text) in self.drop_ins.iter().chain(copy).enumerate() {
            fs::write(drop_ins.join(format!("{index}.conf")), text).unwrap();
        }
    }

    /// Whether only the host can judge: a shell runs a command, which older versions do not know, or a path holds
    /// what the host replaces.
    fn is_undecided(&self, fragment: &[u8]) -> bool {
        let files = std::iter::once(fragment).chain(self.drop_ins.iter().map(Vec::as_slice));
        files.into_iter().any(|text| {
            let unit = Unit::parse("u.service", text);
            unit.exec_starts().iter().any(|command| command.prefixes().uses_shell || loaded(command.path()).is_none())
        })
    }

    /// The commands that our reader sees; a word that only the host knows is nothing.
    fn read(&self, fragment: &[u8]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        let fragment = Unit::parse("u.service", fragment);
        let drop_ins: Vec<Unit<'_>> = self.drop_ins.iter().map(|text| Unit::parse("d.conf", text)).collect();
        let found = effective(&fragment, &drop_ins)?;
        let words = |command: &unit_edit::ExecStart<'_>| {
            let name = loaded(&command.argv().swap_remove(0));
            std::iter::once(name).chain(command.arguments().iter().map(unit_edit::Word::loaded)).collect()
        };
        Ok(found.commands().iter().map(words).collect())
    }
}

/// A name with `%%` for `%`; nothing if it holds another specifier.
fn loaded(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = name.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' {
            match bytes.peek() {
                Some(b'%') => drop(bytes.next()),
                Some(letter) if letter.is_ascii_alphanumeric() => return None,
                _ => {}
            }
        }
        out.push(*byte);
    }
    Some(out)
}

fn drop_in(random: &mut Random) -> Vec<u8> {
    let text = random.pick(&[
        "[Service]\nExecStart=\nExecStart=/bin/echo from drop-in\n",
        "[Service]\nExecStart=/bin/echo second\n",
        "[Service]\nType=oneshot\nExecStart=/bin/echo second \\\n  and more\n",
        "[Service]\nRestart=no\n",
        "[Unit]\nDescription=other\n",
    ]);
    damage(text.as_bytes(), random)
}

/// What systemd printed about one unit: its commands, and all other lines.
#[derive(Default)]
struct Loaded {
    commands: Vec<Vec<u8>>,
    others: Vec<Vec<u8>>,
}

fn load(folder: &Path, names: &[&str]) -> (BTreeMap<String, Loaded>, String) {
    let run = folder.join("run");
    fs::create_dir(&run).unwrap();
    let paths = names.iter().map(|name| folder.join(name));
    let output = Command::new("systemd-analyze")
        .args(["--user", "--man=no", "--generators=no", "--recursive-errors=no", "verify"])
        .args(paths)
        .env("SYSTEMD_LOG_LEVEL", "debug")
        .env("SYSTEMD_UNIT_PATH", folder)
        .env("XDG_RUNTIME_DIR", &run)
        .output()
        .unwrap();
    let mut loaded: BTreeMap<String, Loaded> = BTreeMap::new();
    let (mut unit, mut setting) = (String::new(), Vec::new());
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let text = line.trim_ascii_start();
        if line.starts_with(b"\t-> Unit ") {
            String::from_utf8_lossy(&text[8..]).trim_end_matches(':').clone_into(&mut unit);
            loaded.entry(unit.clone()).or_default();
        } else if line.starts_with(b"\t\t-> ") {
            setting = text.to_vec();
        }
        let Some(loaded) = loaded.get_mut(&unit) else { continue };
        match text.strip_prefix(b"Command Line: ") {
            Some(words) if setting == b"-> ExecStart:" => loaded.commands.push(words.to_vec()),
            // the time of a file that was written in this very moment
            _ if text.is_empty() || text.starts_with(b"Need Daemon Reload") => {}
            _ => loaded.others.push(line.to_vec()),
        }
    }
    (loaded, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Words as systemd prints them: bare, or in double quotes with escapes.
fn unquote(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut is_quoted = false;
    let mut i = 0;
    while let Some(&byte) = line.get(i) {
        i += 1;
        let last = words.len() - 1;
        match byte {
            b'"' => is_quoted = !is_quoted,
            b' ' if !is_quoted => words.push(Vec::new()),
            b'\\' if is_quoted => {
                let next = line[i];
                let octal =
                    line.get(i..i + 3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
                i += octal.map_or(1, <[u8]>::len);
                words[last].push(match (octal, next) {
                    (Some(digits), _) => {
                        digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0'))
                    }
                    (None, b'a') => 7,
                    (None, b'b') => 8,
                    (None, b'f') => 12,
                    (None, b'n') => b'\n',
                    (None, b'r') => b'\r',
                    (None, b't') => b'\t',
                    (None, b'v') => 11,
                    (None, same) => same,
                });
            }
            _ => words[last].push(byte),
        }
    }
    words
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
