//! What the design takes for granted of the kubelet and the scheduler. A test that fails here says that Kubernetes changed.

use std::fs;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::control_plane::{ControlPlane, MANIFEST, QUIET, RESTART, SCAN, SOURCE, STATE};
use crate::mirror::Mirror;
use crate::runner::Test;
use crate::tests;
use crate::wait::{seconds, stays, wait_until};

pub const TESTS: &[Test] = tests![
    Quick a_changed_configuration_alone_restarts_nothing,
    Quick a_crashed_scheduler_leaves_its_own_words,
    Quick a_backup_beside_the_manifest_wins_and_apply_refuses_it,
    Quick exchanging_the_manifest_with_an_equal_file_kills_the_scheduler,
    Quick an_edit_under_a_fixed_uid_is_seen_only_because_apply_changes_the_uid,
    Slow an_unreadable_manifest_costs_the_scheduler_at_the_next_scan,
];

fn a_changed_configuration_alone_restarts_nothing(control_plane: &ControlPlane) {
    let (applied, before) = control_plane.start_from_applied();
    let config = control_plane.node().path(&format!("{STATE}/revisions/{}/config.yaml", applied.revision));
    let text = fs::read_to_string(&config).expect("the revision's configuration");
    let mark = control_plane.mark();

    fs::write(&config, text.replace("18889", "18890")).expect("written");
    fs::File::options()
        .append(true)
        .open(control_plane.node().path(MANIFEST))
        .and_then(|file| file.set_modified(std::time::SystemTime::now()))
        .expect("touched");
    stays("no restart", QUIET, || control_plane.no_restart(mark));

    let mended = control_plane.schedpatch(&["apply", "--source", SOURCE]).succeeded();
    assert_eq!(fs::read_to_string(&config).expect("still there"), text, "apply mends our own file: {}", mended.stdout);
    let after = control_plane.wait_for_applied(&applied);
    assert_eq!(after.container, before.container);
}

fn a_crashed_scheduler_leaves_its_own_words(control_plane: &ControlPlane) {
    control_plane.start_from_applied();
    control_plane.schedpatch(&["apply", "--source", SOURCE, "--scheduler-arg=nonsense=1"]).succeeded();
    let words = wait_until("the words of a crashed scheduler", RESTART, || {
        let mirror = Mirror::of(control_plane.node())?;
        mirror.terminated.clone().ok_or_else(|| mirror.described())
    });
    let last = words.trim_end().lines().last().unwrap_or_default();
    assert!(last.ends_with("unknown flag: --nonsense"), "the last of its words: {words}");

    control_plane.schedpatch(&["restore"]).succeeded();
    assert_eq!(control_plane.manifest(), control_plane.original, "the very bytes");
    control_plane.wait_for_scheduler("the original again", |mirror| mirror.generation() == 0);
}

fn a_backup_beside_the_manifest_wins_and_apply_refuses_it(control_plane: &ControlPlane) {
    let before = control_plane.start_from_original();
    let mark = control_plane.mark();
    let backup = annotated(&control_plane.original, "backup");
    let path = control_plane.write_beside("kube-scheduler.yaml.bak", &backup);

    let refused = control_plane.schedpatch(&["apply", "--source", SOURCE]);
    assert_eq!(refused.status, 1, "{}{}", refused.stdout, refused.stderr);
    for name in ["kube-scheduler.yaml", "kube-scheduler.yaml.bak"] {
        assert!(refused.stderr.contains(&format!("/{name}")), "{name} is named in: {}", refused.stderr);
    }
    assert_eq!(control_plane.manifest(), control_plane.original, "nothing is written");

    let copy = control_plane.wait_for_scheduler("the backup", |mirror| mirror.annotation("e2e") == "backup");
    control_plane.assert_one_restart(mark, &before, &copy);
    stays("the backup's scheduler", QUIET, || {
        if control_plane.lives(mark).ended.len() == 1 { Ok(()) } else { Err("it ended".to_owned()) }
    });

    let mark = control_plane.mark();
    fs::remove_file(path).expect("removed");
    wait_until("the scheduler to be killed at once", seconds(10), || {
        if control_plane.lives(mark).ended.is_empty() { Err("it runs".to_owned()) } else { Ok(()) }
    });
    control_plane.wait_for_scheduler("the manifest again", |mirror| mirror.annotation("e2e").is_empty());
}

fn exchanging_the_manifest_with_an_equal_file_kills_the_scheduler(control_plane: &ControlPlane) {
    let before = control_plane.start_from_original();
    let mark = control_plane.mark();
    control_plane.replace_manifest(&control_plane.original);
    stays("no restart by a rename of equal bytes", seconds(5), || control_plane.no_restart(mark));

    let other = control_plane.write_beside(".e2e-kube-scheduler.yaml", &control_plane.original);
    renameat2(AT_FDCWD, &other, AT_FDCWD, &control_plane.node().path(MANIFEST), RenameFlags::RENAME_EXCHANGE)
        .expect("exchanged");
    control_plane.cluster.note("the manifest was exchanged with an equal file");
    wait_until("the scheduler to be killed, because the kubelet takes the manifest for removed", SCAN, || {
        if control_plane.lives(mark).ended == [before.container.clone()] { Ok(()) } else { Err("it runs".to_owned()) }
    });
    assert_eq!(control_plane.manifest(), control_plane.original);
    let after = control_plane.wait_for_scheduler("again after a scan", |mirror| mirror.hash() == before.hash());
    control_plane.assert_one_restart(mark, &before, &after);
}

/// RKE2 writes a uid into its manifests. The kubelet compares what it read by that uid, and containers by name and image.
fn an_edit_under_a_fixed_uid_is_seen_only_because_apply_changes_the_uid(control_plane: &ControlPlane) {
    const UID: &str = "0123456789abcdef0123456789abcdef";
    control_plane.start_from_original();
    let fixed = replaced(&control_plane.original, "metadata:\n", &format!("metadata:\n  uid: {UID}\n"));
    control_plane.replace_manifest(&fixed);
    let before = control_plane.wait_for_scheduler("under a fixed uid", |mirror| mirror.hash() == UID);

    let mark = control_plane.mark();
    let louder = replaced(&fixed, "    - --leader-elect=true\n", "    - --leader-elect=true\n    - --v=3\n");
    control_plane.replace_manifest(&louder);
    let before = if control_plane.cluster.minor() >= 31 {
        stays("no restart by an edit under the same uid", QUIET, || control_plane.no_restart(mark));
        let mirror = Mirror::of(control_plane.node()).expect("it still runs");
        assert!(
            !mirror.command.contains(&"--v=3".to_owned()),
            "the mirror pod keeps the old command: {:?}",
            mirror.command
        );
        mirror
    } else {
        // before 1.31 the kubelet compared the whole container, and restarted it in the same pod
        wait_until("a restart in the same pod", RESTART, || {
            control_plane.no_restart(mark).err().ok_or_else(|| "none".to_owned())
        });
        control_plane.wait_for_scheduler("again", |mirror| mirror.hash() == UID && mirror.container != before.container)
    };

    let mark = control_plane.mark();
    let applied = control_plane.apply();
    let after = control_plane.wait_for_applied(&applied);
    assert_ne!(after.hash(), UID);
    assert!(after.command.contains(&"--v=3".to_owned()), "what others wrote is kept: {:?}", after.command);
    control_plane.assert_one_restart(mark, &before, &after);

    control_plane.schedpatch(&["restore"]).succeeded();
    assert_eq!(control_plane.manifest(), louder, "the very bytes, the old uid");
    control_plane.wait_for_scheduler("under the old uid", |mirror| mirror.hash() == UID && mirror.generation() == 0);
}

fn an_unreadable_manifest_costs_the_scheduler_at_the_next_scan(control_plane: &ControlPlane) {
    let before = control_plane.start_from_original();
    let mark = control_plane.mark();
    control_plane.replace_manifest(b"kind: [Pod\n");
    wait_until("the scheduler to be killed", SCAN + seconds(10), || {
        if control_plane.lives(mark).ended == [before.container.clone()] { Ok(()) } else { Err("it runs".to_owned()) }
    });
    wait_until("its mirror pod to go", RESTART, || {
        Mirror::of(control_plane.node()).map_or(Ok(()), |mirror| Err(mirror.described()))
    });
    stays("no scheduler", QUIET, || {
        if control_plane.lives(mark).started.is_empty() { Ok(()) } else { Err("one started".to_owned()) }
    });
    control_plane.replace_manifest(&control_plane.original);
    control_plane.wait_for_scheduler("the original again", |mirror| mirror.hash() == before.hash());
}

/// The same pod with one more annotation, so that the mirror pod tells which text is meant.
fn annotated(manifest: &[u8], mark: &str) -> Vec<u8> {
    replaced(manifest, "metadata:\n", &format!("metadata:\n  annotations:\n    e2e: {mark}\n"))
}

#[track_caller]
fn replaced(manifest: &[u8], old: &str, new: &str) -> Vec<u8> {
    let text = String::from_utf8_lossy(manifest);
    assert_eq!(text.matches(old).count(), 1, "{old:?} stands once in the manifest:\n{text}");
    text.replace(old, new).into_bytes()
}
