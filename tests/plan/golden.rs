//! Every folder in `tests/golden`: a host, sources, and the plan that must come of them.
//!
//! The plan is then carried out on a copy, and the laws are checked: planning again finds nothing to do, and restoring
//! gives back every byte. `just golden-update` writes the expected files anew and shows the difference.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::support::faulty_fs::{Fault, FaultyFs};
use schedpatch::finding::Finding;
use schedpatch::journal::Initiator;
use schedpatch::plan::{self, Direction, Plan, StepKind};
use schedpatch::platform::{K3sOptions, Method};
use schedpatch::reconcile::{self, Env, Request};
use schedpatch::settings::Settings;
use schedpatch::timestamp::Timestamp;
use schedpatch::{cli, observe};
use serde_json::Value;

/// kubeadm writes its manifests so; git does not keep it.
const MANIFEST_MODE: u32 = 0o600;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// All case folders below `dir`: those that have a `host`.
fn cases(dir: &Path) -> Vec<PathBuf> {
    let mut found: Vec<PathBuf> = fs::read_dir(dir)
        .expect("the golden folder is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.join("host").is_dir())
        .collect();
    found.sort();
    found
}

/// A copy of a case in a fresh directory.
fn copy(case: &Path, name: &str) -> PathBuf {
    let to = Path::new(env!("CARGO_TARGET_TMPDIR")).join("golden").join(name);
    let _ = fs::remove_dir_all(&to);
    fs::create_dir_all(to.join("host")).expect("the copy can be made");
    copy_tree(case, &to);
    let _ = fs::remove_dir_all(to.join("expected"));
    to
}

fn copy_tree(from: &Path, to: &Path) {
    let Ok(entries) = fs::read_dir(from) else { return };
    for entry in entries {
        let entry = entry.expect("readable");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("the copy can be made");
            copy_tree(&entry.path(), &target);
        } else {
            fs::write(&target, fs::read(entry.path()).expect("readable")).expect("the copy can be written");
            fs::set_permissions(&target, fs::Permissions::from_mode(MANIFEST_MODE)).expect("the mode can be set");
        }
    }
}

/// The settings of a case. A file `flags` in it holds further flags, one on a line; `source*` are its sources, in order.
fn settings(copy: &Path) -> Settings {
    let mut sources: Vec<_> = fs::read_dir(copy)
        .expect("the copy is there")
        .map(|entry| entry.expect("readable").path())
        .filter(|path| path.is_dir() && !path.ends_with("host"))
        .collect();
    sources.sort();
    let mut flags = vec!["--host-root".to_owned(), copy.join("host").display().to_string()];
    for source in sources {
        flags.extend(["--source".to_owned(), source.display().to_string()]);
    }
    flags.extend(fs::read_to_string(copy.join("flags")).unwrap_or_default().lines().map(str::to_owned));
    cli::plan_settings(&flags).unwrap_or_else(|error| panic!("{}: {error}", copy.display()))
}

fn make_plan(copy: &Path, direction: Direction) -> Plan {
    let settings = settings(copy);
    match observe::take_snapshot(&settings) {
        Ok(snapshot) => plan::make(&snapshot, &settings, direction),
        Err(finding) => Plan::refused(vec![finding]),
    }
}

/// Carries out, as the program does.
fn carry_out(copy: &Path, direction: Direction) {
    let (settings, fs) = (settings(copy), FaultyFs::new(Fault::None));
    let request = Request::new(&settings, direction, Initiator::Person, "test", Duration::ZERO);
    let outcome = reconcile::run(&request, &Env { fs: &fs, clock: &|| Timestamp::default() }, &mut |_| {});
    let outcome = outcome.unwrap_or_else(|finding| panic!("{}: {finding:?}", copy.display()));
    assert!(outcome.receipt.is_some_and(|receipt| receipt.committed), "{}: {direction:?} commits", copy.display());
}

/// The plan as JSON without its wording, which `messages.txt` pins once for all cases.
fn json(plan: &Plan, copy: &Path) -> String {
    let text = plan.to_json().expect("a plan is JSON").replace(&format!("{}/", copy.display()), "");
    let mut plan: Value = serde_json::from_str(&text).expect("JSON");
    for (list, words) in [("findings", &["message", "wayOut"][..]), ("steps", &["why"])] {
        for item in plan[list].as_array_mut().into_iter().flatten().filter_map(Value::as_object_mut) {
            item.retain(|key, _| !words.contains(&key.as_str()));
        }
    }
    serde_json::to_string_pretty(&plan).expect("JSON") + "\n"
}

/// Everything that the plan says in words: rule or step, message, way out.
fn words(plan: &Plan, copy: &Path) -> Vec<String> {
    let findings = plan.findings.iter().map(|finding| {
        let Finding { rule, level, message, way_out, .. } = finding;
        format!("{rule} ({level:?})\n    {message}\n    -> {way_out}\n")
    });
    let steps = plan.steps().iter().map(|step| format!("step\n    {}\n", step.why));
    findings.chain(steps).map(|text| text.replace(&format!("{}/", copy.display()), "")).collect()
}

/// Compares with the expected file, or writes it when asked to.
fn expect(case: &Path, file: &str, found: &[u8], failures: &mut Vec<String>) {
    let path = case.join("expected").join(file);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(case.join("expected")).expect("the folder can be made");
        fs::write(&path, found).expect("the file can be written");
    } else if fs::read(&path).ok().as_deref() != Some(found) {
        failures.push(format!("{} differs; found:\n{}", path.display(), String::from_utf8_lossy(found)));
    }
}

fn target(plan: &Plan) -> Option<&plan::Step> {
    plan.steps().iter().find(|step| step.kind == StepKind::ReplaceTarget)
}

#[test]
fn every_case_gives_its_plan_and_can_be_undone() {
    let mut failures = Vec::new();
    let mut edited = 0;
    for case in cases(&root()) {
        let name = case.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let copy = copy(&case, &name);
        let plan = make_plan(&copy, Direction::Apply);
        expect(&case, "plan.json", json(&plan, &copy).as_bytes(), &mut failures);
        if plan.is_refused() {
            failures.push(format!("{name} is refused: {:?}", plan.findings));
            continue;
        }
        let step = target(&plan).unwrap_or_else(|| panic!("{name}: the target is not edited"));
        let file = step.path.name().to_owned();
        expect(&case, &file, &step.after, &mut failures);
        let original = step.before.clone().expect("the target was there");

        carry_out(&copy, Direction::Apply);
        let again = make_plan(&copy, Direction::Apply);
        if !again.steps().is_empty() || again.is_refused() {
            failures.push(format!("{name}: planning again gives {}", json(&again, &copy)));
        }
        // without the journal the way back is found in the manifest alone
        fs::remove_file(copy.join("host/var/lib/schedpatch/state.json")).expect("there is a journal");
        let restore = make_plan(&copy, Direction::Restore);
        if target(&restore).map(|step| &step.after) != Some(&original) {
            failures.push(format!("{name}: restoring does not give the original: {}", json(&restore, &copy)));
        }
        carry_out(&copy, Direction::Restore);
        let nothing = make_plan(&copy, Direction::Restore);
        if !nothing.steps().is_empty() {
            failures.push(format!("{name}: restoring twice gives {}", json(&nothing, &copy)));
        }
        edited += 1;
    }
    println!("{edited} cases edited and undone");
    assert!(edited >= 20, "only {edited} cases were edited");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

/// The agent tries a new command line of k3s before it writes it: `90-schedpatch.conf` is what it tries.
#[test]
fn every_k3s_server_that_restarts_safely_gives_its_trial() {
    let (mut failures, mut tried) = (Vec::new(), Vec::new());
    for case in cases(&root()) {
        let name = case.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        if !name.starts_with("k3s-") {
            continue;
        }
        let copy = copy(&case, &format!("trial-{name}"));
        let is_drop_in = fs::read_to_string(copy.join("flags")).unwrap_or_default().contains("--k3s-method=drop-in");
        let method = if is_drop_in { Method::DropIn } else { Method::ExecStart };
        let settings =
            Settings { platforms: K3sOptions { method, by_person: false, tries: true }.platforms(), ..settings(&copy) };
        let snapshot = observe::take_snapshot(&settings).expect("it can be looked at");
        let plan = plan::make(&snapshot, &settings, Direction::Apply);
        if plan.is_refused() {
            failures.push(format!("{name} is refused: {:?}", plan.findings));
        }
        if let Some(content) = plan.trial.and_then(|trial| trial.content) {
            expect(&case, "90-schedpatch.conf", &content, &mut failures);
            tried.push(name);
        }
    }
    assert!(tried.iter().any(|name| name == "k3s-drop-in-blanks-after-backslash"), "{tried:?}");
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_hostile_case_is_refused_with_a_reason_and_a_way_out() {
    let mut failures = Vec::new();
    let hostile = cases(&root().join("hostile"));
    for case in &hostile {
        let name = case.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let copy = copy(case, &format!("hostile-{name}"));
        let plan = make_plan(&copy, Direction::Apply);
        expect(case, "plan.json", json(&plan, &copy).as_bytes(), &mut failures);
        if !plan.steps().is_empty() {
            failures.push(format!("{name}: something is planned"));
        }
        if plan.findings.iter().any(|finding| finding.message.is_empty() || finding.way_out.is_empty()) {
            failures.push(format!("{name}: a finding without message or way out"));
        }
        // a source without a configuration is no error, but then nothing is planned
        if !plan.is_refused() && plan.findings.iter().all(|finding| finding.rule != "no-config") {
            failures.push(format!("{name}: nobody complains"));
        }
    }
    println!("{} hostile cases refused", hostile.len());
    assert!(failures.is_empty(), "{}", failures.join("\n\n"));
}

#[test]
fn every_message_is_pinned_once() {
    let mut all = BTreeSet::new();
    for case in cases(&root()).into_iter().chain(cases(&root().join("hostile"))) {
        let name = case.file_name().expect("a folder has a name").to_string_lossy().into_owned();
        let copy = copy(&case, &format!("words-{name}"));
        all.extend(words(&make_plan(&copy, Direction::Apply), &copy));
    }
    let found: Vec<String> = all.into_iter().collect();
    let path = root().join("messages.txt");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(&path, found.join("\n")).expect("the file can be written");
        return;
    }
    let expected = fs::read_to_string(&path).expect("it is there");
    let expected: Vec<&str> = expected.split_inclusive("\n\n").map(|text| text.trim_end_matches('\n')).collect();
    let found: Vec<&str> = found.iter().map(|text| text.trim_end_matches('\n')).collect();
    let missing: Vec<_> = found.iter().filter(|text| !expected.contains(text)).collect();
    assert!(
        missing.is_empty() && expected.len() == found.len(),
        "messages changed, run: just golden-update\n{missing:#?}"
    );
}
