//! The whole life of an edit on the tree of a k3s server, by the program itself.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Output;

use super::program::{json, schedpatch, text};

const UNIT: &str = "etc/systemd/system/k3s.service";
const DROP_IN: &str = "etc/rancher/k3s/config.yaml.d/90-schedpatch.yaml";
const DROP_IN_METHOD: [&str; 2] = ["--k3s-method", "drop-in"];
const COMMAND: &str = "systemctl daemon-reload && systemctl restart k3s";

/// A server's tree, with the unit of the installer.
fn server(name: &str) -> PathBuf {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli").join(format!("k3s-{name}"));
    let _ = fs::remove_dir_all(&root);
    let case = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/k3s-execstart/host");
    for file in [UNIT, "usr/local/bin/k3s"] {
        let to = root.join(file);
        fs::create_dir_all(to.parent().expect("a directory")).expect("made");
        fs::write(&to, fs::read(case.join(file)).expect("readable")).expect("written");
    }
    for dir in ["var/lib/rancher/k3s/server", "etc/rancher/k3s"] {
        fs::create_dir_all(root.join(dir)).expect("made");
    }
    root
}

fn run(root: &Path, command: &str, more: &[&str]) -> Output {
    let root = root.display().to_string();
    let source = ["--source", "tests/golden/k3s-execstart/source"];
    let source = if matches!(command, "plan" | "apply") { &source[..] } else { &[] };
    schedpatch(&[&[command, "--host-root", &root, "--k3s-restart", "manual"], source, more].concat())
}

fn read(root: &Path, file: &str) -> String {
    fs::read_to_string(root.join(file)).expect("it is there")
}

#[test]
fn a_unit_gets_the_argument_once_and_its_old_bytes_back() {
    let root = server("execstart");
    let original = read(&root, UNIT);
    let applied = run(&root, "apply", &[]);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert!(text(&applied.stdout).contains(COMMAND), "it says what a person must do: {}", text(&applied.stdout));
    let edited = read(&root, UNIT);
    let names = |text: &str| text.matches("--kube-scheduler-arg=config=/var/lib/schedpatch/revisions/").count();
    assert_eq!(names(&edited), 2, "once in the command line and once in the comment that remembers it");
    run(&root, "apply", &[]);
    assert_eq!(read(&root, UNIT), edited);
    let unchanged = run(&root, "plan", &["--check"]);
    assert_eq!(unchanged.status.code(), Some(0), "{}", text(&unchanged.stdout));

    // others edit the rest of the unit meanwhile, and keep it
    fs::write(root.join(UNIT), edited.replace("RestartSec=5s", "RestartSec=7s")).expect("written");
    let restored = run(&root, "restore", &[]);
    assert!(text(&restored.stdout).contains(COMMAND), "{}", text(&restored.stdout));
    assert_eq!(read(&root, UNIT), original.replace("RestartSec=5s", "RestartSec=7s"));
}

#[test]
fn the_installer_may_write_the_unit_anew() {
    let root = server("installer");
    let original = read(&root, UNIT);
    run(&root, "apply", &[]);
    let first = read(&root, UNIT);
    fs::write(root.join(UNIT), &original).expect("written");
    run(&root, "apply", &[]);
    let again = read(&root, UNIT);
    assert_eq!(again.lines().count(), first.lines().count(), "it is patched once: {again}");
    run(&root, "restore", &["--purge"]);
    assert_eq!(read(&root, UNIT), original);
    assert!(!root.join("var/lib/schedpatch").exists());
}

#[test]
fn a_file_beside_the_configuration_comes_and_goes_whole() {
    let root = server("drop-in");
    let unit = read(&root, UNIT);
    let planned = run(&root, "plan", &[&DROP_IN_METHOD[..], &["-o", "json"]].concat());
    assert_eq!(json(&planned)["steps"][1]["kind"], "replaceTarget", "{}", text(&planned.stdout));
    assert!(!root.join(DROP_IN).exists());
    let applied = run(&root, "apply", &DROP_IN_METHOD);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let written = read(&root, DROP_IN);
    assert!(written.contains("kube-scheduler-arg+:\n- \"config=/var/lib/schedpatch/revisions/"), "{written}");
    let status = run(&root, "status", &DROP_IN_METHOD);
    assert!(text(&status.stdout).contains("90-schedpatch.yaml"), "{}", text(&status.stdout));
    run(&root, "apply", &DROP_IN_METHOD);
    assert_eq!(read(&root, DROP_IN), written);
    let restored = run(&root, "restore", &DROP_IN_METHOD);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(!root.join(DROP_IN).exists(), "nothing is left that k3s reads");
    assert_eq!(read(&root, UNIT), unit);
    let names: Vec<_> = fs::read_dir(root.join("etc/rancher/k3s/config.yaml.d")).expect("there").collect();
    assert!(names.is_empty(), "{names:?}");
}

#[test]
fn a_plan_shows_no_secret_that_stands_beside_our_edit() {
    let root = server("secrets");
    let with_token = read(&root, UNIT).replace("    server \\\n", "    server \\\n\t'--token' \\\n\t'S3CRET' \\\n");
    assert!(with_token.contains("S3CRET"));
    fs::write(root.join(UNIT), &with_token).expect("written");
    for form in [&["-o", "json"][..], &[]] {
        let planned = run(&root, "plan", form);
        let shown = text(&planned.stdout);
        assert!(shown.contains("--token") && !shown.contains("S3CRET"), "{shown}");
    }
    run(&root, "apply", &[]);
    assert!(read(&root, UNIT).contains("'S3CRET'"), "only what is shown is hidden");
}

#[test]
fn a_unit_of_a_package_is_left_as_it_is() {
    let root = server("package");
    let package = "usr/lib/systemd/system/k3s.service";
    fs::create_dir_all(root.join(package).parent().expect("a directory")).expect("made");
    fs::rename(root.join(UNIT), root.join(package)).expect("moved");
    let original = read(&root, package);
    let named =
        run(&root, "apply", &["--target", "/usr/lib/systemd/system/k3s.service", "--scheduler-version", "v1.36.3"]);
    let said = text(&named.stderr);
    assert!(said.contains("package-unit") && said.contains("--k3s-method drop-in"), "{said}");
    let applied = run(&root, "apply", &DROP_IN_METHOD);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    assert!(root.join(DROP_IN).exists());
    let restored = run(&root, "restore", &["--purge"]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(!root.join(DROP_IN).exists() && read(&root, package) == original);
}

#[test]
fn what_one_method_wrote_the_other_does_not_double() {
    let root = server("two-methods");
    run(&root, "apply", &[]);
    let other = run(&root, "apply", &DROP_IN_METHOD);
    assert!(!other.status.success() && !root.join(DROP_IN).exists());
    // restore needs no method: it knows which file it changed
    run(&root, "restore", &[]);
    let applied = run(&root, "apply", &DROP_IN_METHOD);
    assert!(applied.status.success(), "{}", text(&applied.stderr));
    let restored = run(&root, "restore", &[]);
    assert!(restored.status.success(), "{}", text(&restored.stderr));
    assert!(!root.join(DROP_IN).exists(), "{}", text(&restored.stdout));
}
