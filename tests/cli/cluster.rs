//! Commands that ask the cluster.

use super::program::{first_rule, good_manifest, host, json, kubeconfig, schedpatch, text};
use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

#[test]
fn a_cluster_that_cannot_be_asked_is_told_in_words_and_exits_with_1() {
    let file = kubeconfig("away");
    let cases: [(&[&str], &str, &str); 5] = [
        (&["--cluster"], "api-config", "kubeconfig"),
        (&["--kubeconfig", "/nonexistent"], "api-config", "/nonexistent"),
        (&["--kubeconfig", &file, "--context", "nowhere"], "no-such-context", "it has: here, there"),
        (&["--kubeconfig", &file, "--context", "there"], "api-away", "does not answer"),
        (&["--kubeconfig", &file, "--wait", "1s"], "api-away", "does not answer"),
    ];
    for (flags, rule, words) in cases {
        let output = schedpatch(&[&["status", "-o", "json"], flags].concat());
        assert_eq!((output.status.code(), first_rule(&output).as_str()), (Some(1), rule), "{flags:?}");
        assert_eq!((&json(&output)["scope"], &json(&output)["proven"]), (&"cluster".into(), &false.into()));
        let output = schedpatch(&[&["status"], flags].concat());
        assert!(text(&output.stderr).contains(words), "{flags:?}: {}", text(&output.stderr));
    }
}

#[test]
fn called_by_kubectl_it_is_about_the_cluster() {
    let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/plugin");
    fs::create_dir_all(&dir).expect("a directory");
    let plugin = dir.join("kubectl-schedpatch");
    let _ = fs::remove_file(&plugin);
    symlink(env!("CARGO_BIN_EXE_schedpatch"), &plugin).expect("a link");
    let run = |args: &[&str]| Command::new(&plugin).env_clear().args(args).output().expect("the program runs");
    let file = kubeconfig("plugin-config");
    let output =
        Command::new(&plugin).env_clear().env("KUBECONFIG", &file).args(["status"]).output().expect("the program runs");
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("error[api-away]"), "{}", text(&output.stderr));
    assert!(text(&run(&["status", "--help"]).stdout).contains("Usage: kubectl schedpatch status"));
    for wrong in [&["status", "--extenders"][..], &["status", "--wait", "soon"], &["status", "--nonsense"]] {
        assert_eq!(run(wrong).status.code(), Some(2), "{wrong:?}");
    }
    assert_eq!(schedpatch(&["status", "--extenders", "--cluster"]).status.code(), Some(2));
}

#[test]
fn extenders_are_asked_on_demand_and_do_not_change_the_exit_code() {
    let root = host("extenders", &good_manifest());
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let (here, gone) = (listener.local_addr().expect("an address").port(), {
        let gone = TcpListener::bind("127.0.0.1:0").expect("a port");
        gone.local_addr().expect("an address").port()
    });
    let source = root.join("source");
    fs::create_dir_all(&source).expect("a directory");
    let extender =
        |port: u16| format!("  - {{urlPrefix: 'http://127.0.0.1:{port}/x', filterVerb: filter, ignorable: true}}\n");
    let head = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nextenders:\n";
    fs::write(source.join("config.yaml"), format!("{head}{}{}", extender(here), extender(gone))).expect("a file");
    let (host, source) = (root.join("host").display().to_string(), source.display().to_string());
    let applied = schedpatch(&["apply", "--host-root", &host, "--source", &source]);
    assert_eq!(applied.status.code(), Some(0), "{}", text(&applied.stderr));
    let output = schedpatch(&["status", "--host-root", &host, "--extenders", "-o", "json"]);
    assert_eq!(output.status.code(), Some(0));
    let mut asked = [(here, true), (gone, false)];
    asked.sort_by_key(|(port, _)| format!("http://127.0.0.1:{port}"));
    let expected = asked.iter().map(
        |(port, reachable)| serde_json::json!({"url": format!("http://127.0.0.1:{port}"), "reachable": reachable}),
    );
    assert_eq!(json(&output)["extenders"], expected.collect::<serde_json::Value>());
    let shown = text(&schedpatch(&["status", "--host-root", &host, "--extenders"]).stdout);
    assert!(shown.contains(&format!("http://127.0.0.1:{here} takes connections")), "{shown}");
    assert!(json(&schedpatch(&["status", "--host-root", &host, "-o", "json"])).get("extenders").is_none());
}

#[test]
fn status_on_a_workstation_names_the_flag_for_the_cluster() {
    let root = Path::new(env!("CARGO_TARGET_TMPDIR")).join("cli/workstation");
    fs::create_dir_all(&root).expect("a directory");
    let output = schedpatch(&["status", "--host-root", &root.display().to_string()]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stdout).contains("schedpatch status --cluster"), "{}", text(&output.stdout));
}

#[test]
fn a_kubeconfig_that_is_not_there_is_named_wherever_its_name_came_from() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
    command.env_clear().env("KUBECONFIG", "/no/such/kubeconfig").args(["status", "--cluster", "--context", "x"]);
    let said = text(&command.output().expect("it runs").stderr);
    assert!(said.contains("error[api-config]") && said.contains("/no/such/kubeconfig"), "{said}");
}
