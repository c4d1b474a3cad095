//! Taking it out, as docs/use/install.md says until there is a command for the whole cluster.

use crate::agent::LONG;
use crate::release::Release;
use crate::runner::Test;
use crate::stage::{QUIET, Stage};
use crate::tests;
use crate::wait::stays;

pub const TESTS: &[Test] =
    tests![Quick restore_in_the_pod_and_helm_uninstall_leave_the_original_bytes_and_nobody_patches_again];

fn restore_in_the_pod_and_helm_uninstall_leave_the_original_bytes_and_nobody_patches_again(stage: &Stage) {
    let (release, _) = Release::ready(stage);
    let pod = release.pod();
    release.kubectl(&["exec", &pod, "--", "/schedpatch", "restore"]).succeeded();
    assert_eq!(stage.manifest(), stage.original, "the very bytes");
    let mirror = stage.wait_for_scheduler("nothing of schedpatch", |mirror| mirror.generation() == 0 && mirror.ready);
    let told = stage.wait_for_annotated("Restored");
    assert_eq!(told["reason"], "Held");
    assert!(!told.contains_key("revision") && !told.contains_key("generation"), "nothing of ours stands: {told:?}");
    stage.readyz().wait("/readyz to say 200", LONG, |sample| sample.code == 200);

    let mark = stage.mark();
    release.refresh();
    stays("the original stays while the agent runs", QUIET, || {
        if stage.manifest() == stage.original { stage.no_restart(mark) } else { Err("patched again".to_owned()) }
    });
    release.uninstall();
    assert_eq!(stage.manifest(), stage.original, "the very bytes");
    stage.no_restart(mark).unwrap_or_else(|seen| panic!("{seen}"));
    assert!(mirror.annotations.keys().all(|name| !name.starts_with("schedpatch.io/")), "{}", mirror.described());
}
