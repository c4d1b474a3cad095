//! What is read of a source, and what is not: links, single files, too many files.

use std::fs;
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

const CASE: &str = "tests/golden/kubeadm-1.36";

/// An empty directory.
fn scratch(name: &str) -> PathBuf {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sources").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory");
    dir
}

/// A source directory with one good configuration.
fn source(name: &str) -> PathBuf {
    let dir = scratch(name).join("source");
    fs::create_dir(&dir).expect("a directory");
    fs::copy(golden_config(), dir.join("config.yaml")).expect("copied");
    dir
}

fn golden_config() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(CASE).join("source/config.yaml")
}

fn plan(sources: &[&Path]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
    command.current_dir(env!("CARGO_MANIFEST_DIR")).env_clear();
    command.args(["plan", "-o", "json", "--host-root", &format!("{CASE}/host")]);
    for source in sources {
        command.arg("--source").arg(source);
    }
    command.output().expect("the program runs")
}

fn json(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).expect("standard output is one JSON document")
}

/// The only error: its rule, file and message.
fn error(output: &Output) -> (String, String, String) {
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stdout));
    let finding = &json(output)["findings"][0];
    let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
    (text("rule"), text("file"), text("message"))
}

#[test]
fn a_link_out_of_the_source_directory_is_refused_and_its_content_shown_nowhere() {
    let dir = source("out");
    let secret = dir.parent().expect("above").join("secret");
    fs::write(&secret, "PRIVATE").expect("written");
    for (number, to) in
        [secret.display().to_string(), "../secret".to_owned(), "inner/../../secret".to_owned()].iter().enumerate()
    {
        let link = dir.join("tls.key");
        let _ = fs::remove_file(&link);
        let _ = fs::create_dir(dir.parent().expect("above").join("inner"));
        symlink(to, &link).expect("linked");
        let output = plan(&[&dir]);
        let (rule, file, message) = error(&output);
        assert_eq!(rule, "source-unreadable", "link {number}");
        assert_eq!(Path::new(&file), link, "link {number}");
        assert!(message.contains("leads out of the source directory") || number == 2, "link {number}: {message}");
        assert!(!String::from_utf8_lossy(&output.stdout).contains("PRIVATE"), "link {number}");
    }
}

#[test]
fn a_link_through_a_directory_that_leads_out_is_refused_too() {
    let dir = source("through");
    let outside = dir.parent().expect("above").join("outside");
    fs::create_dir(&outside).expect("a directory");
    fs::write(outside.join("secret"), "PRIVATE").expect("written");
    symlink(&outside, dir.join(".hidden")).expect("linked");
    symlink(".hidden/secret", dir.join("tls.key")).expect("linked");
    let (rule, file, message) = error(&plan(&[&dir]));
    assert_eq!((rule.as_str(), Path::new(&file)), ("source-unreadable", dir.join("tls.key").as_path()));
    assert!(message.contains("leads out"), "{message}");
    // `..data` itself must stay within too
    fs::remove_file(dir.join("tls.key")).expect("removed");
    fs::remove_file(dir.join("config.yaml")).expect("removed");
    symlink(&outside, dir.join("..data")).expect("linked");
    let (rule, file, _) = error(&plan(&[&dir]));
    assert_eq!((rule.as_str(), Path::new(&file)), ("source-unreadable", dir.join("..data").as_path()));
}

#[test]
fn links_within_a_source_and_the_layout_of_the_kubelet_keep_working() {
    let plain = source("plain");
    let dir = scratch("kubelet");
    fs::create_dir(dir.join("..2026_11_17")).expect("a directory");
    fs::copy(golden_config(), dir.join("..2026_11_17/config.yaml")).expect("copied");
    symlink("..2026_11_17", dir.join("..data")).expect("linked");
    symlink("..data/config.yaml", dir.join("config.yaml")).expect("linked");
    let digest = json(&plan(&[&plain]))["digest"].clone();
    assert!(digest.is_string());
    assert_eq!(json(&plan(&[&dir]))["digest"], digest);
    // a directory that was given as a link is the directory
    symlink(&dir, plain.parent().expect("above").join("link")).expect("linked");
    assert_eq!(json(&plan(&[&plain.parent().expect("above").join("link")]))["digest"], digest);
    // a link from one name to another beside it
    fs::rename(plain.join("config.yaml"), plain.join(".real")).expect("renamed");
    symlink("./.real", plain.join("config.yaml")).expect("linked");
    assert_eq!(json(&plan(&[&plain]))["digest"], digest);
}

#[test]
fn a_single_file_is_a_source() {
    let dir = source("single");
    let file = dir.join("config.yaml");
    let output = plan(&[&file]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
    assert_eq!(json(&output)["digest"], json(&plan(&[&dir]))["digest"], "the same as its directory alone");
    let origins = json(&output)["origins"].to_string();
    assert!(origins.contains(&file.display().to_string()), "its own path is named: {origins}");
    let (rule, named, _) = error(&plan(&[&dir.join("none.yaml")]));
    assert_eq!((rule.as_str(), Path::new(&named)), ("source-unreadable", dir.join("none.yaml").as_path()));
}

#[test]
fn more_files_than_any_configmap_holds_are_refused_before_one_is_written() {
    let dir = source("many");
    for number in 0..1_000 {
        fs::write(dir.join(format!("file-{number}")), "x").expect("written");
    }
    let (rule, file, message) = error(&plan(&[&dir]));
    assert_eq!((rule.as_str(), Path::new(&file)), ("source-unreadable", dir.as_path()));
    assert!(message.contains("more than 1000 files"), "{message}");
    // hidden files are not part of a source, and do not count
    fs::rename(dir.join("file-0"), dir.join(".file-0")).expect("renamed");
    let output = plan(&[&dir]);
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_pipe_in_a_source_is_refused_at_once() {
    let dir = source("pipe");
    let made = Command::new("mkfifo").arg(dir.join("pipe")).status().expect("mkfifo runs");
    assert!(made.success());
    let (rule, file, message) = error(&plan(&[&dir]));
    assert_eq!((rule.as_str(), Path::new(&file)), ("source-unreadable", dir.join("pipe").as_path()));
    assert!(message.contains("not a regular file"), "{message}");
}
