//! The whole agent on a k3s server: a trial in a place that a restart of the host forgets, one restart for each change, and the way
//! back of a server that does not come up.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use schedpatch::phase::Phase;
use schedpatch::plan::Direction;
use schedpatch::platform::Platforms;

use crate::api::{Fault, LEASES, ROLLOUT};
use crate::node::{NAME, Node, config, story};
use crate::support::pretended_k3s::{
    AT_ONCE, BY_DROP_IN, BY_PERSON, BY_TRIAL, DROP_IN, TEXT, TRIAL, UNIT, install, machine, read, reboot, reload, start,
};

/// A server, its API and what it says about itself.
fn server(node: &mut Node, platforms: Platforms) -> PathBuf {
    let root = node.dir.join("host");
    install(&root);
    node.settings.platforms = platforms;
    node.options.limits.timeout = Duration::from_mins(2);
    let (api, of_host) = (node.api.clone(), root.clone());
    tokio::task::spawn_local(async move {
        let mut was_up = true;
        loop {
            let (is_up, shows, runs) =
                machine(&of_host, |machine| (machine.is_up(&of_host), machine.shows(&of_host), machine.runs.clone()));
            if is_up != was_up {
                api.set_fault(if is_up { Fault::None } else { Fault::Refuse });
                was_up = is_up;
            }
            if shows {
                let words: Vec<String> =
                    runs.iter().flat_map(|word| word.splitn(2, '=').map(str::to_owned).collect::<Vec<_>>()).collect();
                api.annotate(NAME, "k3s.io/node-args", &serde_json::to_string(&words).expect("JSON"));
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let of_host = root.clone();
    node.is_well = Some(Arc::new(move |url: &str| {
        machine(
            &of_host,
            |machine| if url.contains(":6443") { machine.is_up(&of_host) } else { machine.schedules(&of_host) },
        )
    }));
    root
}

fn restarts(root: &Path) -> u64 {
    machine(root, |machine| machine.restarts)
}

#[test]
fn a_text_is_tried_before_it_is_written_and_each_change_restarts_once() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.pass(3).await;
        assert_eq!(read(&root, UNIT).as_deref(), Some(TEXT), "the unit itself waits for the proof");
        assert!(read(&root, TRIAL).is_some());
        node.until(Phase::Ready, 120).await;
        let unit = read(&root, UNIT).expect("there");
        assert!(unit.contains("--kube-scheduler-arg=config=/var/lib/schedpatch/revisions/"), "{unit}");
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 1));
        let (loaded, config_file) =
            machine(&root, |machine| (machine.loaded.clone(), machine.config().map(str::to_owned)));
        assert!(
            loaded.iter().any(|word| word.ends_with(&config_file.clone().expect("it has one"))),
            "systemd has reloaded the unit"
        );

        // agents come and go, and nothing restarts
        for _ in 0..5 {
            node.stop().await.expect("it ends");
            node.start();
            node.until(Phase::Ready, 60).await;
        }
        node.pass(1300).await;
        assert_eq!(restarts(&root), 1);

        node.source(&config("two"));
        node.until(Phase::Verifying, 60).await;
        node.until(Phase::Ready, 120).await;
        assert_eq!((restarts(&root), read(&root, TRIAL)), (2, None));

        node.as_person(Direction::Restore, false).expect("restored");
        assert_eq!((read(&root, UNIT).as_deref(), restarts(&root)), (Some(TEXT), 3));
        node.until(Phase::Restored, 120).await;
        assert_eq!(restarts(&root), 3);
    });
}

#[test]
fn what_changes_in_several_steps_restarts_once() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        // as by helm upgrade: further objects follow, and need the API
        for words in ["two", "three"] {
            node.source(&config(words));
            node.pass(2).await;
            assert_eq!(restarts(&root), 1, "{words}");
        }
        node.until(Phase::Verifying, 60).await;
        node.until(Phase::Ready, 120).await;
        assert_eq!(restarts(&root), 2);
    });
}

#[test]
fn twenty_changes_and_fifty_restarts_of_the_agent_are_twenty_restarts_of_the_server() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.start();
        for change in 1..=20 {
            node.source(&config(&format!("change-{change}")));
            node.until_report("in the middle", 60, |report| report.node_state.phase != Phase::Ready).await;
            node.until(Phase::Ready, 120).await;
            assert_eq!(restarts(&root), change);
            for _ in 0..if change % 2 == 0 { 3 } else { 2 } {
                node.stop().await.expect("it ends");
                node.start();
                node.until(Phase::Ready, 60).await;
            }
            assert_eq!((restarts(&root), read(&root, TRIAL)), (change, None));
        }
    });
}

#[test]
fn a_server_that_goes_down_comes_back_without_a_person() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RolledBack, 120).await;
        assert_eq!((read(&root, UNIT).as_deref(), read(&root, TRIAL), restarts(&root)), (Some(TEXT), None, 2));
        assert_eq!(machine(&root, |machine| machine.config().map(str::to_owned)), None);
        assert_eq!(node.journal().bad.len(), 1);

        node.source(&config("good"));
        node.until(Phase::Ready, 120).await;
        let good = machine(&root, |machine| machine.config().map(str::to_owned));
        assert_eq!(restarts(&root), 3);
        node.source(&config("crash.two"));
        node.until(Phase::Verifying, 60).await;
        node.until(Phase::RolledBack, 120).await;
        assert_eq!(machine(&root, |machine| machine.config().map(str::to_owned)), good);
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 5));
    });
}

#[test]
fn a_scheduler_that_never_answers_while_the_api_does_is_taken_back() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("slow."));
        node.start();
        node.until(Phase::RolledBack, 300).await;
        assert_eq!((read(&root, UNIT).as_deref(), restarts(&root)), (Some(TEXT), 2));
    });
}

#[test]
fn a_scheduler_that_starts_late_is_waited_for() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        machine(&root, |machine| machine.late = 30);
        node.pass(60).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        assert_eq!(restarts(&root), 1);
    });
}

#[test]
fn an_agent_that_is_killed_in_a_trial_restarts_nothing_twice() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        for seconds in [0, 1, 2, 5] {
            node.start();
            node.until(Phase::Verifying, 60).await;
            node.pass(seconds).await;
            node.kill().await;
        }
        node.start();
        node.until(Phase::Ready, 120).await;
        assert_eq!((restarts(&root), read(&root, TRIAL)), (1, None));
    });
}

#[test]
fn a_restart_of_the_host_undoes_an_unproven_text_by_itself() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.pass(3).await;
        node.kill().await;
        reboot(&root);
        assert_eq!(machine(&root, |machine| machine.config().map(str::to_owned)), None, "the old command line runs");
        node.pass(10).await;
        node.start();
        node.until(Phase::Ready, 200).await;
        assert_eq!((restarts(&root), read(&root, TRIAL)), (2, None), "it was tried once more");
    });
}

#[test]
fn the_installer_writes_the_unit_anew_and_it_is_patched_again_once() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        fs::write(root.join(&UNIT[1..]), TEXT.replace("RestartSec=5s", "RestartSec=6s")).expect("written");
        reload(&root);
        start(&root);
        node.ring(&root.join(&UNIT[1..]));
        node.until_report("in the middle", 60, |report| report.node_state.phase != Phase::Ready).await;
        node.until(Phase::Ready, 200).await;
        let unit = read(&root, UNIT).expect("there");
        assert!(unit.contains("RestartSec=6s") && unit.contains("schedpatch-undo"), "{unit}");
        assert_eq!(restarts(&root), 2);
        node.pass(1300).await;
        assert_eq!(restarts(&root), 2);
    });
}

#[test]
fn an_edit_in_the_middle_of_a_trial_is_kept_and_ours_is_tried_again() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        node.source(&config("two"));
        node.until(Phase::Verifying, 60).await;
        let edited = read(&root, UNIT).expect("there").replace("RestartSec=5s", "RestartSec=9s");
        fs::write(root.join(&UNIT[1..]), edited).expect("written");
        node.ring(&root.join(&UNIT[1..]));
        node.pass(5).await;
        node.until(Phase::Ready, 300).await;
        let unit = read(&root, UNIT).expect("there");
        assert!(unit.contains("RestartSec=9s") && unit.contains("schedpatch-undo"), "{unit}");
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 3));
    });
}

#[test]
fn a_unit_that_somebody_keeps_rewriting_is_left_alone_and_can_be_uninstalled() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        for seconds in 6..9 {
            let text = TEXT.replace("RestartSec=5s", &format!("RestartSec={seconds}s"));
            fs::write(root.join(&UNIT[1..]), text).expect("written");
            reload(&root);
            start(&root);
            node.ring(&root.join(&UNIT[1..]));
            node.until_report("in the middle", 60, |report| report.node_state.phase != Phase::Ready).await;
            node.until(Phase::Ready, 200).await;
        }
        // in the middle of a trial, once too often
        node.source(&config("two"));
        node.until(Phase::Verifying, 60).await;
        let edited = read(&root, UNIT).expect("there").replace("RestartSec=8s", "RestartSec=9s");
        fs::write(root.join(&UNIT[1..]), edited).expect("written");
        node.ring(&root.join(&UNIT[1..]));
        node.until(Phase::Degraded, 60).await;
        assert_eq!(node.report.borrow().node_state.reason, "ForeignManager");
        node.api.annotate_lease("schedpatch.io/uninstall", "now");
        node.until(Phase::Restored, 300).await;
        assert_eq!(read(&root, UNIT), Some(TEXT.replace("RestartSec=5s", "RestartSec=9s")));
        assert_eq!(read(&root, TRIAL), None);
        assert!(machine(&root, |machine| !machine.runs.iter().any(|word| word.contains("config="))));
    });
}

#[test]
fn a_person_who_restarts_turns_it_ready_without_a_word() {
    story(|mut node| async move {
        let root = server(&mut node, BY_PERSON);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        let report = node.until(Phase::RestartRequired, 60).await;
        assert!(report.node_state.message.contains("systemctl daemon-reload && systemctl restart k3s"));
        assert!(read(&root, UNIT).expect("there").contains("schedpatch-undo"), "the unit is written");
        node.stop().await.expect("it ends");
        assert!(read(&root, UNIT).expect("there").contains("schedpatch-undo"), "and stays");
        node.start();
        node.until(Phase::RestartRequired, 60).await;
        node.pass(700).await;
        assert_eq!((node.phase(), restarts(&root)), (Phase::RestartRequired, 0));
        reload(&root);
        start(&root);
        node.until(Phase::Ready, 120).await;
        assert_eq!(restarts(&root), 0, "nobody but the person");
    });
}

#[test]
fn an_uninstall_tells_the_person_who_restarts_what_to_run() {
    story(|mut node| async move {
        let root = server(&mut node, BY_PERSON);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::RestartRequired, 60).await;
        reload(&root);
        start(&root);
        node.until(Phase::Ready, 120).await;
        let mut lease = node.api.object(LEASES, ROLLOUT).expect("it is there");
        lease["metadata"]["annotations"]["schedpatch.io/uninstall"] = "now".into();
        node.api.put(LEASES, ROLLOUT, lease);
        let is_told = |message: &str| message.contains("systemctl daemon-reload && systemctl restart k3s");
        node.until_report("told", 60, |report| {
            report.node_state.phase == Phase::Restoring && is_told(&report.node_state.message)
        })
        .await;
        assert_eq!(read(&root, UNIT).as_deref(), Some(TEXT));
        node.pass(300).await;
        assert_eq!((node.phase(), restarts(&root)), (Phase::Restoring, 0));
        reload(&root);
        start(&root);
        node.until(Phase::Restored, 120).await;
    });
}

#[test]
fn a_unit_that_a_restart_may_leave_down_or_ends_all_containers_with_is_left_to_a_person() {
    // k3s ends with 0 where its scheduler fails, and would stay down
    for (usual, other) in [("KillMode=process", "KillMode=mixed"), ("Restart=always", "Restart=on-failure")] {
        story(|mut node| async move {
            let root = server(&mut node, BY_TRIAL);
            fs::write(root.join(&UNIT[1..]), TEXT.replace(usual, other)).expect("written");
            node.pass(5).await;
            node.source(&config("one"));
            node.start();
            node.until(Phase::RestartRequired, 60).await;
            assert_eq!((restarts(&root), read(&root, TRIAL)), (0, None), "{other}");
        });
    }
}

#[test]
fn a_server_that_goes_down_after_a_person_restarted_it_starts_anew_with_the_old_command_line() {
    story(|mut node| async move {
        let root = server(&mut node, BY_PERSON);
        node.pass(5).await;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RestartRequired, 60).await;
        reload(&root);
        start(&root);
        node.until_report("taken back", 120, |_| read(&root, UNIT).as_deref() == Some(TEXT)).await;
        // systemd starts it anew by itself, with what it has loaded
        start(&root);
        node.until(Phase::RolledBack, 120).await;
        assert_eq!((machine(&root, |machine| machine.config().map(str::to_owned)), restarts(&root)), (None, 0));
    });
}

#[test]
fn a_file_beside_the_configuration_is_tried_on_the_command_line_too() {
    story(|mut node| async move {
        let root = server(&mut node, BY_DROP_IN);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Ready, 120).await;
        assert_eq!((read(&root, UNIT).as_deref(), read(&root, TRIAL), restarts(&root)), (Some(TEXT), None, 1));
        assert!(read(&root, DROP_IN).expect("there").contains("kube-scheduler-arg+:"));
        node.source(&config("crash."));
        node.until(Phase::RolledBack, 200).await;
        assert!(read(&root, DROP_IN).is_some());
        node.as_person(Direction::Restore, false).expect("restored");
        assert_eq!(read(&root, DROP_IN), None);
        node.until(Phase::Restored, 120).await;
    });
}

#[test]
fn a_person_at_the_command_line_gets_one_restart_and_no_trial() {
    story(|mut node| async move {
        let root = server(&mut node, AT_ONCE);
        node.pass(5).await;
        node.source(&config("one"));
        node.as_person(Direction::Apply, false).expect("applied");
        assert!(read(&root, UNIT).expect("there").contains("schedpatch-undo"));
        assert_eq!((restarts(&root), read(&root, TRIAL)), (1, None));
    });
}

#[test]
fn nothing_is_written_where_systemd_cannot_be_asked() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.pass(5).await;
        machine(&root, |machine| machine.is_silent = true);
        node.source(&config("one"));
        node.start();
        node.until_report("refused", 60, |report| report.node_state.message.contains("systemd did not answer")).await;
        assert_eq!((read(&root, UNIT).as_deref(), read(&root, TRIAL)), (Some(TEXT), None));
        machine(&root, |machine| machine.is_silent = false);
        node.until(Phase::Ready, 200).await;
    });
}

#[test]
fn a_proven_text_is_written_while_nothing_else_can_be_had_from_the_sources() {
    // refused, and gone
    for bad in [Some("kind: ["), None] {
        story(|mut node| async move {
            let root = server(&mut node, BY_TRIAL);
            node.pass(5).await;
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 120).await;
            let before = read(&root, UNIT).expect("there");
            node.source(&config("two"));
            node.until(Phase::Verifying, 60).await;
            match bad {
                Some(text) => node.source(text),
                None => fs::remove_file(node.dir.join("source/config.yaml")).expect("removed"),
            }
            node.ring(&node.dir.join("source/config.yaml"));
            node.pass(120).await;
            let (unit, runs) = (
                read(&root, UNIT).expect("there"),
                machine(&root, |machine| machine.config().map(str::to_owned)).expect("it has one"),
            );
            assert!(unit != before && unit.contains(&runs), "{bad:?}: {unit}");
            assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 2), "{bad:?}");
            let wanted = if bad.is_some() { Phase::Blocked } else { Phase::Pending };
            assert_eq!(node.phase(), wanted, "{bad:?}");
            reboot(&root);
            assert_eq!(machine(&root, |machine| machine.config().map(str::to_owned)), Some(runs), "{bad:?}");
        });
    }
}

#[test]
fn a_unit_that_cannot_be_edited_is_tried_with_the_method_drop_in() {
    // a backslash that does not continue the line, and an option without a value
    for tail in ["\\  ", "--kube-scheduler-arg"] {
        story(|mut node| async move {
            let root = server(&mut node, BY_DROP_IN);
            let text = TEXT.replace(
                "ExecStart=/usr/local/bin/k3s \\\n    server \\\n",
                &format!("ExecStart=/usr/local/bin/k3s server {tail}\n"),
            );
            assert_ne!(text, TEXT);
            fs::write(root.join(&UNIT[1..]), &text).expect("written");
            reload(&root);
            start(&root);
            node.pass(5).await;
            node.source(&config("one"));
            node.start();
            node.until(Phase::Ready, 120).await;
            assert_eq!((read(&root, UNIT), read(&root, TRIAL), restarts(&root)), (Some(text), None, 1), "{tail}");
        });
    }
}

/// What a package puts beside the unit, where a pod does not see it.
fn vendor(command: &str) -> (String, String) {
    let path = "/usr/lib/systemd/system/k3s.service.d/99-vendor.conf".to_owned();
    (path, format!("[Service]\nExecStart=\nExecStart={command}\n"))
}

#[test]
fn what_systemd_does_not_load_is_taken_back_without_a_restart() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        // so far it changes nothing
        machine(&root, |machine| machine.hidden = Some(vendor("/usr/local/bin/k3s server")));
        reload(&root);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        let is_told = |message: &str| message.contains("99-vendor.conf") && message.contains("k3s was not restarted");
        node.until_report("told", 120, |report| is_told(&report.node_state.message)).await;
        let before = machine(&root, |machine| machine.reloads);
        node.pass(300).await;
        let reloads = machine(&root, |machine| machine.reloads) - before;
        assert!(reloads <= 2 * 300 / 30, "{reloads} reloads of all units");
        assert_eq!((read(&root, UNIT).as_deref(), read(&root, TRIAL), restarts(&root)), (Some(TEXT), None, 0));
        assert_eq!(node.journal().restart, None);
        node.stop().await.expect("it ends");
        assert_eq!(restarts(&root), 0);
        machine(&root, |machine| machine.hidden = None);
        reload(&root);
        node.start();
        node.until(Phase::Ready, 200).await;
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 1));
    });
}

#[test]
fn a_command_line_from_a_drop_in_that_nobody_could_read_is_left_alone() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        // systemd reads it before the drop-in of a trial, which would win until it is removed
        let (path, text) = vendor("/usr/local/bin/k3s server --debug");
        machine(&root, |machine| machine.hidden = Some((path.replace("99-", "10-"), text)));
        reload(&root);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until_report("told", 120, |report| report.node_state.message.contains("10-vendor.conf")).await;
        assert_eq!((read(&root, UNIT).as_deref(), read(&root, TRIAL), restarts(&root)), (Some(TEXT), None, 0));
        // one that says nothing about the command line is no obstacle, nor is a change that systemd has not read yet
        let text = "[Service]\nTimeoutAbortSec=5\n".to_owned();
        machine(&root, |machine| machine.hidden = Some((path, text)));
        node.until(Phase::Ready, 200).await;
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 1));
    });
}

#[test]
fn a_k3s_that_is_replaced_in_a_trial_begins_it_anew() {
    story(|mut node| async move {
        let root = server(&mut node, BY_TRIAL);
        node.options.limits.settle = Duration::from_mins(1);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::Verifying, 60).await;
        node.pass(45).await;
        fs::write(root.join("usr/local/bin/k3s"), "v1.36.3+k3s1 of another build").expect("written");
        node.pass(45).await;
        assert!(read(&root, TRIAL).is_some(), "what the other program did proves nothing of this one");
        node.until(Phase::Ready, 60).await;
        assert_eq!((read(&root, TRIAL), restarts(&root)), (None, 1));
    });
}

/// systemd does not answer, or its bus is not there.
fn silence(root: &Path, is_unreachable: bool) {
    machine(root, |machine| (machine.is_silent, machine.is_unreachable) = (!is_unreachable, is_unreachable));
}

#[test]
fn what_a_person_restarts_is_uninstalled_where_systemd_cannot_be_asked() {
    for is_unreachable in [false, true] {
        story(|mut node| async move {
            let root = server(&mut node, BY_PERSON);
            silence(&root, is_unreachable);
            node.pass(5).await;
            node.source(&config("one"));
            node.start();
            node.until(Phase::RestartRequired, 60).await;
            reload(&root);
            start(&root);
            node.until(Phase::Ready, 120).await;
            let file = machine(&root, |machine| machine.config().map(str::to_owned)).expect("it has one");
            let before = node.history.borrow().len();
            node.api.annotate_lease("schedpatch.io/uninstall", "now");
            node.until_report("told", 120, |report| report.node_state.reason == "RestartRequired").await;
            node.pass(300).await;
            assert_eq!((node.phase(), read(&root, UNIT).as_deref()), (Phase::Restoring, Some(TEXT)));
            assert!(read(&root, &file).is_some(), "systemd would still start k3s with it");
            assert_eq!(node.journal().hold, None, "a withdrawn request leaves nothing behind");
            // one that ends by itself starts with the command line that systemd has loaded
            start(&root);
            node.pass(120).await;
            assert!(read(&root, &file).is_some(), "systemd still starts k3s with it");
            // what was seen before our edit was removed is not forgotten
            node.stop().await.expect("it ends");
            node.start();
            node.until(Phase::Restoring, 60).await;
            reload(&root);
            start(&root);
            node.until(Phase::Restored, 200).await;
            let is_left = root.join("var/lib/schedpatch/revisions").exists();
            assert!(!is_left, "{:?} {:?}", node.report.borrow().node_state, node.history.borrow());
            assert_eq!(restarts(&root), 0);
            let history = node.history.borrow()[before..].join(", ");
            assert!(!history.contains("BackOff"), "the edit was removed at once: {history}");
        });
    }
}

#[test]
fn the_files_of_a_text_that_never_ran_stay_where_systemd_cannot_be_asked() {
    for is_unreachable in [false, true] {
        story(|mut node| async move {
            let root = server(&mut node, BY_PERSON);
            silence(&root, is_unreachable);
            node.pass(5).await;
            node.source(&config("one"));
            node.start();
            node.until(Phase::RestartRequired, 60).await;
            // somebody installs a package, which has all units read again
            reload(&root);
            node.as_person(Direction::Restore, false).expect("restored");
            assert_eq!(read(&root, UNIT).as_deref(), Some(TEXT));
            node.api.annotate_lease("schedpatch.io/uninstall", "now");
            node.until_report("told", 120, |report| report.node_state.phase == Phase::Restoring).await;
            node.pass(300).await;
            let command = "systemctl daemon-reload && systemctl restart k3s && rm -r /var/lib/schedpatch/*";
            assert!(node.message().contains(command), "{}", node.message());
            assert_eq!(node.phase(), Phase::Restoring);
            // k3s ends, and systemd starts it with the command line that it has loaded
            start(&root);
            let file = machine(&root, |machine| machine.config().map(str::to_owned)).expect("it has one");
            assert!(read(&root, &file).is_some(), "k3s starts with it");
            reload(&root);
            start(&root);
            for entry in fs::read_dir(root.join("var/lib/schedpatch")).expect("there").flatten() {
                let path = entry.path();
                if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.expect("removed");
            }
            node.until(Phase::Restored, 200).await;
        });
    }
}

const COMMAND: &str = "systemctl daemon-reload && systemctl restart k3s";

#[test]
fn newer_sources_do_not_hide_the_command_that_a_person_must_run() {
    story(|mut node| async move {
        let root = server(&mut node, BY_PERSON);
        node.pass(5).await;
        node.source(&config("crash."));
        node.start();
        node.until(Phase::RestartRequired, 60).await;
        let bad = read(&root, UNIT);
        for text in ["kind: [", &config("good")] {
            node.source(text);
            node.pass(120).await;
            assert_eq!(node.phase(), Phase::RestartRequired, "{text}: {}", node.message());
            assert!(node.message().ends_with(COMMAND), "{}", node.message());
            assert_eq!(read(&root, UNIT), bad, "what is written must run before anything else");
        }
        // a person at the command line may replace it without that
        node.as_person(Direction::Apply, false).expect("applied");
        assert_ne!(read(&root, UNIT), bad);
        node.until(Phase::RestartRequired, 60).await;
        reload(&root);
        start(&root);
        node.until(Phase::Ready, 120).await;
        assert_eq!((node.journal().bad.len(), restarts(&root)), (0, 0));
    });
}

#[test]
fn an_uninstall_before_the_restart_says_that_our_edit_is_still_there() {
    story(|mut node| async move {
        let root = server(&mut node, BY_PERSON);
        node.pass(5).await;
        node.source(&config("one"));
        node.start();
        node.until(Phase::RestartRequired, 60).await;
        node.api.annotate_lease("schedpatch.io/uninstall", "now");
        node.until(Phase::Restoring, 60).await;
        node.pass(60).await;
        let message = node.message();
        assert!(message.ends_with(COMMAND) && !message.contains("our edit is removed"), "{message}");
        reload(&root);
        start(&root);
        node.until_report("removed", 120, |report| report.node_state.message.contains("our edit is removed")).await;
        assert_eq!(read(&root, UNIT).as_deref(), Some(TEXT));
        reload(&root);
        start(&root);
        node.until(Phase::Restored, 200).await;
    });
}

#[test]
fn nothing_is_written_beside_a_configuration_that_k3s_does_not_read() {
    story(|mut node| async move {
        let root = server(&mut node, BY_DROP_IN);
        node.pass(5).await;
        // the variable is in a file of the unit that the agent does not see
        node.api.annotate(NAME, "k3s.io/node-env", r#"{"K3S_CONFIG_FILE":"/srv/k3s.yaml"}"#);
        node.source(&config("one"));
        node.start();
        node.until(Phase::Blocked, 60).await;
        assert!(node.message().contains("K3S_CONFIG_FILE=/srv/k3s.yaml"), "{}", node.message());
        node.pass(120).await;
        assert_eq!((read(&root, DROP_IN), read(&root, TRIAL), restarts(&root)), (None, None, 0));
        node.api.annotate(NAME, "k3s.io/node-env", "{}");
        node.until(Phase::Ready, 200).await;
        assert!(read(&root, DROP_IN).is_some());
    });
}
