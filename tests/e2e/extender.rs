//! A real extender in the node's network, and pods to be scheduled.

use serde_json::Value;

use crate::cluster::{Background, Node};
use crate::wait::{seconds, wait_until};

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/extender.py");

pub struct Extender(Background);

impl Extender {
    #[track_caller]
    pub fn listen(node: Node<'_>) -> Self {
        let program = node.start(&["python3", "-B", PROGRAM]);
        wait_until("the extender to listen", seconds(20), || {
            program.lines().first().map(|_| ()).ok_or_else(|| "silence".to_owned())
        });
        Self(program)
    }

    /// Calls for a pod, by path.
    pub fn calls_for(&self, pod: &str) -> Vec<String> {
        let calls = self.0.lines().into_iter().skip(1).filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        calls
            .filter(|call| call["pod"] == pod)
            .map(|call| call["path"].as_str().unwrap_or_default().to_owned())
            .collect()
    }
}

/// A pod that asks to be scheduled; it goes with this value.
pub struct Pod<'a> {
    node: Node<'a>,
    name: &'static str,
}

impl<'a> Pod<'a> {
    #[track_caller]
    pub fn create(node: Node<'a>, name: &'static str, label: &str) -> Self {
        let images = node.run(&["ctr", "-n", "k8s.io", "images", "ls", "-q"]).succeeded().stdout;
        let pause =
            images.lines().find(|image| image.contains("/pause:")).expect("pods need the pause image").to_owned();
        let labels = format!("--labels=e2e={label}");
        let run = ["run", name, "--image", &pause, "--image-pull-policy=Never", "--restart=Never", &labels];
        // in the first seconds of a cluster the default service account is not there yet
        wait_until("a pod to be taken", seconds(60), || {
            let ran = node.kubectl(&run);
            if ran.status == 0 { Ok(()) } else { Err(ran.last_words()) }
        });
        Self { node, name }
    }

    /// Waits until it is bound and runs.
    #[track_caller]
    pub fn wait_until_it_runs(&self) {
        wait_until(&format!("pod {} to be bound and run", self.name), seconds(60), || {
            let (phase, condition) = self.look();
            if phase == "Running" { Ok(()) } else { Err(format!("{phase}: {condition}")) }
        });
    }

    /// Waits until the scheduler says why it is not bound.
    #[track_caller]
    pub fn wait_until_refused(&self, why: &str) {
        wait_until(&format!("pod {} to be refused with {why:?}", self.name), seconds(60), || {
            let (phase, condition) = self.look();
            if phase == "Pending" && condition.contains(why) { Ok(()) } else { Err(format!("{phase}: {condition}")) }
        });
    }

    /// Its phase, and what its conditions say.
    fn look(&self) -> (String, String) {
        let shown = self.node.kubectl(&["get", "pod", self.name, "-o", "json"]);
        let pod: Value = serde_json::from_str(&shown.stdout).unwrap_or_default();
        let conditions = pod["status"]["conditions"].as_array().into_iter().flatten();
        let messages: Vec<&str> = conditions.filter_map(|condition| condition["message"].as_str()).collect();
        (pod["status"]["phase"].as_str().unwrap_or("no such pod").to_owned(), messages.join("; "))
    }
}

impl Drop for Pod<'_> {
    fn drop(&mut self) {
        let _ = self.node.kubectl(&["delete", "pod", self.name, "--grace-period=0", "--force", "--wait=false"]);
    }
}
