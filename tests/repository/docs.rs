//! The documents say what the code does.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use schedpatch::compose::lint::LintRule;
use schedpatch::phase::Phase;
use schedpatch::platform;
use schedpatch::target::Rule;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).to_path_buf()
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// All source code in one text.
fn code(dir: &Path) -> String {
    let entries = fs::read_dir(dir).expect("readable").map(|entry| entry.expect("readable").path());
    entries.map(|path| if path.is_dir() { code(&path) } else { fs::read_to_string(path).expect("text") }).collect()
}

/// Compares the table between the marks of a document, or writes it when asked to.
fn expect_table(path: &str, table: &str) {
    let text = read(path);
    let (head, rest) = text.split_once("<!-- rules -->\n").expect("the mark is there");
    let (_, tail) = rest.split_once("<!-- /rules -->").expect("the end mark is there");
    let expected = format!("{head}<!-- rules -->\n{table}<!-- /rules -->{tail}");
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::write(root().join(path), expected).expect("written");
    } else {
        assert_eq!(text, expected, "run: just golden-update");
    }
}

#[test]
fn the_table_of_refusals_is_the_one_in_the_code() {
    let mut table = "| rule | what | way out |\n|---|---|---|\n".to_owned();
    for rule in Rule::ALL {
        writeln!(table, "| `{rule}` | {} | {} |", rule.about(), rule.way_out()).expect("a string takes it");
    }
    expect_table("docs/reference/refusals.md", &table);
}

#[test]
fn the_table_of_the_lint_is_the_one_in_the_code() {
    let mut table = "| rule | level | what | way out |\n|---|---|---|---|\n".to_owned();
    for rule in LintRule::ALL {
        let level = format!("{:?}", rule.level()).to_lowercase();
        writeln!(table, "| `{rule}` | {level} | {} | {} |", rule.about(), rule.way_out()).expect("a string takes it");
    }
    expect_table("docs/reference/lint.md", &table);
}

#[test]
fn every_finding_of_the_code_is_documented() {
    let (code, text) = (code(&root().join("src")), read("docs/reference/refusals.md"));
    let mut found = 0;
    for call in ["Finding::error(", "Finding::warning(", "Finding::info("] {
        for part in code.split(call).skip(1) {
            let Some(rule) = part.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
                continue;
            };
            found += 1;
            assert!(text.contains(&format!("| `{rule}` |")), "{rule} is not in docs/reference/refusals.md");
        }
    }
    assert!(found > 20, "the findings were not found in the code");
}

/// Reasons that stand beside their phase in the code; the rules of refusals have tests of their own.
#[test]
fn every_reason_has_a_row_with_its_phase() {
    let (code, text) = (code(&root().join("src")), read("docs/operate/phases.md"));
    let mut found = 0;
    for part in code.split("Phase::").skip(1) {
        let Some((phase, rest)) = part.split_once(',') else { continue };
        let Some(reason) = rest.trim_start().strip_prefix('"').and_then(|rest| rest.split('"').next()) else {
            continue;
        };
        found += 1;
        let row = format!("| `{phase}` | `{reason}` |");
        assert!(text.lines().any(|line| line.starts_with(&row)), "{phase}, {reason} is not in docs/operate/phases.md");
    }
    assert!(found > 10, "the reasons were not found in the code");
}

#[test]
fn every_phase_is_documented() {
    let text = read("docs/operate/phases.md");
    for phase in Phase::ALL.map(Phase::name) {
        assert!(text.contains(&format!("\n| {phase} |")), "{phase} is not in docs/operate/phases.md");
    }
}

#[test]
fn every_flag_and_variable_is_documented() {
    let text = read("docs/reference/cli.md");
    for command in ["run", "plan", "apply", "restore", "status"] {
        let output =
            Command::new(env!("CARGO_BIN_EXE_schedpatch")).args([command, "--help"]).output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        let (options, _) = help.split_once("\nExamples:").expect("examples come last");
        let mut found = 0;
        for line in options.lines().map(str::trim) {
            let flag = line.split_ascii_whitespace().find(|word| word.starts_with("--")).unwrap_or_default();
            let is_option = line.starts_with('-') && flag != "--help";
            let variable = line.strip_prefix("[env: ").and_then(|rest| rest.split('=').next());
            let names = is_option.then_some(flag).into_iter().chain(variable);
            for name in names.filter(|name| !name.is_empty()) {
                found += 1;
                let is_there = text.match_indices(name).any(|(at, _)| {
                    !text[at + name.len()..].starts_with(|next: char| next.is_alphanumeric() || "-_".contains(next))
                });
                assert!(is_there, "{command}: {name} is not in docs/reference/cli.md");
            }
        }
        assert!(found > 5, "the flags of {command} were not found");
    }
}

#[test]
fn the_charts_levels_of_the_log_are_those_of_the_program() {
    let schema: serde_json::Value =
        serde_json::from_str(&read("charts/schedpatch/values.schema.json")).expect("it is JSON");
    let levels = &schema["properties"]["log"]["properties"]["level"]["enum"];
    let levels: Vec<_> = levels.as_array().expect("a list").iter().filter_map(|level| level.as_str()).collect();
    assert_eq!(levels, ["off", "error", "warn", "info", "debug", "trace"]);
    for level in levels {
        level.parse::<tracing_subscriber::filter::LevelFilter>().expect(level);
    }
}

#[test]
fn every_platform_is_documented() {
    let text = read("docs/use/platforms.md");
    for platform in platform::ALL {
        assert!(text.contains(&format!("`{}`", platform.id)), "{} is not in docs/use/platforms.md", platform.id);
    }
}

#[test]
fn the_commands_at_the_top_of_the_readme_are_the_ones_that_ci_runs() {
    let readme = read("README.md");
    assert!(readme.contains("cargo run -- run --sandbox "));
    assert!(readme.contains("cargo test "));
    assert!(read(".ci/run").contains("cargo test"));
}

/// The last cell of a row names tests: paths in backticks, and cases of `hack/image-e2e` in quotes before that name.
#[test]
fn the_tests_that_the_catches_name_are_there() {
    let text = read("docs/use/scheduler-image.md");
    let (_, rest) = text.split_once("## Eleven ways to stumble").expect("the table is there");
    let table = rest.split("\n## ").next().unwrap_or_default();
    let cases = read("hack/image-e2e") + &read("hack/own_image/refused.py");
    let mut found = 0;
    for row in table.lines().filter(|line| line.starts_with("| ")) {
        let cell = row.trim_end_matches('|').trim_end().rsplit('|').next().unwrap_or_default();
        for path in cell.split('`').skip(1).step_by(2).filter(|part| part.starts_with("tests/")) {
            let (dir, name) = path.rsplit_once('/').expect("a path");
            let names =
                fs::read_dir(root().join(dir)).expect("readable").map(|entry| entry.expect("readable").file_name());
            let begin = name.trim_end_matches('*');
            let fits = |own: &str| own == name || own.starts_with(begin) && begin != name;
            assert!(names.into_iter().any(|own| fits(&own.to_string_lossy())), "there is no {path}");
            found += 1;
        }
        let named = cell.split("`hack/image-e2e`").next().filter(|before| *before != cell).unwrap_or_default();
        let named = named.rsplit(';').next().unwrap_or_default();
        for case in named.split('"').skip(1).step_by(2) {
            assert!(cases.contains(&format!("\"{case}\":")), "hack/image-e2e has no case {case:?}");
            found += 1;
        }
    }
    assert!(found > 8, "the tests were not found in the table");
}
