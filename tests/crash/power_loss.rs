//! The power goes after any call; and no call is made that nobody would miss.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

use crate::support::disk::{Disk, Image, materialise};
use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::rng::Rng;
use crate::support::scenario::{self, Scenario};
use crate::support::{Effort, effort};

/// Loses power in the middle of a story.
struct Loss<'a> {
    scenario: &'a Scenario,
    root: std::path::PathBuf,
    /// Disks that are known to be recovered from
    good: BTreeSet<Image>,
}

impl<'a> Loss<'a> {
    fn new(scenario: &'a Scenario, case: &str) -> Self {
        let root = scenario.template.with_file_name(format!("power-{case}"));
        Self { scenario, root, good: BTreeSet::new() }
    }

    /// Plays the calls and loses power after each of them, in every way.
    fn play(&mut self, calls: &[Call]) -> Result<(), String> {
        let mut disk = Disk::of(&self.scenario.template);
        let mut rng = Rng::new(1);
        for number in 0..=calls.len() {
            for image in disk.images(&mut rng) {
                let is_done = number == calls.len();
                self.check(image, is_done).map_err(|why| format!("power lost after {number} calls: {why}"))?;
            }
            if let Some(call) = calls.get(number) {
                disk.play(call);
            }
        }
        Ok(())
    }

    fn check(&mut self, image: Image, is_done: bool) -> Result<(), String> {
        let expectation = &self.scenario.expectation;
        if self.good.contains(&image) && !is_done {
            return Ok(());
        }
        materialise(&image, &self.root);
        if is_done {
            expectation.check_durable(&self.root)?;
        }
        expectation.check_instant(&self.root)?;
        let recovered = self.scenario.run(&self.root, &FaultyFs::new(Fault::None));
        recovered.map_err(|why| format!("recovery: {why}"))?;
        expectation.check_settled(&self.root).map_err(|why| format!("after recovery: {why}"))?;
        self.good.insert(image);
        Ok(())
    }
}

/// The short form does without most stories where each takes long.
fn is_tried(scenario: &Scenario) -> bool {
    effort() > Effort::Short || ["first apply", "restore", "proof of a change"].contains(&scenario.name)
}

fn effects(scenario: &Scenario) -> Vec<Call> {
    let fs = FaultyFs::new(Fault::None);
    scenario.run(&scenario.host("effects"), &fs).expect("it runs");
    fs.effects()
}

#[test]
fn the_model_of_the_disk_ends_where_the_real_one_does() {
    for scenario in scenario::all_of_agent("model") {
        let root = scenario.host("real");
        let fs = FaultyFs::new(Fault::None);
        scenario.run(&root, &fs).expect("it runs");
        let mut disk = Disk::of(&scenario.template);
        fs.effects().iter().for_each(|call| disk.play(call));
        let modelled = root.with_file_name("modelled");
        // of all images the one in which nothing is lost
        let images = disk.images(&mut Rng::new(0));
        materialise(images.last().expect("there is one"), &modelled);
        assert_eq!(tree(&root), tree(&modelled), "{}", scenario.name);
    }
}

fn tree(root: &Path) -> Vec<(std::path::PathBuf, Option<Vec<u8>>)> {
    let mut found = Vec::new();
    let mut dirs = vec![root.to_owned()];
    while let Some(dir) = dirs.pop() {
        for entry in fs::read_dir(dir).expect("readable") {
            let path = entry.expect("readable").path();
            let content = path.is_file().then(|| fs::read(&path).expect("readable"));
            if path.is_dir() {
                dirs.push(path.clone());
            }
            found.push((path.strip_prefix(root).expect("below").to_owned(), content));
        }
    }
    found.sort();
    found
}

#[test]
fn power_lost_after_every_call_in_every_way() {
    let mut images = 0;
    for scenario in scenario::all_of_agent("power").into_iter().filter(is_tried) {
        let calls = effects(&scenario);
        let mut loss = Loss::new(&scenario, "all");
        loss.play(&calls).unwrap_or_else(|why| panic!("{}: {why}", scenario.name));
        println!("{:<32} {} calls, {} different disks", scenario.name, calls.len(), loss.good.len());
        images += loss.good.len();
    }
    println!("power: {images} disks recovered from, 0 violations");
}

/// What a killed run wrote and did not sync is not on the disk, though the next run sees it.
#[test]
fn killed_and_then_the_power_goes_during_recovery() {
    let mut disks = 0;
    for scenario in scenario::all_of_agent("kill-power").into_iter().filter(is_tried) {
        let mut loss = Loss::new(&scenario, "killed");
        let calls = effects(&scenario).len();
        // each point has thousands of disks: less effort tries some of the points, beginning elsewhere with each story
        let step = match effort() {
            Effort::All => 1,
            Effort::Ci => 3,
            Effort::Short => 9,
        };
        for at in (calls % step..=calls).step_by(step) {
            let root = scenario.host("killed");
            let killed = FaultyFs::new(Fault::Kill(at));
            let _ = scenario.run(&root, &killed);
            let recovery = FaultyFs::new(Fault::None);
            scenario.run(&root, &recovery).unwrap_or_else(|why| panic!("{}, killed before {at}: {why}", scenario.name));
            let calls: Vec<Call> = killed.effects().into_iter().chain(recovery.effects()).collect();
            loss.play(&calls).unwrap_or_else(|why| panic!("{}, killed before {at}, then {why}", scenario.name));
        }
        disks += loss.good.len();
    }
    println!("power during recovery: {disks} disks recovered from, 0 violations");
}

#[test]
fn every_call_is_missed_when_it_is_dropped() {
    let (mut dropped, mut told, mut again) = (0, 0, 0);
    let mut unmissed = Vec::new();
    // of what a killed run left, all counts as on the disk here, and syncing it again is not missed; nor is the end of a preflight
    // where the commit that follows syncs the same directory
    let is_settled =
        |scenario: &Scenario| scenario.name != scenario::AFTER_KILL && !scenario::IN_PREFLIGHT.contains(&scenario.name);
    let stories = if effort() == Effort::Short { 1 } else { usize::MAX };
    let scenarios = scenario::all_of_agent("mutation").into_iter().filter(is_tried).filter(is_settled);
    for scenario in scenarios.take(stories) {
        let reference = FaultyFs::new(Fault::None);
        scenario.run(&scenario.host("reference"), &reference).expect("it runs");
        let calls = reference.calls();
        let mut loss = Loss::new(&scenario, "dropped");
        for (at, call) in calls.iter().enumerate() {
            dropped += 1;
            let fs = FaultyFs::new(Fault::Drop(at));
            let root = scenario.host("dropped");
            let result = scenario.run(&root, &fs);
            let expectation = &scenario.expectation;
            if result.is_err() {
                told += 1;
            } else if made_again(call, &fs.calls()) {
                again += 1;
            } else if expectation.check_settled(&root).is_ok()
                && expectation.check_lock(&root, scenario::COMMAND).is_ok()
                && loss.play(&fs.effects()).is_ok()
                && !is_lock_line_unseen(&scenario, call)
            {
                unmissed.push(format!("{}: call {at}, {}", scenario.name, shortened(call)));
            }
        }
    }
    println!(
        "mutations: {dropped} calls dropped, {told} told by the program, {again} made again at once, the rest found by the checker"
    );
    assert!(unmissed.is_empty(), "nobody misses:\n{}", unmissed.join("\n"));
}

/// The program saw at once that nothing had happened, and made the call again: a lock that is not there, a file that is
/// still there.
fn made_again(call: &Call, calls: &[Call]) -> bool {
    matches!(call, Call::OpenLock { .. } | Call::RemoveFile { .. })
        && calls.iter().filter(|own| *own == call).count() > 1
}

/// Others who wait want to know for whom, but nobody can check it afterwards: with a purge the lock is gone, and a preflight
/// takes it twice and says the same both times.
fn is_lock_line_unseen(scenario: &Scenario, call: &Call) -> bool {
    let is_line = matches!(call, Call::Write { file, .. } if file.ends_with("/lock"));
    is_line && matches!(scenario.operation, scenario::Operation::Purge | scenario::Operation::Preflight(_))
}

fn shortened(call: &Call) -> String {
    format!("{call:?}").chars().take(160).collect()
}
