//! Real kube-schedulers judge what we compose: what the lint passes they accept, what it calls fatal they refuse.
//!
//! `just e2e` builds the programs and names them in SCHEDPATCH_SCHEDULERS as `v1.36.4=/path v1.30.4=/path`.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::rng::Rng;
use schedpatch::compose::lint::LintRule;
use schedpatch::finding::Level;
use schedpatch::plan::{self, Direction, Plan};
use schedpatch::{cli, observe};

const GENERATED: u64 = 250;

/// Rules that are advice of ours: the scheduler starts all the same.
const ADVICE: [&str; 5] = ["blocking-extender", "key-data", "extender-url", "unused-plugin-config", "parent-path"];

/// Where the two may disagree, and why: a mark in what either of them says, and the reason.
const KNOWN: [(&str, &str); 6] = [
    ("rule: \"profile-name\"", "merging by name repairs what is wrong in the source"),
    ("rule: \"not-visible\"", "what the container sees is not what this machine has"),
    ("no such file or directory", "the files of the host are not on this machine"),
    ("rule: \"key-data\"", "whether a key is a key is not looked at: it should not be there at all"),
    ("does not know the field clientConnection", "what a source says of identity is not written"),
    ("the weight of ImageLocality", "a negative weight does no harm to the plugin that is weighed last"),
];

fn schedulers() -> Vec<(String, PathBuf)> {
    let list =
        std::env::var("SCHEDPATCH_SCHEDULERS").expect("SCHEDPATCH_SCHEDULERS names the programs: run `just e2e`");
    let parse = |entry: &str| {
        let (version, path) = entry.split_once('=').expect("VERSION=PATH");
        (version.to_owned(), PathBuf::from(path))
    };
    list.split_whitespace().map(parse).collect()
}

/// A directory of this test's own.
fn fresh(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("agreement").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory can be made");
    dir
}

/// Plans with every rule of the lint accepted, so that also what it refuses is composed.
fn plan(host: &Path, sources: &[PathBuf], version: &str, dir: &Path, more: &[String]) -> Plan {
    let mut flags = vec![
        format!("--host-root={}", host.display()),
        format!("--scheduler-image=registry.k8s.io/kube-scheduler:{version}"),
    ];
    flags.push(format!("--state-dir={}", dir.display()));
    flags.extend(sources.iter().map(|source| format!("--source={}", source.display())));
    flags.extend(
        LintRule::ALL.iter().filter(|rule| rule.level() == Level::Error).map(|rule| format!("--accept={rule}")),
    );
    let own = ["--accept", "--scheduler-version", "--scheduler-image"];
    let given = |flag: &&String| !own.iter().any(|own| flag.starts_with(own));
    flags.extend(more.iter().filter(given).cloned());
    let settings = cli::plan_settings(&flags).unwrap_or_else(|error| panic!("{error}"));
    match observe::take_snapshot(&settings) {
        Ok(snapshot) => plan::make(&snapshot, &settings, Direction::Apply),
        Err(finding) => Plan::refused(vec![finding]),
    }
}

/// What the scheduler says to a composed configuration: nothing, or why it refuses.
fn ask(program: &Path, plan: &Plan, dir: &Path) -> Option<String> {
    let kubeconfig = dir.join("kubeconfig");
    fs::write(&kubeconfig, KUBECONFIG).expect("written");
    let mut config = None;
    for step in plan.steps().iter().filter(|step| step.kind == plan::StepKind::WriteFile) {
        let path = PathBuf::from(step.path.as_str());
        fs::create_dir_all(path.parent().expect("a directory")).expect("made");
        let mut content = step.after.clone();
        if path.ends_with("config.yaml") {
            content = with_kubeconfig(&String::from_utf8_lossy(&content), &kubeconfig).into_bytes();
            config = Some(path.clone());
        }
        fs::write(&path, content).expect("written");
    }
    let config = config.expect("a configuration is planned");
    let output = Command::new(program)
        .arg(format!("--config={}", config.display()))
        .arg(format!("--write-config-to={}", dir.join("out.yaml").display()))
        .arg("--secure-port=0")
        .output()
        .expect("the scheduler runs");
    let log = String::from_utf8_lossy(&output.stderr).into_owned();
    (!output.status.success()).then(|| log.lines().filter(|line| line.contains("err")).collect::<Vec<_>>().join("\n"))
}

const KUBECONFIG: &str = "apiVersion: v1\nkind: Config\nclusters:\n- name: c\n  cluster: {server: 'https://127.0.0.1:1'}\ncontexts:\n- name: c\n  context: {cluster: c, user: u}\nusers:\n- name: u\n  user: {}\ncurrent-context: c\n";

/// The credentials of the host are not on this machine.
fn with_kubeconfig(config: &str, path: &Path) -> String {
    let own = format!("\"kubeconfig\": \"{}\"", path.display());
    match config.split_once("\"kubeconfig\": \"").and_then(|(before, rest)| Some((before, rest.split_once('"')?.1))) {
        Some((before, after)) => format!("{before}{own}{after}"),
        None => config.replacen('{', &format!("{{\n  \"clientConnection\": {{{own}}},"), 1),
    }
}

/// Whether the lint says that the scheduler would refuse.
fn predicted(plan: &Plan) -> bool {
    let fatal = |rule: &&LintRule| rule.level() == Level::Error && !ADVICE.contains(&rule.name());
    let names: Vec<_> = LintRule::ALL.iter().filter(fatal).map(|rule| rule.name()).collect();
    plan.findings.iter().any(|finding| names.contains(&finding.rule))
}

#[derive(Default)]
struct Tally {
    accepted: usize,
    refused: usize,
    not_composed: usize,
    listed: BTreeMap<&'static str, usize>,
    wrong: Vec<String>,
}

impl Tally {
    fn judge(&mut self, name: &str, program: &Path, plan: &Plan, dir: &Path) {
        if plan.is_refused() || plan.steps().iter().all(|step| step.kind != plan::StepKind::WriteFile) {
            self.not_composed += 1;
            return;
        }
        let answer = ask(program, plan, dir);
        match (predicted(plan), &answer) {
            (false, None) => self.accepted += 1,
            (true, Some(_)) => self.refused += 1,
            _ => {
                let said = format!("{name}: the lint says {:?}, the scheduler says {answer:?}", plan.findings);
                match KNOWN.iter().find(|(mark, _)| said.contains(mark)) {
                    Some((_, reason)) => *self.listed.entry(reason).or_default() += 1,
                    None => self.wrong.push(said),
                }
            }
        }
    }

    fn report(&self, what: &str, version: &str) {
        println!(
            "{what}, kube-scheduler {version}: {} accepted by both, {} refused by both, {} not composed, {} disagreements without a listed reason",
            self.accepted,
            self.refused,
            self.not_composed,
            self.wrong.len()
        );
        for (reason, count) in &self.listed {
            println!("  {count} disagree: {reason}");
        }
        assert!(self.wrong.is_empty(), "{}", self.wrong.join("\n"));
    }
}

fn golden_cases() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden");
    let list = |dir: &Path| -> Vec<PathBuf> {
        fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path()).collect()
    };
    let mut cases: Vec<_> =
        list(&root).into_iter().chain(list(&root.join("hostile"))).filter(|path| path.join("host").is_dir()).collect();
    cases.sort();
    cases
}

#[test]
fn golden_configurations_are_judged_alike() {
    for (version, program) in schedulers() {
        let mut tally = Tally::default();
        for case in golden_cases() {
            let name = case.file_name().expect("a name").to_string_lossy().into_owned();
            let dir = fresh(&format!("{version}-{name}"));
            let mut sources: Vec<_> =
                fs::read_dir(&case).expect("readable").map(|entry| entry.expect("readable").path()).collect();
            sources.retain(|path| path.is_dir() && !path.ends_with("host") && !path.ends_with("expected"));
            sources.sort();
            let flags: Vec<_> =
                fs::read_to_string(case.join("flags")).unwrap_or_default().lines().map(str::to_owned).collect();
            let plan = plan(&case.join("host"), &sources, &version, &dir, &flags);
            tally.judge(&name, &program, &plan, &dir);
        }
        tally.report("golden", &version);
        assert!(tally.accepted >= 60, "too few golden configurations are composed to mean anything");
    }
}

#[test]
fn generated_configurations_are_judged_alike() {
    let host = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kubeadm-1.36/host");
    for (version, program) in schedulers() {
        let minor: u32 = version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("v1.MINOR.PATCH");
        let mut tally = Tally::default();
        for seed in 0..GENERATED {
            let dir = fresh(&format!("{version}-{seed}"));
            let source = dir.join("source");
            fs::create_dir_all(&source).expect("made");
            let config = crate::support::configs::config(&mut Rng::new(seed), minor);
            fs::write(source.join("config.json"), config.to_string()).expect("written");
            let plan = plan(&host, &[source], &version, &dir, &[]);
            tally.judge(&format!("seed {seed}: {config}"), &program, &plan, &dir);
        }
        tally.report("generated", &version);
        assert!(tally.accepted >= 80 && tally.refused >= 60, "too few of either kind to mean anything");
    }
}
