//! A k3s server: tried, kept, restored and taken back, killed before every call; each commit is followed by one restart, and a host
//! that loses power in a trial runs what it ran before.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedpatch::apply::{HostFs, RealFs};
use schedpatch::journal::{Initiator, Journal, RestartState};
use schedpatch::plan::Direction;
use schedpatch::platform::Platforms;
use schedpatch::reconcile::{self, Env, Outcome, Request};
use schedpatch::settings::Settings;
use schedpatch::timestamp::Timestamp;

use crate::support::disk::{Disk, Image, materialise};
use crate::support::faulty_fs::{Fault, FaultyFs};
use crate::support::pretended_k3s::{
    BY_DROP_IN, BY_PERSON, BY_TRIAL, DROP_IN, TEXT, TRIAL, UNIT, age, install, machine, read, reboot, reload, start,
};
use crate::support::rng::Rng;

struct Host {
    root: PathBuf,
    settings: Settings,
}

impl Host {
    fn new(name: &str, platforms: Platforms) -> Self {
        let dir = crate::support::scratch("crash-k3s").join(name);
        let _ = fs::remove_dir_all(&dir);
        let root = dir.join("host");
        fs::create_dir_all(dir.join("source")).expect("made");
        install(&root);
        age(&root, 60);
        let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 8\n";
        fs::write(dir.join("source/config.yaml"), config).expect("written");
        Self { settings: Settings { sources: vec![dir.join("source")], platforms, ..Settings::new(&root) }, root }
    }

    fn run(&self, direction: Direction, fs: &dyn HostFs) -> Result<(), String> {
        Self::carry_out(&self.request(direction), fs).map(drop)
    }

    /// Takes our edit out and leaves no trace; whether none is left.
    fn purge(&self) -> bool {
        self.purge_through(&RealFs).expect("it runs")
    }

    fn purge_through(&self, fs: &dyn HostFs) -> Result<bool, String> {
        let request = Request { purge: true, ..self.request(Direction::Restore) };
        Ok(Self::carry_out(&request, fs)?.purged == Some(true))
    }

    fn request(&self, direction: Direction) -> Request<'_> {
        Request::new(&self.settings, direction, Initiator::Agent, "test", Duration::from_secs(1))
    }

    fn carry_out(request: &Request<'_>, fs: &dyn HostFs) -> Result<Outcome, String> {
        let env = Env { fs, clock: &|| Timestamp::from_unix(1) };
        let outcome = reconcile::run(request, &env, &mut |_| {}).map_err(|finding| finding.message)?;
        outcome.plan.error().map_or(Ok(()), |error| Err(error.message.clone()))?;
        Ok(outcome)
    }

    /// The restart that was asked for has happened, and what runs is proven.
    fn prove(&self) {
        age(&self.root, 60);
        self.run(Direction::Judge, &RealFs).expect("noted");
        let text = self.journal().current.expect("something is committed").text;
        let env = Env { fs: &RealFs, clock: &|| Timestamp::from_unix(1) };
        assert!(reconcile::prove(&self.request(Direction::Judge), &env, text).expect("it can be written"));
    }

    fn journal(&self) -> Journal {
        let bytes = fs::read(self.root.join("var/lib/schedpatch/state.json")).expect("there is a journal");
        Journal::from_json(&bytes).expect("it is sound")
    }

    fn restarts(&self) -> u64 {
        machine(&self.root, |machine| machine.restarts)
    }

    fn config(&self) -> Option<String> {
        machine(&self.root, |machine| machine.config().map(str::to_owned))
    }
}

/// What is done, and what has to be there before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Story {
    Try,
    Keep,
    Restore,
    TakeBack,
}

impl Story {
    const ALL: [Self; 4] = [Self::Try, Self::Keep, Self::Restore, Self::TakeBack];

    fn prepare(self, name: &str, platforms: Platforms) -> Host {
        let host = Host::new(name, platforms);
        if self != Self::Try {
            host.run(Direction::Apply, &RealFs).expect("it is tried");
            age(&host.root, 60);
            host.run(Direction::Judge, &RealFs).expect("the restart is noted");
        }
        if matches!(self, Self::Keep | Self::Restore) {
            host.prove();
        }
        if self == Self::Restore {
            host.run(Direction::Apply, &RealFs).expect("it is kept");
        }
        host
    }

    fn direction(self) -> Direction {
        match self {
            Self::Try | Self::Keep => Direction::Apply,
            Self::Restore | Self::TakeBack => Direction::Restore,
        }
    }

    fn restarts(self) -> u64 {
        u64::from(self != Self::Keep)
    }

    fn wants_ours(self) -> bool {
        matches!(self, Self::Try | Self::Keep)
    }
}

/// The file that the method edits, as it is without us and as it is now.
fn target(host: &Host, platforms: Platforms) -> (Option<String>, Option<String>) {
    let is_unit = std::ptr::eq(platforms, BY_TRIAL);
    if is_unit { (Some(TEXT.to_owned()), read(&host.root, UNIT)) } else { (None, read(&host.root, DROP_IN)) }
}

fn check(story: Story, host: &Host, platforms: Platforms, before: u64, words: &str) {
    let (original, now) = target(host, platforms);
    assert_eq!(read(&host.root, TRIAL).is_some(), story == Story::Try, "{words}: the place of the trial");
    assert_eq!(now == original, story != Story::Keep, "{words}: the target, {now:?}");
    assert_eq!(host.restarts(), before + story.restarts(), "{words}: restarts");
    assert_eq!(host.config().is_some(), story.wants_ours(), "{words}: what runs");
    if story.restarts() > 0 {
        assert_eq!(host.journal().restart.map(|restart| restart.state), Some(RestartState::Done), "{words}");
    }
    if let Some(config) = host.config() {
        assert!(host.root.join(config.trim_start_matches('/')).is_file(), "{words}: the configuration is there");
    }
}

fn strays(dir: &Path) -> Vec<String> {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| name.ends_with(".schedpatch"))
        .collect()
}

#[test]
fn killed_before_every_call_a_server_is_restarted_once_and_ends_where_it_should() {
    let mut points = 0;
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        for story in Story::ALL {
            let fs = FaultyFs::new(Fault::None);
            story.prepare("count", platforms).run(story.direction(), &fs).expect("it runs");
            let calls = fs.calls().len();
            for at in 0..=calls {
                let host = story.prepare("kill", platforms);
                let before = host.restarts();
                let _ = host.run(story.direction(), &FaultyFs::new(Fault::Kill(at)));
                age(&host.root, 60);
                host.run(story.direction(), &RealFs).expect("it recovers");
                age(&host.root, 60);
                host.run(Direction::Judge, &RealFs).expect("it is noted");
                let words = format!("{story:?}, killed before call {at} of {calls}");
                check(story, &host, platforms, before, &words);
                for dir in ["etc/systemd/system", "run/systemd/system/k3s.service.d", "etc/rancher/k3s/config.yaml.d"] {
                    assert!(strays(&host.root.join(dir)).is_empty(), "{words}: something is left in {dir}");
                }
                points += 1;
            }
        }
    }
    println!("{points} kills of a k3s server's edit");
}

#[test]
fn a_host_that_loses_power_in_a_trial_runs_what_it_ran_before() {
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        let fs = FaultyFs::new(Fault::None);
        Story::Try.prepare("count-power", platforms).run(Direction::Apply, &fs).expect("it runs");
        for at in 0..=fs.calls().len() {
            let host = Story::Try.prepare("power", platforms);
            let _ = host.run(Direction::Apply, &FaultyFs::new(Fault::Kill(at)));
            reboot(&host.root);
            age(&host.root, 60);
            let (original, now) = target(&host, platforms);
            assert_eq!((host.config(), now), (None, original), "no power before call {at}");
            let before = host.restarts();
            // the agent finishes first what a commit began, and the boot has done that
            host.run(Direction::Judge, &RealFs).expect("it is looked at");
            assert_eq!(host.restarts(), before, "the boot was a restart already: no power before call {at}");
            host.run(Direction::Apply, &RealFs).expect("it is tried again");
            age(&host.root, 60);
            host.run(Direction::Judge, &RealFs).expect("it is noted");
            check(Story::Try, &host, platforms, before, &format!("tried again after call {at}"));
        }
    }
}

#[test]
fn a_text_that_comes_while_the_server_still_starts_is_restarted_for_too() {
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        let host = Host::new("still-starts", platforms);
        host.run(Direction::Apply, &RealFs).expect("it is tried");
        assert!(host.config().is_some());
        // the start that is under way has read the command line of before
        host.run(Direction::Restore, &RealFs).expect("it is taken back");
        assert_eq!((host.config(), host.restarts()), (None, 2));
    }
}

#[test]
fn nothing_is_purged_before_the_server_was_told_to_start_without_it() {
    let host = Story::Restore.prepare("refused-purge", BY_TRIAL);
    let config = host.config().expect("it runs with ours");
    machine(&host.root, |machine| machine.refuses = true);
    assert!(!host.purge(), "the restart was refused");
    assert!(host.root.join(config.trim_start_matches('/')).is_file(), "what runs may still need it");
    assert_eq!(host.journal().restart.map(|restart| restart.state), Some(RestartState::Due));
    machine(&host.root, |machine| machine.refuses = false);
    let before = host.restarts();
    assert!(host.purge());
    assert_eq!((host.config(), host.restarts()), (None, before + 1));
}

#[test]
fn after_a_purge_a_server_that_ends_before_a_person_restarts_it_comes_up_again() {
    let host = Host::new("purge-by-person", BY_PERSON);
    host.run(Direction::Apply, &RealFs).expect("written");
    reload(&host.root);
    start(&host.root);
    assert!(host.config().is_some());
    assert!(host.purge());
    // systemd starts it anew with the command line that it has loaded
    start(&host.root);
    assert_eq!((host.config(), host.restarts()), (None, 0), "its file is gone");
}

#[test]
fn killed_before_a_text_that_is_not_loaded_is_taken_back_the_next_run_does_it() {
    let hidden = || {
        let text = "[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server\n".to_owned();
        Some(("/usr/lib/systemd/system/k3s.service.d/99-vendor.conf".to_owned(), text))
    };
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        let prepared = |name: &str| {
            let host = Host::new(name, platforms);
            machine(&host.root, |machine| machine.hidden = hidden());
            reload(&host.root);
            host
        };
        let fs = FaultyFs::new(Fault::None);
        prepared("count-hidden").run(Direction::Apply, &fs).expect_err("systemd does not load it");
        for at in 0..=fs.calls().len() {
            let host = prepared("hidden");
            let _ = host.run(Direction::Apply, &FaultyFs::new(Fault::Kill(at)));
            // as the agent does: first what a commit began, then what is wanted
            let _ = host.run(Direction::Judge, &RealFs);
            host.run(Direction::Apply, &RealFs).expect_err("systemd does not load it");
            let (original, now) = target(&host, platforms);
            assert_eq!((read(&host.root, TRIAL), now, host.restarts()), (None, original, 0), "killed before call {at}");
            assert_eq!(host.journal().restart, None, "killed before call {at}");
        }
    }
}

#[test]
fn killed_in_an_uninstall_it_is_finished_with_one_restart_and_no_trace() {
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        let fs = FaultyFs::new(Fault::None);
        Story::Restore.prepare("count-uninstall", platforms).purge_through(&fs).expect("it runs");
        for at in 0..=fs.calls().len() {
            let host = Story::Restore.prepare("uninstall", platforms);
            let before = host.restarts();
            let _ = host.purge_through(&FaultyFs::new(Fault::Kill(at)));
            age(&host.root, 60);
            assert!(host.purge(), "killed before call {at}: something is left");
            let (original, now) = target(&host, platforms);
            assert_eq!((now, read(&host.root, TRIAL)), (original, None), "killed before call {at}");
            assert_eq!((host.config(), host.restarts()), (None, before + 1), "killed before call {at}");
            assert!(!host.root.join("var/lib/schedpatch").exists(), "killed before call {at}");
        }
    }
}

/// What was written and not synced may be lost, or cut in half.
#[test]
fn power_lost_after_every_call_in_every_way_leaves_a_server_that_starts_and_recovers() {
    let mut images = 0;
    for platforms in [BY_TRIAL, BY_DROP_IN] {
        for story in Story::ALL {
            let host = story.prepare("loss", platforms);
            let (mut disk, (_, old)) = (Disk::of(&host.root), target(&host, platforms));
            let fs = FaultyFs::new(Fault::None);
            host.run(story.direction(), &fs).expect("it runs");
            let (original, new) = target(&host, platforms);
            let calls = fs.effects();
            let (mut rng, mut seen) = (Rng::new(1), BTreeSet::new());
            for number in 0..=calls.len() {
                for mut image in disk.images(&mut rng) {
                    // what is in /run is in memory
                    image.retain(|path, _| !path.starts_with("/run/systemd/system/") || path == "/run/systemd/system/");
                    let words = format!("{story:?}, power lost after {number} of {} calls", calls.len());
                    let (_, now) = target_in(&image, platforms);
                    assert!(now == old || now == new, "{words}: {now:?}");
                    if number == calls.len() && story != Story::Try {
                        assert_eq!(now, new, "{words}: what is done stays done");
                    }
                    if seen.insert(image.clone()) {
                        materialise(&image, &host.root);
                        recover(story, &host, &words);
                        let (_, now) = target(&host, platforms);
                        assert!(story.wants_ours() || now == original, "{words}: {now:?}");
                    }
                }
                if let Some(call) = calls.get(number) {
                    disk.play(call);
                }
            }
            images += seen.len();
        }
    }
    println!("{images} disks of a k3s server recovered from");
}

/// The target as a disk has it.
fn target_in(image: &Image, platforms: Platforms) -> (&'static str, Option<String>) {
    let path = if std::ptr::eq(platforms, BY_TRIAL) { UNIT } else { DROP_IN };
    let content = image.get(path).and_then(|(content, _)| content.clone());
    (path, content.map(|bytes| String::from_utf8_lossy(&bytes).into_owned()))
}

/// The host starts, and what was begun is finished.
fn recover(story: Story, host: &Host, words: &str) {
    reboot(&host.root);
    age(&host.root, 60);
    let booted = host.config();
    let is_whole = |config: &String| read(&host.root, config).is_some_and(|text| text.contains("\"parallelism\": 8"));
    assert!(booted.iter().all(is_whole), "{words}: what the server started with is not there");
    let before = host.restarts();
    for direction in [Direction::Judge, story.direction(), Direction::Judge] {
        host.run(direction, &RealFs).unwrap_or_else(|why| panic!("{words}: {why}"));
        age(&host.root, 60);
    }
    assert_eq!(host.config().is_some(), story.wants_ours(), "{words}: what runs");
    assert!(host.config().iter().all(is_whole), "{words}: the configuration");
    let restarts = host.restarts() - before;
    assert!(restarts <= 1 && (restarts == 1 || booted.is_some() == story.wants_ours()), "{words}: {restarts} restarts");
}
