//! The lives of a node's containers, as containerd tells them: what the API shows of a restart comes late and in part.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::cluster::{Background, Node};

/// Follows all containers of a node from its making on.
pub struct Containers {
    before: BTreeMap<String, String>,
    events: Background,
}

/// A point in time, to count from.
#[derive(Clone, Copy)]
pub struct Mark(usize);

/// Containers that started and ended, in that order, by id.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lives {
    pub started: Vec<String>,
    pub ended: Vec<String>,
}

impl Containers {
    pub fn follow(node: Node<'_>) -> Self {
        let events = node.start(&["ctr", "-n", "k8s.io", "events"]);
        let list = node.run(&["ctr", "-n", "k8s.io", "containers", "ls"]).succeeded().stdout;
        let row = |line: &str| {
            let mut words = line.split_whitespace();
            Some((words.next()?.to_owned(), words.next()?.to_owned()))
        };
        Self { before: list.lines().skip(1).filter_map(row).collect(), events }
    }

    pub fn mark(&self) -> Mark {
        Mark(self.events.lines().len())
    }

    /// Lives of containers whose image is called so, since the mark.
    pub fn since(&self, mark: Mark, image: &str) -> Lives {
        let mut images = self.before.clone();
        let mut lives = Lives::default();
        for (number, line) in self.events.lines().iter().enumerate() {
            let Some((topic, event)) = parse(line) else { continue };
            let field = |name: &str| event[name].as_str().unwrap_or_default().to_owned();
            let container = field("container_id");
            let is_meant = images.get(&container).is_some_and(|name| is_called(name, image));
            match topic {
                "/containers/create" => drop(images.insert(field("id"), field("image"))),
                "/tasks/start" if is_meant && number >= mark.0 => lives.started.push(container),
                // a probe's command ends under the container's name too, with an id of its own
                "/tasks/exit" if is_meant && number >= mark.0 && field("id") == container => {
                    lives.ended.push(container);
                }
                _ => {}
            }
        }
        lives
    }

    /// Whether containerd has told that the container ended.
    pub fn has_ended(&self, container: &str) -> bool {
        self.events.lines().iter().filter_map(|line| parse(line)).any(|(topic, event)| {
            topic == "/tasks/exit" && event["id"] == container && event["container_id"] == container
        })
    }
}

/// `2026-11-17 05:26:09.34 +0000 UTC k8s.io /tasks/start {"container_id":…}`
fn parse(line: &str) -> Option<(&str, Value)> {
    let brace = line.find('{')?;
    let topic = line[..brace].split_whitespace().next_back()?;
    Some((topic, serde_json::from_str(&line[brace..]).ok()?))
}

/// `registry.k8s.io/kube-scheduler:v1.36.4` is called `kube-scheduler`.
fn is_called(image: &str, name: &str) -> bool {
    image.rsplit('/').next().and_then(|last| last.split(':').next()) == Some(name)
}
