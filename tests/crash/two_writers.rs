//! Others write the manifest too: what they wrote is never lost in silence, and who watches never sees half a file.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::rng::Rng;
use crate::support::scenario::{self, Operation, Scenario};
use crate::support::whole_host::normalised;
use crate::support::{Effort, effort};
use nix::sys::inotify::{AddWatchFlags, InitFlags, Inotify};
use schedpatch::apply::ForeignWrite;

/// How somebody else writes the manifest.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Moves the old file away, then the new one there
    Kubeadm,
    /// Renames a file from one level up over it
    Rke2,
    /// Truncates it and writes
    Editor,
}

/// Writes one version after the other and looks whether the one before is still there, changed by us or not.
struct Foreign {
    target: PathBuf,
    original: String,
    manner: Manner,
    stop: Arc<AtomicBool>,
}

impl Foreign {
    /// Gives how many versions were written, and how many of them were lost.
    fn run(&self) -> (usize, usize) {
        let (mut written, mut lost) = (0, 0);
        let mut rng = Rng::new(3);
        while !self.stop.load(Ordering::Relaxed) {
            written += 1;
            self.write(written);
            let until = Instant::now() + Duration::from_micros(rng.next() % 60_000);
            while Instant::now() < until {
                thread::sleep(Duration::from_micros(50));
            }
            let now = fs::read_to_string(&self.target).unwrap_or_default();
            lost += usize::from(!now.contains(&format!("# foreign version {written}\n")));
        }
        (written, lost)
    }

    fn write(&self, version: usize) {
        let text = format!("{}# foreign version {version}\n", self.original);
        let above = self.target.parent().and_then(Path::parent).expect("a directory above");
        let new = above.join("new.yaml");
        match self.manner {
            Manner::Editor => fs::write(&self.target, &text).expect("written"),
            Manner::Rke2 | Manner::Kubeadm => {
                fs::write(&new, &text).expect("written");
                fs::set_permissions(&new, fs::Permissions::from_mode(0o600)).expect("a mode");
                if matches!(self.manner, Manner::Kubeadm) {
                    fs::rename(&self.target, above.join("backup.yaml")).expect("moved away");
                }
                fs::rename(&new, &self.target).expect("moved there");
            }
        }
    }
}

/// Somebody else who writes when told to.
fn somebody(scenario: &Scenario, root: &Path, manner: Manner) -> Foreign {
    let original = String::from_utf8(scenario.original.clone()).expect("text");
    Foreign { target: scenario.target(root), original, manner, stop: Arc::new(AtomicBool::new(false)) }
}

const MANNERS: [Manner; 3] = [Manner::Kubeadm, Manner::Rke2, Manner::Editor];

#[test]
fn a_change_before_the_last_look_is_planned_for_again() {
    for manner in MANNERS {
        let scenario = story(&format!("before-{manner:?}"));
        let root = scenario.host("one");
        let (foreign, once) = (somebody(&scenario, &root, manner), AtomicBool::new(true));
        let fs = FaultyFs::with(|call| {
            let is_temp = matches!(call, Call::Sync { file } if file.ends_with("/.kube-scheduler.yaml.schedpatch"));
            if is_temp && once.swap(false, Ordering::Relaxed) {
                foreign.write(1);
            }
        });
        let outcome = scenario.run(&root, &fs).expect("it applies");
        assert_eq!(outcome.receipt.map(|receipt| receipt.foreign_write), Some(ForeignWrite::None), "{manner:?}");
        let text = fs::read_to_string(scenario.target(&root)).expect("there");
        assert!(
            text.contains("# foreign version 1\n") && text.contains("schedpatch.io/revision"),
            "{manner:?}:\n{text}"
        );
    }
}

#[test]
fn a_change_in_the_very_instant_of_the_rename_is_told() {
    for manner in MANNERS {
        let scenario = story(&format!("instant-{manner:?}"));
        let root = scenario.host("one");
        let foreign = somebody(&scenario, &root, manner);
        let fs = FaultyFs::with(|call| {
            if matches!(call, Call::Rename { to, .. } if to == "kube-scheduler.yaml") {
                foreign.write(1);
            }
        });
        let outcome = scenario.run(&root, &fs).expect("it applies");
        assert_eq!(outcome.receipt.map(|receipt| receipt.foreign_write), Some(ForeignWrite::Lost), "{manner:?}");
    }
}

fn story(suite: &str) -> Scenario {
    let mut all = scenario::all(suite);
    all.swap_remove(0)
}

#[test]
fn what_others_write_is_kept_or_its_loss_is_told() {
    let seconds = match effort() {
        Effort::Short => 2,
        Effort::Ci => 10,
        Effort::All => 120,
    };
    let (mut all_written, mut all_lost, mut all_told) = (0, 0, 0);
    for manner in MANNERS {
        let scenario = story(&format!("writers-{manner:?}"));
        let root = scenario.host("shared");
        let foreign = somebody(&scenario, &root, manner);
        let stop = Arc::clone(&foreign.stop);
        let writer = thread::spawn(move || foreign.run());
        let (mut commits, mut told, mut refused) = (0, 0, 0);
        let until = Instant::now() + Duration::from_secs(seconds);
        while Instant::now() < until {
            match scenario.run(&root, &FaultyFs::new(Fault::None)) {
                Ok(outcome) => {
                    let foreign_write =
                        outcome.receipt.filter(|receipt| receipt.committed).map(|receipt| receipt.foreign_write);
                    commits += usize::from(foreign_write.is_some());
                    told += usize::from(foreign_write == Some(ForeignWrite::Lost));
                    assert_ne!(foreign_write, Some(ForeignWrite::Unwatched), "nobody watched");
                }
                // they were writing at that moment
                Err(_) => refused += 1,
            }
        }
        stop.store(true, Ordering::Relaxed);
        let (written, lost) = writer.join().expect("the other writer ends");
        println!(
            "{manner:?}: {written} foreign versions against {commits} commits, {refused} times in the middle of theirs: \
             {lost} lost in the instant of the rename, {told} told"
        );
        assert!(written > 20 && commits > 5, "they did not meet: {written} {commits}");
        assert!(lost <= told, "{manner:?}: {lost} foreign versions were lost and only {told} losses were told");
        (all_written, all_lost, all_told) = (all_written + written, all_lost + lost, all_told + told);
    }
    println!(
        "two writers: {all_written} foreign versions, {all_lost} lost, {all_told} told, {} lost in silence",
        all_lost.saturating_sub(all_told)
    );
}

#[test]
fn who_watches_sees_one_event_for_each_change_and_never_half_a_file() {
    let changes = if effort() == Effort::Short { 150 } else { 1_000 };
    let scenario = story("watched");
    let root = scenario.host("watched");
    let target = scenario.target(&root);
    let dir = target.parent().expect("a directory").to_owned();
    let texts = Arc::new([texts(&scenario, Operation::Apply("a")), texts(&scenario, Operation::Apply("b"))]);
    let inotify = Inotify::init(InitFlags::IN_NONBLOCK).expect("a watch");
    inotify.add_watch(&dir, AddWatchFlags::IN_ALL_EVENTS & !read_only()).expect("watching");

    let stop = Arc::new(AtomicBool::new(false));
    let looks = Arc::new(AtomicUsize::new(0));
    let original = normalised(&scenario.original);
    let reader = {
        let (stop, looks, target) = (Arc::clone(&stop), Arc::clone(&looks), target.clone());
        thread::spawn(move || {
            while !stop.load(Ordering::Relaxed) {
                let text = normalised(&fs::read(&target).expect("there is always a manifest"));
                assert!(text == original || texts.contains(&text), "half a manifest:\n{text}");
                looks.fetch_add(1, Ordering::Relaxed);
            }
        })
    };
    let mut events = 0;
    for change in 0..changes {
        let operation = Operation::Apply(if change % 2 == 0 { "a" } else { "b" });
        scenario.run_other(&root, operation).expect("it applies");
        let seen = visible(&inotify);
        assert_eq!(seen, ["IN_MOVED_TO kube-scheduler.yaml"], "change {change}");
        events += seen.len();
        scenario.run_other(&root, operation).expect("nothing to do");
        assert_eq!(visible(&inotify), Vec::<String>::new(), "nothing to do after change {change}");
    }
    stop.store(true, Ordering::Relaxed);
    reader.join().expect("no reader saw half a file");
    let looks = looks.load(Ordering::Relaxed);
    println!(
        "watched: {changes} changes, {events} events, 0 events for {changes} no-ops, {looks} looks, none at half a file"
    );
}

/// The target's text after an operation.
fn texts(scenario: &Scenario, operation: Operation) -> String {
    let root = scenario.host("texts");
    scenario.run_other(&root, operation).expect("it applies");
    normalised(&fs::read(scenario.target(&root)).expect("there"))
}

fn read_only() -> AddWatchFlags {
    AddWatchFlags::IN_ACCESS | AddWatchFlags::IN_OPEN | AddWatchFlags::IN_CLOSE_NOWRITE
}

/// What the kubelet would see: it passes over names that begin with a dot.
fn visible(inotify: &Inotify) -> Vec<String> {
    let mut seen = Vec::new();
    while let Ok(events) = inotify.read_events() {
        for event in events {
            let name = event.name.unwrap_or_default().to_string_lossy().into_owned();
            if !name.starts_with('.') {
                let flags: Vec<_> = event.mask.iter_names().map(|(name, _)| name).collect();
                seen.push(format!("{} {name}", flags.join("|")));
            }
        }
    }
    seen
}
