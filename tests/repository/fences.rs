//! The fences around the stages, as far as clippy cannot hold them.

use std::fs;
use std::path::{Path, PathBuf};

/// Source files below `dir`.
fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("the sources are there") {
        let path = entry.expect("readable").path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// Whether a path stands in a line: `kube::` does not stand in `minikube::`.
fn holds(line: &str, word: &str) -> bool {
    line.match_indices(word).any(|(at, _)| !line[..at].ends_with(|c: char| c.is_alphanumeric() || c == '_'))
}

/// Lines of code below `src` that hold one of the words, outside of the folders that may.
fn trespassers(words: &[&str], allowed: &[&str]) -> Vec<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    assert!(files.len() > 20, "the sources were not found");
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("it is below").display().to_string();
        if allowed.iter().any(|folder| name.starts_with(folder)) {
            continue;
        }
        let text = fs::read_to_string(&file).expect("readable");
        let lines = text.lines().enumerate().filter(|(_, line)| !line.trim_start().starts_with("//"));
        found.extend(
            lines
                .filter(|(_, line)| words.iter().any(|word| holds(line, word)))
                .map(|(number, line)| format!("src/{name}:{}: {}", number + 1, line.trim())),
        );
    }
    found
}

#[test]
fn only_host_apply_and_observe_make_system_calls_of_their_own() {
    let found = trespassers(&["nix::", "rustix::", "libc::"], &["apply/", "host/", "observe/"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn the_middle_is_pure() {
    let words =
        ["std::fs", "std::env", "std::process", "std::net", "Instant", "SystemTime", "tokio::", "kube::", "notify::"];
    let found = trespassers(
        &words,
        &[
            "observe/",
            "apply/",
            "verify/",
            "report/",
            "cluster/",
            // the seam gives observers the way to the API
            "target/mod.rs",
            "target/static_pod/mod.rs",
            "target/static_pod/mirror_pod/",
            "target/unit/observer.rs",
            "fleet/uninstall.rs",
            "fleet/ask.rs",
            "fleet/extenders.rs",
            "test_pod/",
            "fleet/members.rs",
            "fleet/wait.rs",
            "host/",
            "agent",
            "reconcile.rs",
            "sandbox/",
            "cli/",
            "main.rs",
        ],
    );
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn only_one_folder_speaks_to_the_service_manager() {
    let found = trespassers(&["zbus::"], &["host/systemd/"]);
    assert!(found.is_empty(), "{}", found.join("\n"));
}

/// What a platform names is all that others know of a kind.
#[test]
fn nothing_outside_of_its_folder_knows_what_a_static_pod_is() {
    let words = ["static_pod::", "StaticPod", "MirrorPod", "mirror_pod::"];
    let found = trespassers(&words, &["target/", "platform/"]);
    let found: Vec<_> = found.into_iter().filter(|line| !line.starts_with("src/cli/run.rs")).collect();
    assert!(found.is_empty(), "{}", found.join("\n"));
}

#[test]
fn no_source_file_outgrows_a_reader() {
    let mut files = Vec::new();
    for folder in ["src", "crates"] {
        sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(folder), &mut files);
    }
    for file in files {
        let lines = fs::read_to_string(&file).expect("readable").lines().count();
        assert!(lines <= 400, "{} has {lines} lines: split it by idea", file.display());
    }
}

#[test]
fn judging_and_deciding_are_pure() {
    let words = ["std::fs", "Instant", "SystemTime", "tokio::", "async "];
    let files = [
        "phase.rs",
        "verify/trial.rs",
        "verify/preflight.rs",
        "target/static_pod/mirror_pod/summary.rs",
        "agent/limit.rs",
        "fleet/wanted.rs",
        "fleet/judge.rs",
        "fleet/gap.rs",
        "fleet/show.rs",
        "rollout/decide.rs",
        "rollout/lost.rs",
        "rollout/memory.rs",
        "rollout/order.rs",
        "rollout/want.rs",
    ];
    for file in files {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(!words.iter().any(|word| text.contains(word)), "{file} is not pure");
    }
}

/// Folders and files of `src/` from the ground up. Each may use only what comes before it.
#[rustfmt::skip]
const LAYERS: [&str; 27] = [
    "timestamp", "url", "finding", "host", "overrides", "revision", "rollout", "journal", "cluster", "target", "platform", "settings", "observe",
    "compose", "plan", "apply", "reconcile", "verify", "phase", "status", "report", "fleet", "test_pod", "agent", "sandbox", "cli", "lib",
];

#[test]
fn no_module_uses_one_that_is_built_on_it() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    sources(&root, &mut files);
    let layer = |name: &str| LAYERS.iter().position(|own| *own == name);
    let mut found = Vec::new();
    for file in files {
        let name = file.strip_prefix(&root).expect("it is below").display().to_string();
        let module = name.split('/').next().unwrap_or_default().trim_end_matches(".rs");
        if module == "main" {
            continue;
        }
        let own = layer(module).unwrap_or_else(|| panic!("{name} has no place in LAYERS"));
        let text = fs::read_to_string(&file).expect("readable");
        for line in text.lines().filter(|line| !line.trim_start().starts_with("//")) {
            let uses = line.split("crate::").skip(1);
            let names =
                uses.map(|rest| rest.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default());
            let above = names.filter(|name| layer(name).is_some_and(|layer| layer > own));
            found.extend(above.map(|other| format!("src/{name} uses {other}: {}", line.trim())));
        }
    }
    assert!(found.is_empty(), "{}", found.join("\n"));
}
