//! Counts the schedulers that are in change, from the first test to the last: from the rename of a manifest until a scheduler
//! that carries just that text is ready. Ten times a second by the nodes' own files, and by a watch of the mirror pods.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::cluster::{Background, Cluster};
use crate::control_plane::MANIFEST;

const INTERVAL: Duration = Duration::from_millis(100);
/// A watch that ends is begun again.
const WATCH: &str =
    r#"while :; do kubectl -n kube-system get pods -l component=kube-scheduler --watch -o "$1"; sleep 0.2; done"#;
const SHOWN: &str = concat!(
    r"jsonpath={.spec.nodeName}|{.metadata.annotations.schedpatch\.io/revision}|",
    r"{.metadata.annotations.schedpatch\.io/generation}|{.status.containerStatuses[0].ready}|",
    r#"{.status.containerStatuses[0].containerID}{"\n"}"#
);

/// One change of a scheduler, as it was seen.
#[derive(Clone, Debug)]
pub struct Change {
    pub node: String,
    /// When the manifest was renamed
    pub began: Instant,
    /// When its scheduler was ready
    pub ready: Option<Instant>,
}

/// What was counted.
#[derive(Clone, Debug, Default)]
pub struct Counted {
    pub samples: usize,
    pub most: usize,
    /// How many are in change now
    pub now: usize,
    /// Times at which more than one was in change, in words
    pub violations: Vec<String>,
    pub changes: Vec<Change>,
}

pub struct Sampler {
    counted: Arc<Mutex<Counted>>,
    is_over: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// A scheduler by revision and generation, both empty for the original.
type Text = (String, String);

/// What the sampler knows of a node.
#[derive(Default)]
struct Known {
    text: Option<Vec<u8>>,
    /// The container that ran when the text was still settled
    container: String,
    changing: bool,
    /// Whether the node was lost in the middle of a change
    was_changing: bool,
}

impl Sampler {
    /// Begins; the mirror pods are watched through cp1, which stays.
    pub fn begin(cluster: &Cluster) -> Self {
        let watch = cluster.node("cp1").start(&["sh", "-c", WATCH, "sh", SHOWN]);
        let manifests: Vec<(String, PathBuf)> =
            ["cp1", "cp2", "cp3", "cp4", "cp5"].map(|name| (name.to_owned(), cluster.node(name).path(MANIFEST))).into();
        let (counted, is_over) = (Arc::new(Mutex::new(Counted::default())), Arc::new(AtomicBool::new(false)));
        let (shared, ends) = (Arc::clone(&counted), Arc::clone(&is_over));
        let thread = std::thread::spawn(move || {
            let began = Instant::now();
            let mut known: BTreeMap<String, Known> = BTreeMap::new();
            while !ends.load(Ordering::SeqCst) {
                let pods = pods(&watch);
                for (name, path) in &manifests {
                    look(name, fs::read(path).ok(), pods.get(name), known.entry(name.clone()).or_default(), &shared);
                }
                let changing: Vec<&str> =
                    known.iter().filter(|(_, known)| known.changing).map(|(name, _)| name.as_str()).collect();
                let mut counted = shared.lock().expect("not poisoned");
                counted.samples += 1;
                counted.most = counted.most.max(changing.len());
                counted.now = changing.len();
                if changing.len() > 1 {
                    counted.violations.push(format!("{:.1} s: {changing:?}", began.elapsed().as_secs_f64()));
                }
                drop(counted);
                std::thread::sleep(INTERVAL);
            }
        });
        Self { counted, is_over, thread: Some(thread) }
    }

    pub fn counted(&self) -> Counted {
        self.counted.lock().expect("not poisoned").clone()
    }

    /// Changes that were begun since.
    pub fn changes_since(&self, since: Instant) -> Vec<Change> {
        self.counted().changes.into_iter().filter(|change| change.began >= since).collect()
    }
}

impl Drop for Sampler {
    fn drop(&mut self) {
        self.is_over.store(true, Ordering::SeqCst);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// The last word about each node's scheduler: what it carries, whether it is ready, and its container.
fn pods(watch: &Background) -> BTreeMap<String, (Text, bool, String)> {
    let lines = watch.lines();
    let of_line = |line: &String| {
        let words: Vec<&str> = line.split('|').collect();
        let [node, revision, generation, ready, container] = words[..] else { return None };
        let text = (revision.to_owned(), generation.to_owned());
        Some((node.to_owned(), (text, ready == "true", container.to_owned())))
    };
    lines.iter().filter_map(of_line).collect()
}

/// One look at a node. A lost node has no files, and no scheduler in change; once it is back, it goes on where it was.
fn look(
    name: &str,
    text: Option<Vec<u8>>,
    pod: Option<&(Text, bool, String)>,
    known: &mut Known,
    counted: &Mutex<Counted>,
) {
    let Some(text) = text else {
        known.was_changing |= std::mem::take(&mut known.changing);
        known.text = None;
        return;
    };
    let is_settled = |known: &Known| {
        pod.is_some_and(|(carried, ready, container)| {
            *ready && *carried == carried_by(&text) && *container != known.container
        })
    };
    match &known.text {
        // a node that is new to the sampler, or is back
        None => {
            known.text = Some(text.clone());
            known.changing = std::mem::take(&mut known.was_changing);
        }
        // what carries the same, the kubelet need not restart
        Some(before) if carried_by(before) == carried_by(&text) => {}
        Some(_) => {
            if !known.changing {
                let change = Change { node: name.to_owned(), began: Instant::now(), ready: None };
                counted.lock().expect("not poisoned").changes.push(change);
            }
            (known.changing, known.text) = (true, Some(text.clone()));
        }
    }
    if known.changing && is_settled(known) {
        known.changing = false;
        let mut counted = counted.lock().expect("not poisoned");
        if let Some(change) = counted.changes.iter_mut().rfind(|change| change.node == name) {
            change.ready = Some(Instant::now());
        }
    }
    if let (false, Some((_, _, container))) = (known.changing, pod) {
        known.container.clone_from(container);
    }
}

/// What a manifest says that it carries.
fn carried_by(text: &[u8]) -> Text {
    let text = String::from_utf8_lossy(text);
    let value = |key: &str| {
        let line = text.lines().find_map(|line| line.trim().strip_prefix(key)?.strip_prefix(':'));
        line.map(|value| value.trim().trim_matches(['"', '\'']).to_owned()).unwrap_or_default()
    };
    (value("schedpatch.io/revision"), value("schedpatch.io/generation"))
}
