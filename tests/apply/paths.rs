//! Links, planted names and files that must not be replaced.

use super::host::{APPLY, Host, listing};

use schedpatch::host::{Root, Walk};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;

#[test]
fn what_must_not_be_replaced_is_refused() {
    let host = Host::new("refused");
    let dir = host.target().parent().expect("a directory").to_owned();
    let elsewhere = host.root.join("host/etc/elsewhere.yaml");

    fs::hard_link(host.target(), &elsewhere).expect("linked");
    host.refuses(&APPLY, "hard-link");
    host.refuses(&["apply", "--source", "a", "--dry-run"], "hard-link");
    fs::remove_file(&elsewhere).expect("removed");

    for mode in [0o775, 0o757, 0o1777] {
        fs::set_permissions(&dir, fs::Permissions::from_mode(mode)).expect("a mode");
        assert!(host.refuses(&APPLY, "writable-by-others").contains("chmod go-w"));
    }
    fs::set_permissions(&dir, fs::Permissions::from_mode(0o755)).expect("a mode");

    fs::rename(host.target(), &elsewhere).expect("moved");
    symlink("../../elsewhere.yaml", host.target()).expect("linked");
    host.refuses(&APPLY, "symlink");
    fs::remove_file(host.target()).expect("removed");
    fs::rename(&elsewhere, host.target()).expect("moved");

    let large = host.text() + &"# x\n".repeat(3 << 20);
    fs::write(host.target(), large).expect("written");
    host.refuses(&APPLY, "unreadable");
    fs::write(host.target(), &host.original).expect("written");

    host.ok(&APPLY);
    fs::set_permissions(host.state(""), fs::Permissions::from_mode(0o777)).expect("a mode");
    host.refuses(&["apply", "--source", "b"], "writable-by-others");
}

#[test]
fn planted_names_are_not_followed() {
    let host = Host::new("planted");
    let victim = host.root.join("victim");
    fs::write(&victim, "precious").expect("written");
    let dir = host.target().parent().expect("a directory").to_owned();
    symlink(&victim, dir.join(".kube-scheduler.yaml.schedpatch")).expect("linked");
    fs::create_dir_all(host.state("texts")).expect("a directory");
    symlink(&victim, host.state(".state.json.schedpatch")).expect("linked");
    host.ok(&APPLY);
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
    assert!(listing(&dir).iter().all(|entry| !entry.0.to_string_lossy().contains(".schedpatch")));

    fs::remove_dir_all(host.state("")).expect("removed");
    fs::create_dir_all(host.state("")).expect("a directory");
    symlink(&victim, host.state("lock")).expect("linked");
    host.refuses(&["apply", "--source", "b"], "write");
    assert_eq!(fs::read_to_string(&victim).expect("there"), "precious");
}

#[test]
fn links_are_followed_as_the_host_would_and_never_out_of_it() {
    for walk in [Walk::Kernel, Walk::ByName] {
        let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("apply/links-{walk:?}"));
        let _ = fs::remove_dir_all(&root);
        fs::create_dir_all(root.join("host/data/deep")).expect("a directory");
        fs::create_dir_all(root.join("outside")).expect("a directory");
        fs::write(root.join("outside/secret"), "").expect("written");
        let link = |to: &str, name: &str| symlink(to, root.join("host").join(name)).expect("linked");
        link("/data/deep", "absolute");
        link("data/deep", "relative");
        link("../outside", "up");
        link(&root.join("outside").display().to_string(), "out");
        link("loop", "loop");
        fs::write(root.join("host/file"), "").expect("written");
        let host = Root::open(&root.join("host")).expect("opened").walking(walk);
        let inode = |path: &str| fs::metadata(root.join("host").join(path)).expect("there").ino();
        for path in ["/absolute", "/relative", "/data/deep/../deep", "/absolute/../deep/."] {
            let names = host.dir(path).and_then(|dir| dir.names());
            assert_eq!(names.expect(path), Vec::<String>::new(), "{path}");
        }
        fs::write(root.join("host/data/deep/here"), "").expect("written");
        assert_eq!(host.dir("/absolute").and_then(|dir| dir.names()).expect("names"), ["here"], "{walk:?}");
        assert!(host.dir("/../..").and_then(|dir| dir.names()).expect("the root").contains(&"data".to_owned()));
        for path in ["/up", "/out", "/loop", "/file", "/missing", "/file/x"] {
            assert!(host.dir(path).is_err(), "{walk:?}: {path} was opened");
        }
        assert!(inode("data/deep") != 0);
    }
}

#[test]
fn our_directory_is_never_the_kubelets() {
    let host = Host::new("mine");
    for dir in ["/etc/kubernetes/manifests", "/etc/kubernetes/manifests/schedpatch"] {
        host.refuses(&["apply", "--source", "a", "--state-dir", dir], "state-dir");
    }
    fs::create_dir_all(host.root.join("host/var/lib")).expect("a directory");
    symlink("/etc/kubernetes/manifests", host.state("").with_file_name("schedpatch")).expect("linked");
    host.refuses(&APPLY, "state-dir");
}
