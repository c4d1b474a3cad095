//! What the design takes for granted of the kubelet and the scheduler. A test that fails here says that Kubernetes changed.

use std::fs;

use nix::fcntl::{AT_FDCWD, RenameFlags, renameat2};

use crate::mirror::Mirror;
use crate::runner::Test;
use crate::stage::{MANIFEST, QUIET, RESTART, SCAN, SOURCE, STATE, Stage};
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

fn a_changed_configuration_alone_restarts_nothing(stage: &Stage) {
    let (applied, before) = stage.start_from_applied();
    let config = stage.node().path(&format!("{STATE}/revisions/{}/config.yaml", applied.revision));
    let text = fs::read_to_string(&config).expect("the revision's configuration");
    let mark = stage.mark();

    fs::write(&config, text.replace("18889", "18890")).expect("written");
    fs::File::options()
        .append(true)
        .open(stage.node().path(MANIFEST))
        .and_then(|file| file.set_modified(std::time::SystemTime::now()))
        .expect("touched");
    stays("no restart", QUIET, || stage.no_restart(mark));

    let mended = stage.schedpatch(&["apply", "--source", SOURCE]).succeeded();
    assert_eq!(fs::read_to_string(&config).expect("still there"), text, "apply mends our own file: {}", mended.stdout);
    let after = stage.wait_for_applied(&applied);
    assert_eq!(after.container, before.container);
}

fn a_crashed_scheduler_leaves_its_own_words(stage: &Stage) {
    stage.start_from_applied();
    stage.schedpatch(&["apply", "--source", SOURCE, "--scheduler-arg=nonsense=1"]).succeeded();
    let words = wait_until("the words of a crashed scheduler", RESTART, || {
        let mirror = Mirror::of(stage.node())?;
        mirror.terminated.clone().ok_or_else(|| mirror.described())
    });
    let last = words.trim_end().lines().last().unwrap_or_default();
    assert!(last.ends_with("unknown flag: --nonsense"), "the last of its words: {words}");

    stage.schedpatch(&["restore"]).succeeded();
    assert_eq!(stage.manifest(), stage.original, "the very bytes");
    stage.wait_for_scheduler("the original again", |mirror| mirror.generation() == 0);
}

fn a_backup_beside_the_manifest_wins_and_apply_refuses_it(stage: &Stage) {
    let before = stage.start_from_original();
    let mark = stage.mark();
    let backup = annotated(&stage.original, "backup");
    let path = stage.write_beside("kube-scheduler.yaml.bak", &backup);

    let refused = stage.schedpatch(&["apply", "--source", SOURCE]);
    assert_eq!(refused.status, 1, "{}{}", refused.stdout, refused.stderr);
    for name in ["kube-scheduler.yaml", "kube-scheduler.yaml.bak"] {
        assert!(refused.stderr.contains(&format!("/{name}")), "{name} is named in: {}", refused.stderr);
    }
    assert_eq!(stage.manifest(), stage.original, "nothing is written");

    let copy = stage.wait_for_scheduler("the backup", |mirror| mirror.annotation("e2e") == "backup");
    stage.assert_one_restart(mark, &before, &copy);
    stays("the backup's scheduler", QUIET, || {
        if stage.lives(mark).ended.len() == 1 { Ok(()) } else { Err("it ended".to_owned()) }
    });

    let mark = stage.mark();
    fs::remove_file(path).expect("removed");
    wait_until("the scheduler to be killed at once", seconds(10), || {
        if stage.lives(mark).ended.is_empty() { Err("it runs".to_owned()) } else { Ok(()) }
    });
    stage.wait_for_scheduler("the manifest again", |mirror| mirror.annotation("e2e").is_empty());
}

fn exchanging_the_manifest_with_an_equal_file_kills_the_scheduler(stage: &Stage) {
    let before = stage.start_from_original();
    let mark = stage.mark();
    stage.replace_manifest(&stage.original);
    stays("no restart by a rename of equal bytes", seconds(5), || stage.no_restart(mark));

    let other = stage.write_beside(".e2e-kube-scheduler.yaml", &stage.original);
    renameat2(AT_FDCWD, &other, AT_FDCWD, &stage.node().path(MANIFEST), RenameFlags::RENAME_EXCHANGE)
        .expect("exchanged");
    stage.bed.note("the manifest was exchanged with an equal file");
    wait_until("the scheduler to be killed, because the kubelet takes the manifest for removed", SCAN, || {
        if stage.lives(mark).ended == [before.container.clone()] { Ok(()) } else { Err("it runs".to_owned()) }
    });
    assert_eq!(stage.manifest(), stage.original);
    let after = stage.wait_for_scheduler("again after a scan", |mirror| mirror.hash() == before.hash());
    stage.assert_one_restart(mark, &before, &after);
}

/// RKE2 writes a uid into its manifests. The kubelet compares what it read by that uid, and containers by name and image.
fn an_edit_under_a_fixed_uid_is_seen_only_because_apply_changes_the_uid(stage: &Stage) {
    const UID: &str = "0123456789abcdef0123456789abcdef";
    stage.start_from_original();
    let fixed = replaced(&stage.original, "metadata:\n", &format!("metadata:\n  uid: {UID}\n"));
    stage.replace_manifest(&fixed);
    let before = stage.wait_for_scheduler("under a fixed uid", |mirror| mirror.hash() == UID);

    let mark = stage.mark();
    let louder = replaced(&fixed, "    - --leader-elect=true\n", "    - --leader-elect=true\n    - --v=3\n");
    stage.replace_manifest(&louder);
    let before = if stage.bed.minor() >= 31 {
        stays("no restart by an edit under the same uid", QUIET, || stage.no_restart(mark));
        let mirror = Mirror::of(stage.node()).expect("it still runs");
        assert!(
            !mirror.command.contains(&"--v=3".to_owned()),
            "the mirror pod keeps the old command: {:?}",
            mirror.command
        );
        mirror
    } else {
        // before 1.31 the kubelet compared the whole container, and restarted it in the same pod
        wait_until("a restart in the same pod", RESTART, || {
            stage.no_restart(mark).err().ok_or_else(|| "none".to_owned())
        });
        stage.wait_for_scheduler("again", |mirror| mirror.hash() == UID && mirror.container != before.container)
    };

    let mark = stage.mark();
    let applied = stage.apply();
    let after = stage.wait_for_applied(&applied);
    assert_ne!(after.hash(), UID);
    assert!(after.command.contains(&"--v=3".to_owned()), "what others wrote is kept: {:?}", after.command);
    stage.assert_one_restart(mark, &before, &after);

    stage.schedpatch(&["restore"]).succeeded();
    assert_eq!(stage.manifest(), louder, "the very bytes, the old uid");
    stage.wait_for_scheduler("under the old uid", |mirror| mirror.hash() == UID && mirror.generation() == 0);
}

fn an_unreadable_manifest_costs_the_scheduler_at_the_next_scan(stage: &Stage) {
    let before = stage.start_from_original();
    let mark = stage.mark();
    stage.replace_manifest(b"kind: [Pod\n");
    wait_until("the scheduler to be killed", SCAN + seconds(10), || {
        if stage.lives(mark).ended == [before.container.clone()] { Ok(()) } else { Err("it runs".to_owned()) }
    });
    wait_until("its mirror pod to go", RESTART, || {
        Mirror::of(stage.node()).map_or(Ok(()), |mirror| Err(mirror.described()))
    });
    stays("no scheduler", QUIET, || {
        if stage.lives(mark).started.is_empty() { Ok(()) } else { Err("one started".to_owned()) }
    });
    stage.replace_manifest(&stage.original);
    stage.wait_for_scheduler("the original again", |mirror| mirror.hash() == before.hash());
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
