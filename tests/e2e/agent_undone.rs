//! Taking it out, as docs/use/install.md says until there is a command for the whole cluster.

use crate::agent::LONG;
use crate::control_plane::{ControlPlane, QUIET};
use crate::release::Release;
use crate::runner::Test;
use crate::tests;
use crate::wait::stays;

pub const TESTS: &[Test] = tests![
    Quick restore_in_the_pod_and_helm_uninstall_leave_the_original_bytes_and_nobody_patches_again,
    Quick restore_through_a_debug_pod_leaves_the_original_bytes,
];

/// As docs/use/undo-by-hand.md says, for a person who has kubectl and nothing else.
fn restore_through_a_debug_pod_leaves_the_original_bytes(control_plane: &ControlPlane) {
    let (release, _) = Release::ready(control_plane);
    let image = release.image();
    let image = format!("--image={image}");
    let restore = ["--", "/schedpatch", "restore", "--host-root", "/host"];
    let debug = ["debug", "node/cp1", &image, "--profile=sysadmin"];
    let said = release.kubectl(&[&debug, &restore[..]].concat()).succeeded();
    let all = format!("{} {}", said.stdout, said.stderr);
    let pod = all.split_whitespace().find(|word| word.starts_with("node-debugger-")).expect("kubectl names its pod");
    release
        .kubectl(&["wait", &format!("pod/{pod}"), "--for=jsonpath={.status.phase}=Succeeded", "--timeout=60s"])
        .succeeded();
    let log = release.kubectl(&["logs", pod]).succeeded().stdout;
    assert!(log.contains("Restored: /etc/kubernetes/manifests/kube-scheduler.yaml"), "{log}");
    assert_eq!(control_plane.manifest(), control_plane.original, "the very bytes");
    control_plane.wait_for_scheduler("nothing of schedpatch", |mirror| mirror.generation() == 0 && mirror.ready);
    assert_eq!(control_plane.wait_for_annotated("Restored")["reason"], "Held", "the agent leaves it alone");
    release.kubectl(&["delete", "pod", pod, "--wait=false"]).succeeded();
    release.uninstall();
}

fn restore_in_the_pod_and_helm_uninstall_leave_the_original_bytes_and_nobody_patches_again(
    control_plane: &ControlPlane,
) {
    let (release, _) = Release::ready(control_plane);
    let pod = release.pod();
    release.kubectl(&["exec", &pod, "--", "/schedpatch", "restore"]).succeeded();
    assert_eq!(control_plane.manifest(), control_plane.original, "the very bytes");
    let mirror =
        control_plane.wait_for_scheduler("nothing of schedpatch", |mirror| mirror.generation() == 0 && mirror.ready);
    let told = control_plane.wait_for_annotated("Restored");
    assert_eq!(told["reason"], "Held");
    assert!(!told.contains_key("revision") && !told.contains_key("generation"), "nothing of ours stands: {told:?}");
    control_plane.readyz().wait("/readyz to say 200", LONG, |sample| sample.code == 200);

    let mark = control_plane.mark();
    release.refresh();
    stays("the original stays while the agent runs", QUIET, || {
        if control_plane.manifest() == control_plane.original {
            control_plane.no_restart(mark)
        } else {
            Err("patched again".to_owned())
        }
    });
    release.uninstall();
    assert_eq!(control_plane.manifest(), control_plane.original, "the very bytes");
    control_plane.no_restart(mark).unwrap_or_else(|seen| panic!("{seen}"));
    assert!(mirror.annotations.keys().all(|name| !name.starts_with("schedpatch.io/")), "{}", mirror.described());
}
