//! Watching real directories.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use schedpatch::host::dir_watcher::DirWatcher;

fn watched(name: &str) -> (PathBuf, DirWatcher) {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wake").join(name);
    let _ = fs::remove_dir_all(&dir);
    fs::create_dir_all(&dir).expect("a directory");
    let mut dir_watcher = DirWatcher::default();
    assert_eq!(dir_watcher.keep(&BTreeSet::from([dir.clone()])), (true, None), "a new watch: look again");
    assert_eq!(dir_watcher.keep(&BTreeSet::from([dir.clone()])), (false, None));
    (dir, dir_watcher)
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime");
    runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), test).await.expect("in time") });
}

#[test]
fn a_rename_is_told_at_once() {
    let (dir, mut dir_watcher) = watched("rename");
    run(async {
        fs::write(dir.join(".kube-scheduler.yaml.schedpatch"), "all").expect("written");
        fs::rename(dir.join(".kube-scheduler.yaml.schedpatch"), dir.join("kube-scheduler.yaml")).expect("renamed");
        let mut told = BTreeSet::new();
        while !told.contains(&dir.join("kube-scheduler.yaml")) {
            told.extend(dir_watcher.next().await);
        }
        let begin = Instant::now();
        dir_watcher.quiet().await;
        assert!(begin.elapsed() < Duration::from_millis(90), "there is nothing to wait for");
    });
}

#[test]
fn who_writes_in_place_is_waited_for_until_he_is_done() {
    let (dir, mut dir_watcher) = watched("in-place");
    let file = dir.join("kube-scheduler.yaml");
    let written = file.clone();
    let writer = std::thread::spawn(move || {
        for part in 0..8 {
            fs::write(&written, "half ".repeat(part + 1)).expect("written");
            std::thread::sleep(Duration::from_millis(40));
        }
        fs::write(&written, "all").expect("written");
    });
    run(async {
        dir_watcher.next().await;
        dir_watcher.quiet().await;
        assert_eq!(fs::read_to_string(&file).expect("there"), "all");
    });
    writer.join().expect("it ends");
}

#[test]
fn a_directory_that_was_replaced_is_watched_anew() {
    let (dir, mut dir_watcher) = watched("replaced");
    run(async {
        fs::remove_dir_all(&dir).expect("removed");
        let mut told = BTreeSet::new();
        while !told.contains(&dir) {
            told.extend(dir_watcher.next().await);
        }
        fs::create_dir(&dir).expect("made");
        assert_eq!(dir_watcher.keep(&BTreeSet::from([dir.clone()])), (true, None));
        fs::write(dir.join("config.yaml"), "new").expect("written");
        while !told.contains(&dir.join("config.yaml")) {
            told.extend(dir_watcher.next().await);
        }
    });
}

#[test]
fn a_directory_that_cannot_be_watched_is_no_news_until_it_can() {
    let (dir, mut dir_watcher) = watched("missing");
    let both = BTreeSet::from([dir.clone(), dir.join("later")]);
    let (is_new, trouble) = dir_watcher.keep(&both);
    assert!(is_new && trouble.is_some_and(|why| why.contains("later")));
    let (is_new, trouble) = dir_watcher.keep(&both);
    assert!(!is_new && trouble.is_some(), "nothing has changed");
    fs::create_dir(dir.join("later")).expect("made");
    assert_eq!(dir_watcher.keep(&both), (true, None));
    assert_eq!(dir_watcher.keep(&both), (false, None));
}
