//! Others who write: a person by the command line, a second agent, somebody in the very instant of a commit.

use std::fs;
use std::sync::{Arc, mpsc};
use std::time::Duration;

use schedpatch::apply::RealFs;
use schedpatch::journal::Initiator;
use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::reconcile::{self, Env, Request};
use schedpatch::settings::Settings;
use schedpatch::timestamp::Timestamp;

use crate::node::{MANIFEST, Node, config, story};
use crate::rename_hook::RenameHook;

/// How long an agent that waits for the lock keeps everything else here waiting.
const HELD: Duration = Duration::from_millis(500);

/// `schedpatch apply` by a person, with the agent turning between the manifest's rename and the journal's write.
async fn apply_slowly(node: &Node, retry: bool) {
    let settings = Settings { retry, ..node.settings.clone() };
    let may_wait = if node.options.lock_timeout > HELD { HELD } else { Duration::from_secs(10) };
    let ((renamed, was_renamed), (go_on, waits)) = (mpsc::channel(), mpsc::channel());
    let person = std::thread::spawn(move || {
        let request = Request::new(&settings, Direction::Apply, Initiator::Person, "apply", Duration::from_secs(5));
        // waits after the rename of the manifest until it is let go on
        let fs = RenameHook::new(
            |_| {},
            move || {
                let _ = renamed.send(());
                let _ = waits.recv_timeout(may_wait);
            },
        );
        let env = Env { fs: &fs, clock: &|| Timestamp::from_unix(1) };
        reconcile::run(&request, &env, &mut |_| {}).map(drop)
    });
    was_renamed.recv_timeout(Duration::from_secs(10)).expect("it renames");
    node.ring(&node.manifest_path());
    // the agent looks now, and may wait for the lock for a moment
    node.pass(1).await;
    let _ = go_on.send(());
    person.join().expect("no panic").expect("applied");
    node.ring(&node.on_host("/var/lib/schedpatch/state.json"));
}

#[test]
fn a_hold_that_an_apply_has_ended_is_not_told_any_longer() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        node.as_person(Direction::Restore, false).expect("restored");
        node.until(Phase::Restored, 30).await;
        // no news of the pod wakes the agent, so only the end of the apply can
        node.kubelet.borrow_mut().is_running = false;
        apply_slowly(&node, false).await;
        node.until(Phase::Verifying, 5).await;
        node.kubelet.borrow_mut().is_running = true;
        node.until(Phase::Ready, 60).await;
    });
}

#[test]
fn a_retry_is_not_taken_back_before_it_was_tried() {
    retry_slowly(Duration::from_millis(200));
}

/// The agent has decided before the journal is written, and writes after that.
#[test]
fn a_retry_is_not_taken_back_by_who_waited_for_the_lock() {
    retry_slowly(Duration::from_secs(20));
}

fn retry_slowly(lock_timeout: Duration) {
    story(move |mut node| async move {
        node.options.lock_timeout = lock_timeout;
        // the extender's name decides, so that the second try runs
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        let started = node.kubelet.borrow().started();
        apply_slowly(&node, true).await;
        assert!(node.revision().is_some(), "taken back at once");
        node.until(Phase::Verifying, 5).await;
        node.until(Phase::RolledBack, 300).await;
        assert!(node.kubelet.borrow().started() >= started + 2, "it had its trial");
    });
}

#[test]
fn what_somebody_wrote_in_the_instant_of_a_commit_is_told_and_kept() {
    story(|mut node| async move {
        let theirs = MANIFEST.replace("cpu: 100m", "cpu: 300m");
        let (path, text) = (node.manifest_path(), theirs.clone());
        node.fs = Arc::new(RenameHook::new(
            move |from| {
                if from != ".other" {
                    fs::write(&path, &text).expect("written");
                }
            },
            || {},
        ));
        node.source(&config("one"));
        node.start();
        let report = node
            .until_report("a notice", 60, |report| !report.notices.is_empty() && report.counts.overwritten > 0)
            .await;
        let notice = report.notices.iter().find(|notice| notice.reason == "Overwritten").expect("it is told");
        assert_eq!((notice.reason.as_str(), notice.is_warning, report.counts.overwritten), ("Overwritten", true, 1));
        assert!(notice.message.contains("/var/lib/schedpatch/overwritten.yaml"), "{}", notice.message);
        let kept = fs::read_to_string(node.on_host("/var/lib/schedpatch/overwritten.yaml")).expect("it is kept");
        assert_eq!(kept, theirs);
    });
}

#[test]
fn two_agents_with_different_wishes_stop_fighting_and_say_who_the_other_is() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let generation = node.journal().generation;
        // the other agent has other sources, and writes whenever it sees something else
        let other = node.dir.join("other");
        fs::create_dir_all(&other).expect("made");
        fs::write(other.join("config.yaml"), config("two")).expect("written");
        let settings = Settings { sources: vec![other], ..node.settings.clone() };
        for _ in 0..60 {
            let request = Request::new(&settings, Direction::Apply, Initiator::Agent, "run", Duration::from_secs(5));
            let env = Env { fs: &RealFs, clock: &|| Timestamp::from_unix(1) };
            reconcile::run(&request, &env, &mut |_| {}).expect("it writes");
            node.ring(&node.manifest_path());
            node.ring(&node.on_host("/var/lib/schedpatch/state.json"));
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        let report = node.report.borrow().clone();
        assert_eq!(
            (report.node_state.phase, report.node_state.reason.as_str()),
            (Phase::Degraded, "AnotherSchedpatch")
        );
        assert!(report.node_state.message.contains("(schedpatch run, process "), "{}", report.node_state.message);
        assert!(node.journal().generation <= generation + 10, "generation {}", node.journal().generation);
    });
}

#[test]
fn commits_have_a_limit_whatever_they_are_for() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        for number in 0..300 {
            node.source(&config(&format!("n{number}")));
            tokio::time::sleep(Duration::from_millis(40)).await;
        }
        assert!(node.journal().generation <= 21, "{} commits in 12 s", node.journal().generation);
        node.until(Phase::Ready, 200).await;
    });
}
