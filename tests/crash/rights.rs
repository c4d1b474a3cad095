//! Owners, labels and capabilities: what only root can set up. Run by `hack/crash`.

use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use crate::support::scenario::{self, Scenario};
use rustix::fs::XattrFlags;

/// Whom nobody here is.
const STRANGER: u32 = 64_321;

const LABEL: &[u8] = b"system_u:object_r:kubernetes_file_t:s0\0";

fn story(name: &str) -> (Scenario, PathBuf) {
    let scenario = scenario::all(&format!("rights-{name}")).swap_remove(0);
    let root = scenario.host("one");
    (scenario, root)
}

fn run(scenario: &Scenario, root: &Path, wrapper: &[&str]) -> Output {
    let program = env!("CARGO_BIN_EXE_schedpatch").to_owned();
    let words: Vec<String> =
        wrapper.iter().map(|word| (*word).to_owned()).chain([program]).chain(scenario.flags(root)).collect();
    Command::new(&words[0]).args(&words[1..]).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

const NO_CAPABILITIES: [&str; 5] =
    ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--ambient-caps=-all", "--no-new-privs"];

/// An access list as the kernel keeps it: owner rw-, the stranger r--, group ---, mask r--, other ---.
fn access_list() -> Vec<u8> {
    let entries: [(u16, u16, u32); 5] =
        [(1, 6, u32::MAX), (2, 4, STRANGER), (4, 0, u32::MAX), (16, 4, u32::MAX), (32, 0, u32::MAX)];
    let mut list = 2_u32.to_le_bytes().to_vec();
    for (tag, rights, who) in entries {
        list.extend(tag.to_le_bytes());
        list.extend(rights.to_le_bytes());
        list.extend(who.to_le_bytes());
    }
    list
}

#[test]
fn a_default_access_list_of_the_directory_does_not_reach_the_manifest() {
    let (scenario, root) = story("default-list");
    let target = scenario.target(&root);
    let dir = target.parent().expect("a directory");
    rustix::fs::setxattr(dir, "system.posix_acl_default", &access_list(), XattrFlags::empty()).expect("set");
    let output = run(&scenario, &root, &[]);
    assert!(output.status.success(), "{}", said(&output));
    let found = rustix::fs::getxattr(&target, "system.posix_acl_access", &mut [0_u8; 256][..]);
    assert_eq!(found, Err(rustix::io::Errno::NODATA), "the stranger was let in");
    assert_eq!(fs::metadata(&target).expect("there").mode() & 0o7777, 0o600);
}

#[test]
fn owner_mode_label_and_access_list_are_kept() {
    let (scenario, root) = story("kept");
    let target = scenario.target(&root);
    let list = access_list();
    chown(&target, Some(STRANGER), Some(STRANGER)).expect("given away");
    let set = |name: &str, value: &[u8]| rustix::fs::setxattr(&target, name, value, XattrFlags::empty()).expect(name);
    set("security.selinux", LABEL);
    set("system.posix_acl_access", &list);
    let mode = fs::metadata(&target).expect("there").mode();
    let output = run(&scenario, &root, &[]);
    assert!(output.status.success(), "{}", said(&output));
    let after = fs::metadata(&target).expect("there");
    assert_eq!((after.uid(), after.gid(), after.mode()), (STRANGER, STRANGER, mode));
    for (name, value) in [("security.selinux", LABEL), ("system.posix_acl_access", list.as_slice())] {
        let mut found = vec![0; 256];
        let length = rustix::fs::getxattr(&target, name, &mut found).expect(name);
        assert_eq!(&found[..length], value, "{name}");
    }
}

#[test]
fn a_directory_of_somebody_else_needs_a_capability_and_the_error_names_it() {
    let (scenario, root) = story("kube");
    let target = scenario.target(&root);
    let dir = target.parent().expect("a directory");
    chown(dir, Some(STRANGER), Some(STRANGER)).expect("given away");
    let before = fs::read(&target).expect("there");
    let output = run(&scenario, &root, &NO_CAPABILITIES);
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("DAC_OVERRIDE") && said(&output).contains("kubespray"), "{}", said(&output));
    assert_eq!(before, fs::read(&target).expect("there"));
    assert!(!root.join("var/lib/schedpatch").exists(), "refused before anything is written");
    let output =
        run(&scenario, &root, &["setpriv", "--bounding-set=-all,+dac_override", "--inh-caps=-all", "--no-new-privs"]);
    assert!(output.status.success(), "{}", said(&output));
    scenario.expectation.check_settled(&root).expect("settled");
}

#[test]
fn root_without_any_capability_is_enough_where_all_belongs_to_root() {
    let (scenario, root) = story("root");
    let output = run(&scenario, &root, &NO_CAPABILITIES);
    assert!(output.status.success(), "{}", said(&output));
    scenario.expectation.check_settled(&root).expect("settled");
}

#[test]
fn a_user_without_rights_is_told_so() {
    let (scenario, root) = story("user");
    fs::set_permissions(scenario.target(&root), fs::Permissions::from_mode(0o644)).expect("a mode");
    let id = STRANGER.to_string();
    // the program itself must be within reach of that user
    let program = std::env::temp_dir().join(format!("schedpatch-rights-{}", std::process::id()));
    fs::copy(env!("CARGO_BIN_EXE_schedpatch"), &program).expect("copied");
    let host = std::env::temp_dir().join(format!("schedpatch-rights-host-{}", std::process::id()));
    scenario::copy_tree(&root, &host);
    let mut command = Command::new("setpriv");
    command.args(["--reuid", &id, "--regid", &id, "--clear-groups"]).arg(&program);
    let output = command.args(["restore", "--host-root"]).arg(&host).output().expect("it runs");
    fs::remove_file(&program).expect("removed");
    fs::remove_dir_all(&host).expect("removed");
    assert_eq!(output.status.code(), Some(1), "{}", said(&output));
    assert!(said(&output).contains("Run as root"), "{}", said(&output));
}

#[test]
fn a_strict_umask_does_not_hide_the_configuration_from_the_scheduler() {
    for umask in ["077", "000"] {
        let (scenario, root) = story(&format!("umask-{umask}"));
        let output = run(&scenario, &root, &["sh", "-c", &format!("umask {umask} && exec \"$@\""), "sh"]);
        assert!(output.status.success(), "{}", said(&output));
        scenario.expectation.check_settled(&root).unwrap_or_else(|why| panic!("umask {umask}: {why}"));
    }
}

#[test]
fn a_key_for_a_scheduler_that_is_not_root_needs_chown_alone_and_is_read_back_without_any_capability() {
    for (number, (context, owner)) in
        [("    runAsUser: 64321\n    runAsGroup: 64322\n", (0, 64_322)), ("    runAsUser: 64321\n", (64_321, 0))]
            .into_iter()
            .enumerate()
    {
        let golden = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/kubeadm-1.36");
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("rights-key-{number}"));
        let _ = fs::remove_dir_all(&root);
        scenario::copy_tree(&golden.join("host"), &root.join("host"));
        scenario::copy_tree(&golden.join("source"), &root.join("source"));
        fs::write(root.join("source/tls.key"), "key").expect("written");
        let target = root.join("host/etc/kubernetes/manifests/kube-scheduler.yaml");
        let text = fs::read_to_string(&target).expect("text");
        let old = "  securityContext:\n";
        fs::write(&target, text.replace(old, &format!("{old}{context}"))).expect("written");
        let apply = |wrapper: &[&str]| {
            let (program, host, source) = (env!("CARGO_BIN_EXE_schedpatch"), root.join("host"), root.join("source"));
            let mut command = Command::new(wrapper[0]);
            command.args(&wrapper[1..]).args([program, "apply", "--host-root"]).arg(host).arg("--source").arg(source);
            command.output().expect("it runs")
        };
        let refused = apply(&NO_CAPABILITIES);
        assert!(!refused.status.success() && said(&refused).contains("CHOWN"), "{}", said(&refused));
        let done = apply(&["setpriv", "--bounding-set=-all,+chown", "--inh-caps=-all", "--no-new-privs"]);
        assert!(done.status.success(), "{}", said(&done));
        let revisions = fs::read_dir(root.join("host/var/lib/schedpatch/revisions")).expect("there");
        let keys = revisions.map(|dir| dir.expect("readable").path().join("tls.key"));
        let key = fs::metadata(keys.into_iter().next().expect("one")).expect("there");
        assert_eq!((key.uid(), key.gid(), key.mode() & 0o7777), (owner.0, owner.1, 0o640));
        let again = apply(&NO_CAPABILITIES);
        assert!(said(&again).contains("Nothing to change"), "{}", said(&again));
    }
}
