//! The sandbox, from outside: the story that it tells, the commands that it suggests, and what it leaves behind.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// A sandbox below a directory of its own.
struct Sandbox {
    child: Child,
    lines: BufReader<ChildStderr>,
    dir: PathBuf,
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let _ = fs::remove_dir_all(&self.dir);
    }
}

impl Sandbox {
    fn start() -> Self {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sandbox");
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).expect("a directory");
        let mut child = Command::new(env!("CARGO_BIN_EXE_schedpatch"))
            .args(["run", "--sandbox", "--listen", "127.0.0.1:0"])
            .env("TMPDIR", &dir)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("its log"));
        Self { child, lines, dir }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.lines.read_line(&mut line).expect("a line");
        assert!(!line.is_empty() && !line.contains("ends early"), "the story is not finished: {line}");
        line
    }

    /// Reads until a line has these words.
    fn read_until(&mut self, words: &str) -> String {
        loop {
            let line = self.line();
            if line.contains(words) {
                return line;
            }
        }
    }

    fn manifest(&self) -> String {
        let tree = fs::read_dir(&self.dir).expect("there").next().expect("a tree of its own").expect("readable").path();
        fs::read_to_string(tree.join("host/etc/kubernetes/manifests/kube-scheduler.yaml")).expect("there")
    }
}

/// Runs a command as a person types it.
fn shell(command: &str) -> Output {
    Command::new("sh").args(["-c", command]).output().expect("a shell")
}

#[test]
fn the_sandbox_applies_rolls_back_restores_suggests_commands_that_work_and_leaves_nothing() {
    let begin = Instant::now();
    let original = include_str!("../../examples/host/etc/kubernetes/manifests/kube-scheduler.yaml");
    let mut sandbox = Sandbox::start();
    sandbox.read_until("SIMULATED");

    sandbox.read_until("1/3 APPLY");
    let ready = sandbox.read_until("phase=\"Ready\"");
    let revision = ready.split("revision=\"").nth(1).and_then(|rest| rest.split('"').next()).expect("a revision");
    let mark = format!("schedpatch.io/revision: {revision}");
    assert!(sandbox.manifest().replace('"', "").contains(&mark), "{}", sandbox.manifest());

    sandbox.read_until("2/3 ROLL BACK");
    let rolled_back = sandbox.read_until("phase=\"RolledBack\"");
    let words = "command failed: couldn't build extenders: the simulated scheduler does not run with crash.example";
    assert!(rolled_back.contains(words), "{rolled_back}");
    assert!(sandbox.manifest().replace('"', "").contains(&mark), "{}", sandbox.manifest());

    sandbox.read_until("3/3 RESTORE");
    sandbox.read_until("phase=\"Restored\"");
    sandbox.read_until("original bytes");
    assert_eq!(sandbox.manifest(), original);
    sandbox.read_until("YOUR TURN");
    let told_in = begin.elapsed();

    let mut commands = Vec::new();
    while !commands.last().is_some_and(|line: &String| line.contains("schedpatch restore ")) {
        commands.push(sandbox.line());
    }
    let run = |name: &str| {
        let command = commands.iter().find(|line| line.contains(name)).expect(name);
        let output = shell(command);
        assert!(output.status.success(), "{command}: {output:?}");
        String::from_utf8(output.stdout).expect("text")
    };
    assert!(run("schedpatch status ").contains("hold "));
    assert!(run("schedpatch plan ").contains(revision));
    assert!(run("schedpatch apply ").contains(revision));
    assert!(run("  cat ").contains(revision));
    sandbox.read_until("phase=\"Ready\"");
    run("schedpatch restore ");
    sandbox.read_until("phase=\"Restored\"");
    assert_eq!(sandbox.manifest(), original);

    assert!(shell(&format!("kill -TERM {}", sandbox.child.id())).status.success());
    assert!(sandbox.child.wait().expect("it ends").success());
    assert_eq!(fs::read_dir(&sandbox.dir).expect("there").count(), 0, "nothing is left");
    assert!(told_in < Duration::from_mins(1), "the story took {told_in:?}");
    println!("the story took {told_in:?}");
}

#[test]
fn a_sandbox_takes_a_free_port_where_the_usual_one_is_taken_and_a_given_one_must_be_free() {
    // whoever has it, now it is taken
    let _taken = std::net::TcpListener::bind("127.0.0.1:9471");
    let start = |more: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_schedpatch"));
        command.env_remove("SCHEDPATCH_LISTEN").args(["run", "--sandbox", "--log-format", "json"]).args(more);
        command.stderr(Stdio::piped()).spawn().expect("it starts")
    };
    let mut child = start(&[]);
    let lines = BufReader::new(child.stderr.take().expect("its log")).lines();
    let first = lines.map_while(Result::ok).find(|line| line.contains("\"listen\"") || line.contains("error["));
    // asked to end, it removes its tree
    let ended = Command::new("kill").arg(child.id().to_string()).status().expect("kill runs").success();
    let ended = child.wait().is_ok() && ended;
    let first = first.expect("a line");
    let line: serde_json::Value = serde_json::from_str(&first).unwrap_or_else(|error| panic!("{first}: {error}"));
    assert!(
        line["listen"].as_str().is_some_and(|listen| listen.starts_with("127.0.0.1:") && !listen.ends_with(":9471"))
    );
    assert!(ended);
    let output = start(&["--listen", "127.0.0.1:9471"]).wait_with_output().expect("it ends");
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("error[listen]"));
}
