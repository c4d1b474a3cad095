//! A target kind that needs a restart after a commit: it gets exactly one, through any crash.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use schedpatch::apply::{HostFs, RealFs};
use schedpatch::journal::{Initiator, Journal, RestartState};
use schedpatch::plan::{Direction, Plan, StepKind};
use schedpatch::reconcile::{self, Env, Outcome, Request};
use schedpatch::settings::Settings;
use schedpatch::timestamp::Timestamp;

use crate::support::faulty_fs::{Call, Fault, FaultyFs};
use crate::support::unit_kind::{PATH, PLATFORMS, TEXT, finish, restarts, running};

struct Host {
    root: PathBuf,
    settings: Settings,
}

impl Host {
    /// A host whose scheduler runs the original.
    fn new(name: &str) -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("restart").join(name);
        let _ = fs::remove_dir_all(&dir);
        let root = dir.join("host");
        fs::create_dir_all(root.join("etc/units")).expect("made");
        fs::create_dir_all(root.join("run")).expect("made");
        fs::create_dir_all(dir.join("source")).expect("made");
        fs::write(root.join("etc/units/kube-scheduler.unit"), TEXT).expect("written");
        fs::write(root.join("run/text"), TEXT).expect("written");
        fs::write(root.join("run/instance"), "start-0").expect("written");
        let config = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nparallelism: 8\n";
        fs::write(dir.join("source/config.yaml"), config).expect("written");
        let settings = Settings { sources: vec![dir.join("source")], platforms: PLATFORMS, ..Settings::new(&root) };
        Self { root, settings }
    }

    fn pass(&self, direction: Direction, fs: &dyn HostFs) -> Result<Outcome, String> {
        let request = Request::new(&self.settings, direction, Initiator::Person, "test", Duration::from_secs(1));
        let env = Env { fs, clock: &|| Timestamp::from_unix(1) };
        reconcile::run(&request, &env, &mut |_| {}).map_err(|finding| finding.message)
    }

    fn run(&self, direction: Direction, fs: &dyn HostFs) -> Result<Plan, String> {
        let outcome = self.pass(direction, fs)?;
        match outcome.plan.error() {
            Some(error) => Err(error.message.clone()),
            None => Ok(outcome.plan),
        }
    }

    fn text(&self) -> String {
        fs::read_to_string(self.root.join(PATH.trim_start_matches('/'))).expect("the unit is there")
    }

    fn restart_state(&self) -> Option<RestartState> {
        let bytes = fs::read(self.root.join("var/lib/schedpatch/state.json")).ok()?;
        Journal::from_json(&bytes).expect("a journal").restart.map(|restart| restart.state)
    }
}

fn kinds(plan: &Plan) -> Vec<StepKind> {
    plan.steps().iter().map(|step| step.kind).collect()
}

#[test]
fn a_commit_is_followed_by_one_restart_and_undone_by_one_more() {
    let host = Host::new("life");
    let plan = host.run(Direction::Apply, &RealFs).expect("applied");
    assert_eq!(kinds(&plan), [StepKind::WriteFile, StepKind::ReplaceTarget, StepKind::Restart]);
    assert!(plan.to_json().expect("JSON").contains("\"kind\": \"restart\""));
    assert_eq!((restarts(&host.root), running(&host.root, "text")), (1, host.text()));
    assert_eq!(host.restart_state(), Some(RestartState::Issued));

    // that it has happened is noted, and nothing else is done
    assert!(host.run(Direction::Apply, &RealFs).expect("noted").steps().is_empty());
    assert_eq!(host.restart_state(), Some(RestartState::Done));
    let fs = FaultyFs::new(Fault::None);
    host.run(Direction::Apply, &fs).expect("settled");
    assert_eq!((fs.calls().len(), restarts(&host.root)), (0, 1));

    host.run(Direction::Restore, &RealFs).expect("restored");
    assert_eq!((host.text().as_str(), restarts(&host.root)), (TEXT, 2));
    assert_eq!(running(&host.root, "text"), TEXT);
}

#[test]
fn a_restart_that_takes_its_time_is_not_asked_for_twice() {
    let host = Host::new("slow");
    fs::write(host.root.join("run/slow"), "").expect("written");
    host.run(Direction::Apply, &RealFs).expect("applied");
    for _ in 0..3 {
        host.run(Direction::Apply, &RealFs).expect("nothing more");
        assert_eq!((restarts(&host.root), host.restart_state()), (1, Some(RestartState::Issued)));
    }
    finish(&host.root);
    host.run(Direction::Apply, &RealFs).expect("noted");
    assert_eq!((restarts(&host.root), host.restart_state()), (1, Some(RestartState::Done)));
}

#[test]
fn a_restart_that_fails_is_told_and_asked_for_again() {
    let host = Host::new("refused");
    fs::write(host.root.join("run/refused"), "").expect("written");
    let outcome = host.pass(Direction::Apply, &RealFs).expect("it writes");
    let receipt = outcome.receipt.expect("written");
    assert!(receipt.committed && receipt.restart_failed.expect("told").message.contains("does not answer"));
    assert_eq!((restarts(&host.root), host.restart_state()), (0, Some(RestartState::Due)));
    // what others add to the text meanwhile is no reason to forget it, nor is a service that does not run
    fs::write(host.root.join("etc/units/kube-scheduler.unit"), host.text() + "# theirs\n").expect("written");
    fs::remove_file(host.root.join("run/instance")).expect("removed");
    let plan = host.run(Direction::Judge, &RealFs).expect("it tries");
    assert_eq!(kinds(&plan), [StepKind::Restart]);
    fs::remove_file(host.root.join("run/refused")).expect("removed");
    host.run(Direction::Judge, &RealFs).expect("restarted");
    assert_eq!((restarts(&host.root), running(&host.root, "text")), (1, host.text()));
    host.run(Direction::Apply, &RealFs).expect("noted");
    assert_eq!((restarts(&host.root), host.restart_state()), (1, Some(RestartState::Done)));
}

#[test]
fn what_others_wrote_over_a_commit_in_flight_is_made_effective() {
    let host = Host::new("over");
    let fs = FaultyFs::new(Fault::None);
    host.run(Direction::Apply, &fs).expect("it runs");
    let rename = |call: &Call| matches!(call, Call::Rename { to, .. } if to == "kube-scheduler.unit");
    let at = fs.calls().iter().position(rename).expect("it commits") + 1;
    let host = Host::new("over");
    let _ = host.run(Direction::Apply, &FaultyFs::new(Fault::Kill(at)));
    assert_eq!(restarts(&host.root), 0, "killed after the rename");
    std::fs::write(host.root.join("etc/units/kube-scheduler.unit"), host.text() + "# theirs\n").expect("written");
    host.run(Direction::Apply, &RealFs).expect("it recovers");
    assert_eq!((restarts(&host.root), running(&host.root, "text")), (1, host.text()));
}

#[test]
fn killed_before_every_call_there_is_one_restart_for_every_commit() {
    let mut points = 0;
    for direction in [Direction::Apply, Direction::Restore] {
        for slow in [false, true] {
            let begin = |name: &str| {
                let host = Host::new(name);
                if direction == Direction::Restore {
                    host.run(Direction::Apply, &RealFs).expect("applied");
                }
                if slow {
                    fs::write(host.root.join("run/slow"), "").expect("written");
                }
                host
            };
            let fs = FaultyFs::new(Fault::None);
            begin("count").run(direction, &fs).expect("it runs");
            let calls = fs.calls().len();
            for at in 0..=calls {
                let host = begin("kill");
                let before = restarts(&host.root);
                let _ = host.run(direction, &FaultyFs::new(Fault::Kill(at)));
                host.run(direction, &RealFs).expect("it recovers");
                finish(&host.root);
                host.run(direction, &RealFs).expect("it is settled");
                let story = format!("{direction:?}, slow: {slow}, killed before call {at} of {calls}");
                assert_eq!(restarts(&host.root), before + 1, "{story}");
                assert_eq!(running(&host.root, "text"), host.text(), "{story}: what runs is what is written");
                assert_eq!(host.text() == TEXT, direction == Direction::Restore, "{story}");
                assert_eq!(host.restart_state(), Some(RestartState::Done), "{story}");
                points += 1;
            }
        }
    }
    println!("{points} kills, each with exactly one restart");
}
