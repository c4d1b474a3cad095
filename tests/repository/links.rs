//! Every relative link of every document leads to a file that is there, and to a heading of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders that hold no documents of this project, or documents that are test data.
const SKIPPED: [&str; 3] = ["target", "golden", "node_modules"];

fn is_document(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "md")
}

fn documents(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("readable").path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() {
            if !name.starts_with('.') && !SKIPPED.contains(&name) {
                documents(&path, found);
            }
        } else if is_document(&path) {
            found.push(path);
        }
    }
}

/// The lines of a document outside of its code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(index, line)| {
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
            return None;
        }
        (!is_code).then_some((index + 1, line))
    })
}

/// The text without its code spans.
fn without_code(line: &str) -> String {
    line.split('`').step_by(2).collect::<Vec<_>>().join("`")
}

/// Where the links of a line lead.
fn links(line: &str) -> Vec<String> {
    let line = without_code(line);
    let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
    targets.map(str::to_owned).collect()
}

/// The anchor that a heading gets: lower case, blanks as dashes, other signs dropped.
fn anchor(heading: &str) -> String {
    let kept = heading.trim().chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

fn has_heading(document: &Path, wanted: &str) -> bool {
    let text = fs::read_to_string(document).expect("readable");
    prose(&text).any(|(_, line)| line.starts_with('#') && anchor(line.trim_start_matches('#')) == wanted)
}

/// Why a link leads nowhere.
fn fault(document: &Path, link: &str) -> Option<&'static str> {
    let (path, heading) = link.split_once('#').unwrap_or((link, ""));
    let target = if path.is_empty() { document.to_owned() } else { document.parent()?.join(path) };
    if !target.exists() {
        return Some("there is no such file");
    }
    (!heading.is_empty() && is_document(&target) && !has_heading(&target, heading))
        .then_some("the file has no such heading")
}

#[test]
fn every_relative_link_leads_to_a_file_and_a_heading() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = Vec::new();
    documents(root, &mut found);
    let (mut broken, mut count) = (Vec::new(), 0);
    for document in &found {
        let text = fs::read_to_string(document).expect("readable");
        for (number, line) in prose(&text) {
            for link in links(line).iter().filter(|link| !link.contains("://") && !link.starts_with("mailto:")) {
                count += 1;
                if let Some(why) = fault(document, link) {
                    broken.push(format!("{}:{number}: {link}: {why}", document.display()));
                }
            }
        }
    }
    assert!(found.len() > 20 && count > 80, "the links were not found: {count} in {} documents", found.len());
    assert!(broken.is_empty(), "{}", broken.join("\n"));
}

/// A path in prose or in a message is a link too: `docs/use/install.md`.
#[test]
fn every_document_that_code_and_documents_name_is_there() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    for folder in ["src", "crates", "charts", "hack", "tests/e2e", "docs"] {
        texts(&root.join(folder), &mut files);
    }
    files.extend(["README.md", "CONTRIBUTING.md", "SECURITY.md", "justfile"].map(|name| root.join(name)));
    let mut missing = Vec::new();
    for file in files {
        let Ok(text) = fs::read_to_string(&file) else { continue };
        for (at, _) in text.match_indices("docs/") {
            let is_inside = text[..at].ends_with(|c: char| c.is_alphanumeric() || "/-_.".contains(c));
            let name: String = text[at..].chars().take_while(|c| c.is_alphanumeric() || "/-_.".contains(*c)).collect();
            let name = name.trim_end_matches('.');
            if !is_inside && is_document(Path::new(name)) && !root.join(name).exists() {
                missing.push(format!("{} names {name}", file.display()));
            }
        }
    }
    assert!(missing.is_empty(), "{}", missing.join("\n"));
}

fn texts(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(dir).expect("readable") {
        let path = entry.expect("readable").path();
        if path.is_dir() { texts(&path, found) } else { found.push(path) }
    }
}
