//! A cluster: a cluster made by `hack/testbed`, and how its nodes are entered.

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::Value;

/// The `testbed up` that runs now.
static COMING_UP: Mutex<Option<u32>> = Mutex::new(None);

/// A cluster that is up.
pub struct Cluster {
    name: String,
    version: String,
    began: Instant,
    done: Mutex<Vec<String>>,
}

/// A node of a bed.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    cluster: &'a Cluster,
    pub name: &'static str,
}

/// What a command said when it ended.
#[derive(Debug)]
pub struct Ran {
    pub command: String,
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
}

/// A program that runs in a node until this is dropped.
pub struct Background {
    child: Child,
    lines: Arc<Mutex<Vec<String>>>,
}

impl Cluster {
    /// Brings it up, or takes the one of that name; what `testbed` says goes to the terminal.
    pub fn up(name: &str, version: Option<&str>, nodes: u32) -> Result<Self, String> {
        let mut command = testbed("up", name);
        if nodes > 1 {
            // what is tested there is who goes first, not how long a genuine manifest's probes take
            command.arg("--quick-probes");
        }
        command.arg(format!("--nodes={nodes}")).args(version.map(|version| format!("--version={version}")));
        let failed = |error| format!("hack/testbed/testbed: {error}");
        let mut child = command.stdout(Stdio::null()).spawn().map_err(failed)?;
        *COMING_UP.lock().expect("not poisoned") = Some(child.id());
        let status = child.wait().map_err(failed)?;
        *COMING_UP.lock().expect("not poisoned") = None;
        if !status.success() {
            return Err(format!("testbed up --name {name} failed, see above"));
        }
        let record = beds().join(name).join("bed.json");
        let text = std::fs::read_to_string(&record).map_err(|error| format!("{}: {error}", record.display()))?;
        let record: Value = serde_json::from_str(&text).map_err(|error| format!("{}: {error}", record.display()))?;
        let version = record["version"].as_str().ok_or("bed.json names no version")?.to_owned();
        Ok(Self { name: name.to_owned(), version, began: Instant::now(), done: Mutex::default() })
    }

    /// Ends an `up` that is under way, which then cleans up after itself; until it has, nobody else can.
    pub fn stop_coming_up() {
        let coming_up = || *COMING_UP.lock().expect("not poisoned");
        if let Some(pid) = coming_up() {
            let _ = Command::new("kill").arg(pid.to_string()).status();
        }
        while coming_up().is_some() {
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Takes down whatever is left of a bed.
    pub fn down(name: &str) -> bool {
        testbed("down", name).stdout(Stdio::null()).status().is_ok_and(|status| status.success())
    }

    pub fn name(&self) -> &str {
        &self.name
    }

    /// For example `v1.36.4`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// For example 36.
    pub fn minor(&self) -> u32 {
        self.version.split('.').nth(1).and_then(|minor| minor.parse().ok()).expect("vMAJOR.MINOR.PATCH")
    }

    pub fn node(&self, name: &'static str) -> Node<'_> {
        Node { cluster: self, name }
    }

    /// Imports an image archive, as `testbed image` makes it, into every node.
    pub fn load(&self, archive: &Path) {
        let loaded = testbed("load", &self.name).arg(archive).output().expect("testbed runs");
        assert!(loaded.status.success(), "testbed load: {}", String::from_utf8_lossy(&loaded.stderr));
    }

    /// A verb of the test bed about nodes of this one: `add`, `remove`, `return`, `partition`, `heal`.
    #[track_caller]
    pub fn change_nodes(&self, verb: &str, words: &[&str]) -> String {
        let done = testbed(verb, &self.name).args(words).output().expect("testbed runs");
        let said = String::from_utf8_lossy(&done.stderr);
        self.note(&format!("$ testbed {verb} {} -> {}\n{said}", words.join(" "), done.status));
        assert!(done.status.success(), "testbed {verb} {}: {said}", words.join(" "));
        String::from_utf8_lossy(&done.stdout).trim().to_owned()
    }

    /// Remembers a step, to be told when the test fails.
    pub fn note(&self, text: &str) {
        let line =
            format!("{:7.1} s  {}", self.began.elapsed().as_secs_f64(), text.trim_end().replace('\n', "\n           "));
        self.done.lock().expect("not poisoned").push(line);
    }

    /// The steps since the last call.
    pub fn take_notes(&self) -> Vec<String> {
        std::mem::take(&mut self.done.lock().expect("not poisoned"))
    }
}

impl Node<'_> {
    /// Runs a command in the node, to its end.
    pub fn run(&self, command: &[&str]) -> Ran {
        let output = self.command(command).stdin(Stdio::null()).output().expect("testbed runs");
        let ran = Ran {
            command: command.join(" "),
            status: output.status.code().unwrap_or(-1),
            stdout: String::from_utf8_lossy(&output.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&output.stderr).into_owned(),
        };
        if command[0] != "kubectl" || ran.status != 0 {
            self.cluster.note(&format!("$ {} -> {}\n{}{}", ran.command, ran.status, ran.stdout, ran.stderr));
        }
        ran
    }

    /// Starts a command in the node and collects the lines that it prints.
    pub fn start(&self, command: &[&str]) -> Background {
        // nsenter does not pass signals on: the end of its input tells the program to end
        const UNTIL_INPUT_ENDS: &str = r#""$@" & program=$!; read -r _; { kill $program; wait $program; } 2>/dev/null"#;
        self.cluster.note(&format!("$ {} &", command.join(" ")));
        let wrapped = [&["sh", "-c", UNTIL_INPUT_ENDS, "sh"], command].concat();
        let mut child =
            self.command(&wrapped).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("testbed runs");
        let output = child.stdout.take().expect("it is piped");
        let lines = Arc::new(Mutex::new(Vec::new()));
        let collected = Arc::clone(&lines);
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                collected.lock().expect("not poisoned").push(line);
            }
        });
        Background { child, lines }
    }

    pub fn kubectl(&self, arguments: &[&str]) -> Ran {
        self.run(&[&["kubectl", "--request-timeout=10s"], arguments].concat())
    }

    /// A file of the node, as seen from here.
    pub fn path(&self, path: &str) -> PathBuf {
        beds().join(&self.cluster.name).join(self.name).join("root").join(path.trim_start_matches('/'))
    }

    /// Loses the node at once, as if its power failed; `return` brings it back.
    #[track_caller]
    pub fn lose(&self) {
        let pid = std::fs::read_to_string(beds().join(&self.cluster.name).join(self.name).join("pid"));
        let pid = pid.expect("the node runs");
        let killed = Command::new("kill").args(["-9", pid.trim()]).status().expect("kill runs");
        assert!(killed.success(), "kill -9 {pid}");
        self.cluster.note(&format!("{} is lost", self.name));
    }

    /// What a process of the node is called from here.
    pub fn outer_pid(&self, inner: &str) -> Option<String> {
        let first = std::fs::read_to_string(beds().join(&self.cluster.name).join(self.name).join("pid")).ok()?;
        let namespace = |pid: &str| std::fs::read_link(format!("/proc/{pid}/ns/pid")).ok();
        let own = namespace(first.trim())?;
        let is_inner = |pid: &String| {
            let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
            let numbers = status.lines().find(|line| line.starts_with("NSpid:")).map(str::to_owned);
            numbers.is_some_and(|numbers| numbers.split_whitespace().last() == Some(inner))
        };
        let all = std::fs::read_dir("/proc").ok()?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        all.filter(is_inner).find(|pid| namespace(pid).as_ref() == Some(&own))
    }

    /// The end of a component's log.
    pub fn log_end(&self, component: &str, lines: usize) -> String {
        let output = testbed("logs", &self.cluster.name).args([self.name, component]).output().expect("testbed runs");
        let text = String::from_utf8_lossy(if output.status.success() { &output.stdout } else { &output.stderr });
        let all: Vec<&str> = text.lines().collect();
        all[all.len().saturating_sub(lines)..].join("\n")
    }

    fn command(&self, command: &[&str]) -> Command {
        let mut testbed = testbed("exec", &self.cluster.name);
        testbed.arg(self.name).args(command);
        testbed
    }
}

impl Ran {
    /// The same, if it succeeded.
    #[track_caller]
    pub fn succeeded(self) -> Self {
        assert_eq!(self.status, 0, "{} failed:\n{}{}", self.command, self.stdout, self.stderr);
        self
    }

    /// The last line of what it said, for messages.
    pub fn last_words(&self) -> String {
        let said = if self.stderr.trim().is_empty() { &self.stdout } else { &self.stderr };
        said.trim().lines().last().unwrap_or("nothing").to_owned()
    }
}

impl Background {
    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().expect("not poisoned").clone()
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

fn testbed(verb: &str, cluster: &str) -> Command {
    let mut command = Command::new(concat!(env!("CARGO_MANIFEST_DIR"), "/hack/testbed/testbed"));
    command.args([verb, "--name", cluster]);
    command
}

fn beds() -> PathBuf {
    std::env::var_os("SCHEDPATCH_BEDS").map_or_else(|| PathBuf::from("/var/lib/schedpatch-testbed"), PathBuf::from)
}
