//! The agent as a process in the node, with sources in a directory there: for what would take too long through a pod.

use std::fs;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::cluster::Background;
use crate::control_plane::ControlPlane;
use crate::wait::{seconds, wait_until};
use crate::wanted::Wanted;

pub const SOURCES: &str = "/var/lib/e2e-source";
pub const PROGRAM: &str = env!("CARGO_BIN_EXE_schedpatch");
pub const ADMIN: &str = "/etc/kubernetes/admin.conf";

pub struct Agent<'a> {
    control_plane: &'a ControlPlane,
    process: Background,
}

/// A change of phase, as the log tells it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Told {
    /// In seconds of the day
    pub at: f64,
    pub phase: String,
    pub reason: String,
    pub message: String,
    pub generation: u64,
}

impl<'a> Agent<'a> {
    /// Starts it on the sources that are there.
    pub fn start(control_plane: &'a ControlPlane, flags: &[&str]) -> Self {
        Self::start_as(control_plane, ADMIN, flags)
    }

    pub fn start_as(control_plane: &'a ControlPlane, kubeconfig: &str, flags: &[&str]) -> Self {
        control_plane.readyz();
        // the first line is its number in the node
        let begin =
            ["sh", "-c", r#"echo $$; exec "$@" 2>&1"#, "sh", PROGRAM, "run", "--log-format=json", "--preflight=none"];
        let own = ["--node-name=cp1", "--settle=5s", "--source", SOURCES, "--kubeconfig", kubeconfig];
        let process = control_plane.node().start(&[&begin, &own[..], flags].concat());
        Self { control_plane, process }
    }

    /// Starts it and waits until it has proven what is wanted, which is what runs already, if anything does.
    #[track_caller]
    pub fn start_ready(control_plane: &'a ControlPlane) -> (Self, Wanted) {
        control_plane.cluster.note("to begin: an agent in the node that has proven a configuration");
        control_plane.begin_without_release();
        let wanted = control_plane.readyz().present_config();
        control_plane.write_source(&wanted.text());
        let agent = Self::start(control_plane, &[]);
        control_plane.readyz().wait_until_ready_at(wanted, LONG);
        (agent, wanted)
    }

    /// Changes of phase so far.
    pub fn told(&self) -> Vec<Told> {
        self.process.lines().iter().filter_map(|line| Told::read(line)).collect()
    }

    /// Waits until it tells that; `since` is the number of changes to pass over.
    #[track_caller]
    pub fn wait_for(&self, phase: &str, since: usize, limit: Duration) -> Told {
        wait_until(&format!("the agent to say {phase}"), limit, || {
            let told = self.told();
            let found = told.iter().skip(since).find(|told| told.phase == phase);
            found.cloned().ok_or_else(|| format!("{:#?}", &told[told.len().min(since)..]))
        })
    }

    /// The same by the reason, where a phase has several.
    #[track_caller]
    pub fn wait_for_reason(&self, reason: &str, since: usize, limit: Duration) -> Told {
        wait_until(&format!("the agent to say why: {reason}"), limit, || {
            let told = self.told();
            let found = told.iter().skip(since).find(|told| told.reason == reason);
            found.cloned().ok_or_else(|| format!("{:#?}", &told[told.len().min(since)..]))
        })
    }

    /// How long it took from its first line to Ready.
    #[track_caller]
    pub fn seconds_to_ready(&self) -> f64 {
        let ready = self.wait_for("Ready", 0, seconds(60));
        let lines = self.process.lines();
        let began = lines.iter().find(|line| line.contains("schedpatch begins")).expect("it says so");
        ready.at - time_of(&serde_json::from_str(began).expect("a line of JSON")).expect("a time")
    }

    /// The process as seen from here, which can be killed without delay.
    #[track_caller]
    pub fn outer_pid(&self) -> String {
        let inner = wait_until("the agent's number", seconds(30), || {
            self.process.lines().first().cloned().ok_or_else(|| "silence".to_owned())
        });
        self.control_plane.node().outer_pid(&inner).unwrap_or_else(|| panic!("no process {inner} in the node"))
    }

    /// Kills it without a chance to do anything.
    #[track_caller]
    pub fn kill_9(self) {
        kill_9(&self.outer_pid());
        self.control_plane.cluster.note(&format!("the agent was killed; it had told {:#?}", self.told()));
    }

    /// What it said, for messages.
    pub fn lines(&self) -> Vec<String> {
        self.process.lines()
    }
}

impl Drop for Agent<'_> {
    fn drop(&mut self) {
        self.control_plane.cluster.note(&format!("the agent's log:\n{}", self.lines().join("\n")));
    }
}

impl Told {
    /// None where the line is about something else.
    pub fn read(line: &str) -> Option<Self> {
        let line: Value = serde_json::from_str(line).ok()?;
        let field = |name: &str| line[name].as_str().map(str::to_owned);
        Some(Self {
            at: time_of(&line)?,
            phase: field("phase")?,
            reason: field("reason")?,
            message: field("message")?,
            generation: line["generation"].as_u64()?,
        })
    }
}

impl ControlPlane {
    /// Puts a configuration where agents in the node look for it.
    pub fn write_source(&self, text: &str) {
        let dir = self.node().path(SOURCES);
        fs::create_dir_all(&dir).expect("the node's files can be written");
        let hidden = self.node().path("/var/lib/.e2e-source.yaml");
        fs::write(&hidden, text).expect("the node's files can be written");
        fs::rename(hidden, dir.join("scheduler.yaml")).expect("renamed");
        self.cluster.note(&format!("the sources ask for\n{text}"));
    }
}

/// A restart of the scheduler, the time to settle, and a machine with other things to do.
pub const LONG: Duration = seconds(180);

#[track_caller]
pub fn kill_9(pid: &str) {
    kill("-9", pid);
}

/// Asks it to end.
#[track_caller]
pub fn terminate(pid: &str) {
    kill("-TERM", pid);
}

#[track_caller]
fn kill(signal: &str, pid: &str) {
    let killed = Command::new("kill").args([signal, pid]).status().expect("kill runs");
    assert!(killed.success(), "kill {signal} {pid}");
}

/// Seconds of the day.
pub fn time_of(line: &Value) -> Option<f64> {
    let time = line["timestamp"].as_str()?.split_once('T')?.1.trim_end_matches('Z');
    let parts: Vec<f64> = time.split(':').filter_map(|part| part.parse().ok()).collect();
    if let [hours, minutes, seconds] = parts[..] { Some((hours * 60.0 + minutes) * 60.0 + seconds) } else { None }
}
