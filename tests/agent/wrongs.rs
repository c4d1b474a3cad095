//! Whatever else is wrong, work in flight is judged to its end: unreadable sources, missing mounts, pipes and links.

use std::fs;
use std::os::unix::fs::symlink;
use std::time::Duration;

use schedpatch::phase::Phase;

use crate::api::Fault;
use crate::log::Log;
use crate::node::{MANIFEST, config, story};

#[test]
fn a_mount_that_vanishes_in_a_trial_does_not_keep_a_broken_scheduler() {
    for stops in [false, true] {
        story(|mut node| async move {
            let mount = node.on_host("/opt/tls");
            fs::create_dir_all(&mount).expect("made");
            node.settings.overrides.mounts = vec!["/opt/tls".to_owned()];
            node.source(&config("slow."));
            node.start();
            node.until(Phase::Verifying, 60).await;
            fs::remove_dir_all(&mount).expect("removed");
            node.ring(&node.manifest_path());
            if stops {
                node.pass(30).await;
                node.stop().await.expect("it ends");
            } else {
                node.pass(600).await;
                assert_eq!(node.phase(), Phase::Blocked, "{}", node.message());
                assert_eq!(node.journal().bad.len(), 1, "it was judged");
            }
            assert_eq!(node.manifest(), MANIFEST, "the manifest does not stay broken");
        });
    }
}

#[test]
fn a_source_that_cannot_be_read_does_not_keep_a_broken_scheduler() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::Verifying, 60).await;
        fs::remove_dir_all(node.dir.join("source")).expect("removed");
        node.ring(&node.dir.join("source"));
        let report = node.until_report("blocked", 300, |report| report.node_state.reason == "SourceUnreadable").await;
        assert_eq!(report.node_state.phase, Phase::Blocked);
        node.pass(300).await;
        assert_eq!((node.manifest().as_str(), node.journal().bad.len()), (MANIFEST, 1));
    });
}

#[test]
fn a_source_that_is_refused_does_not_keep_a_broken_scheduler() {
    story(|mut node| async move {
        node.source(&config("crash."));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.source(&format!("x: [{}1]\n", "1,".repeat(500_000)));
        node.pass(300).await;
        assert_eq!((node.manifest().as_str(), node.journal().bad.len()), (MANIFEST, 1));
        assert!([Phase::Blocked, Phase::Pending].contains(&node.phase()));
        node.source(&config("one"));
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn a_pipe_in_the_manifests_place_hangs_nobody() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let path = node.manifest_path();
        fs::remove_file(&path).expect("removed");
        nix::unistd::mkfifo(&path, nix::sys::stat::Mode::S_IRUSR).expect("a pipe");
        node.ring(&path);
        let report = node.until(Phase::Blocked, 60).await;
        assert!(report.node_state.message.contains("not a regular file"), "{}", report.node_state.message);
        fs::remove_file(&path).expect("removed");
        node.write_manifest(MANIFEST);
        node.until(Phase::Ready, 120).await;
    });
}

#[test]
fn what_an_absolute_link_below_the_host_root_leads_to_is_watched_and_looked_at() {
    for rings in [true, false] {
        story(|mut node| async move {
            let real = node.on_host("/data/manifests");
            fs::create_dir_all(real.parent().expect("above")).expect("made");
            fs::rename(node.on_host("/etc/kubernetes/manifests"), &real).expect("moved");
            symlink("/data/manifests", node.on_host("/etc/kubernetes/manifests")).expect("linked");
            let manifest = real.join("kube-scheduler.yaml");
            *node.kubelet.borrow_mut() =
                crate::kubelet::Kubelet::new(&node.dir.join("host"), &manifest, crate::node::NAME, node.api.clone());
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 60).await;
            // no news of the pod wakes the agent
            node.kubelet.borrow_mut().is_running = false;
            fs::write(real.join(".other"), MANIFEST).expect("written");
            fs::rename(real.join(".other"), &manifest).expect("renamed");
            if rings {
                assert!(node.ring(&manifest), "nobody watches behind the link");
                node.until(Phase::Verifying, 5).await;
            } else {
                // the slow timer looks behind the link
                node.until(Phase::Verifying, 700).await;
            }
            node.kubelet.borrow_mut().is_running = true;
            node.until(Phase::Ready, 60).await;
        });
    }
}

#[test]
fn what_cannot_be_watched_is_said_once_and_looked_at_by_the_slow_timer() {
    let log = Log::default();
    tracing::subscriber::with_default(log.subscriber(), || {
        story(|mut node| async move {
            node.unwatchable = Some("/etc/kubernetes/manifests".to_owned());
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 60).await;
            node.kubelet.borrow_mut().is_running = false;
            node.write_manifest(MANIFEST);
            node.until(Phase::Verifying, 700).await;
            node.kubelet.borrow_mut().is_running = true;
            node.until(Phase::Ready, 60).await;
        });
    });
    let text = log.text();
    let warnings: Vec<_> = text.lines().filter(|line| line.contains("cannot watch everything")).collect();
    let [warning] = warnings.as_slice() else { panic!("one warning, not {warnings:#?}") };
    assert!(warning.contains("WARN") && warning.contains("/host/etc/kubernetes/manifests: "), "{warning}");
    assert!(warning.ends_with("checking every 600 s instead"), "{warning}");
}

#[test]
fn a_manifest_that_is_away_for_a_moment_is_waited_for() {
    story(|mut node| async move {
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 60).await;
        let text = node.manifest();
        fs::remove_file(node.manifest_path()).expect("removed");
        node.ring(&node.manifest_path());
        tokio::time::sleep(Duration::from_millis(300)).await;
        node.write_manifest(&text);
        node.pass(5).await;
        assert_eq!(node.phase(), Phase::Ready, "{:?}", node.history);
        assert!(!node.history.borrow().iter().any(|line| line.starts_with("Blocked")), "{:?}", node.history);
    });
}

/// Told to stop while it waits for an answer, in the middle of a turn, the agent does not just end.
#[test]
fn told_to_stop_while_an_answer_does_not_come_the_node_schedules() {
    for seconds in 1..30 {
        story(|mut node| async move {
            node.source(&config("slow."));
            node.start();
            node.until(Phase::Verifying, 60).await;
            node.api.set_fault(Fault::Hang);
            node.pass(seconds).await;
            let began = tokio::time::Instant::now();
            node.stop().await.expect("it ends");
            assert!(began.elapsed() < Duration::from_secs(1), "it took {:?}", began.elapsed());
            assert_eq!(node.manifest(), MANIFEST, "stopped after {seconds} s");
        });
    }
}

/// Ends the agent at every moment of an install that fails, and looks at what it leaves.
#[test]
fn whenever_it_is_told_to_stop_the_node_schedules() {
    for fault in [Fault::None, Fault::Hang, Fault::Slow(700)] {
        for tenths in (0..30).chain((30..900).step_by(29)) {
            story(|mut node| async move {
                node.source(&config("crash."));
                node.start();
                tokio::time::sleep(Duration::from_millis(tenths * 100)).await;
                node.api.set_fault(fault);
                tokio::time::sleep(Duration::from_millis(150)).await;
                node.stop().await.expect("it ends");
                assert_eq!(node.manifest(), MANIFEST, "stopped after {tenths} tenths of a second, {fault:?}");
            });
        }
    }
}
