//! A static pod that runs kube-scheduler, as its manifest tells it.

use yaml_edit::{Kind, Node, Path, Tree, path};

use super::program::{self, Program};
use super::undo_record::{PROGRAM, Undo};
use super::{malformed, mounts, refuse, run_as};
use crate::target::flags::{self, Flag};
use crate::target::refusal::{Refusal, Rule};
use crate::target::{Identity, Ours, SchedulerSpec};

/// Annotations that we write.
pub(crate) const REVISION: &str = "schedpatch.io/revision";
pub(crate) const GENERATION: &str = "schedpatch.io/generation";
pub(super) const UNDO: &str = "schedpatch.io/undo";
/// The revision that failed here, in the text that came back after it: other nodes learn it from the mirror pod.
pub(crate) const ROLLED_BACK_FROM: &str = "schedpatch.io/rolled-back-from";

/// The scheduler's container within the tree.
pub(super) struct Found<'t, 'a> {
    pub container: &'t Node<'a>,
    pub path: Path,
    pub name: String,
    /// Number of the word that names kube-scheduler.
    pub program: usize,
    /// Words of `command`; those of `args` follow in `words`.
    pub commands: usize,
    pub words: Vec<&'t str>,
    pub flags: Vec<Flag>,
}

impl Found<'_, '_> {
    /// The list and the index of a word in it.
    pub fn place(&self, word: usize) -> (&'static str, usize) {
        if word < self.commands { ("command", word) } else { ("args", word - self.commands) }
    }

    /// The flags, each with its line.
    fn flags_with_lines(&self, tree: &Tree<'_>) -> Vec<Flag> {
        let line = |word| {
            let (list, index) = self.place(word);
            let item = self.container.get(list).and_then(|list| list.items().get(index));
            item.map(|item| tree.line(item.span.start))
        };
        self.flags.iter().map(|flag| Flag { line: line(flag.word), ..flag.clone() }).collect()
    }

    /// The list to which flags are added: the one that is read last.
    pub fn flag_list(&self) -> &'static str {
        if self.words.len() > self.commands { "args" } else { "command" }
    }
}

/// Finds the one container that runs kube-scheduler.
pub(super) fn find<'t, 'a>(tree: &'t Tree<'a>) -> Result<Found<'t, 'a>, Refusal> {
    let root = &tree.root;
    if root.get("kind").and_then(Node::text) != Some("Pod") || root.get("apiVersion").and_then(Node::text) != Some("v1")
    {
        return Err(Refusal::at_line(Rule::NotAPod, 1, "the document is no v1 Pod"));
    }
    if pod_name(tree).is_none() {
        return Err(Refusal::at_line(Rule::MalformedPod, 1, "the pod has no metadata.name"));
    }
    let spec = root.get("spec");
    if let Some(refusal) = spec.and_then(|spec| malformed::no_containers(tree, spec)) {
        return Err(refusal);
    }
    let containers = spec.and_then(|spec| spec.get("containers")).map_or(&[][..], Node::items);
    let mut found: Option<Found<'t, 'a>> = None;
    let mut wrapped = None;
    let placed = placed_program(tree);
    for (index, container) in containers.iter().enumerate() {
        let Some((words, commands)) = words(container) else { continue };
        let is_placed = placed.as_ref().is_some_and(|(name, word)| {
            text_of(container, "name") == name.as_str() && words.first().copied() == Some(word.as_str())
        });
        match if is_placed { Program::At(0) } else { program::find(&words) } {
            Program::At(_) if found.is_some() => {
                let message = "a second container runs kube-scheduler";
                return Err(at_node(tree, container, Rule::SeveralSchedulers, message));
            }
            Program::At(program) => {
                let flags = flags::read(&words[program + 1..], program + 1);
                let path = path!["spec", "containers", index];
                let name = text_of(container, "name").to_owned();
                found = Some(Found { container, path, name, program, commands, words, flags });
            }
            Program::Behind(by) => wrapped = Some((word_nodes(container).next().unwrap_or(container), by)),
            Program::Absent => {}
        }
    }
    match (found, wrapped) {
        (Some(found), _) => checked(tree, found, containers),
        (None, Some((word, by))) => {
            let message = format!("kube-scheduler is started through {by:?}, which may change its flags");
            Err(at_node(tree, word, Rule::Wrapper, &message))
        }
        (None, None) => Err(no_scheduler(tree, containers)),
    }
}

/// The program that an edit of ours put in the place of kube-scheduler's, by the name of its container.
fn placed_program(tree: &Tree<'_>) -> Option<(String, String)> {
    let line = annotation(tree, UNDO).and_then(Node::text).filter(|line| line.contains(PROGRAM))?;
    let undo = Undo::from_line(line).ok()?;
    undo.program().map(|(container, word)| (container, word.to_owned()))
}

/// Refuses a container of the scheduler that could not be named, or whose words could not be read.
fn checked<'t, 'a>(tree: &Tree<'_>, found: Found<'t, 'a>, all: &[Node<'_>]) -> Result<Found<'t, 'a>, Refusal> {
    if found.name.is_empty() {
        return Err(at_node(tree, found.container, Rule::MalformedPod, "the container has no name"));
    }
    if all.iter().filter(|other| text_of(other, "name") == found.name).count() > 1 {
        let message = format!("two containers are named {:?}", found.name);
        return Err(at_node(tree, found.container, Rule::MalformedPod, &message));
    }
    match word_nodes(found.container).find(|word| matches!(word.kind, Kind::Alias)) {
        Some(alias) => Err(at_node(tree, alias, Rule::Anchor, "a word of the scheduler's command is an alias")),
        None => Ok(found),
    }
}

/// The items of `command` and `args`.
pub(super) fn word_nodes<'t, 'a>(container: &'t Node<'a>) -> impl Iterator<Item = &'t Node<'a>> {
    ["command", "args"].into_iter().filter_map(|list| container.get(list)).flat_map(Node::items)
}

/// A field of a mapping that is text; empty if it is not.
pub(super) fn text_of<'t>(node: &'t Node<'_>, key: &str) -> &'t str {
    node.get(key).and_then(Node::text).unwrap_or_default()
}

fn no_scheduler(tree: &Tree<'_>, containers: &[Node<'_>]) -> Refusal {
    let silent = containers.iter().find(|container| {
        let (image, name) = (text_of(container, "image"), text_of(container, "name"));
        let silent = words(container)
            .is_some_and(|(words, commands)| commands == 0 && words.first().is_none_or(|word| word.starts_with('-')));
        silent && (image.contains("kube-scheduler") || name == "kube-scheduler")
    });
    match silent {
        Some(container) => at_node(
            tree,
            container,
            Rule::NoCommand,
            "the container has no command, so it is unknown what its image runs",
        ),
        None => Refusal::new(Rule::NoScheduler, "no container runs kube-scheduler"),
    }
}

pub(super) fn at_node(tree: &Tree<'_>, node: &Node<'_>, rule: Rule, message: &str) -> Refusal {
    Refusal::at_line(rule, tree.line(node.span.start), message)
}

/// The words of `command` and `args`, and how many are of `command`; `None` if one of them is not written in place.
fn words<'t>(container: &'t Node<'_>) -> Option<(Vec<&'t str>, usize)> {
    let list = |key: &str| -> Option<Vec<&'t str>> {
        match container.get(key) {
            None => Some(Vec::new()),
            Some(node) if node.is_null() => Some(Vec::new()),
            Some(node) => match &node.kind {
                Kind::List(items) => items.iter().map(word).collect(),
                _ => None,
            },
        }
    };
    let mut words = list("command")?;
    let commands = words.len();
    words.extend(list("args")?);
    Some((words, commands))
}

/// An item as a word; an alias is refused once the container is known to be the scheduler's.
fn word<'t>(item: &'t Node<'_>) -> Option<&'t str> {
    if matches!(item.kind, Kind::Alias) { Some("*") } else { item.text() }
}

fn pod_name<'t>(tree: &'t Tree<'_>) -> Option<&'t str> {
    tree.root.get("metadata")?.get("name")?.text().filter(|name| !name.is_empty())
}

/// Namespace and name of the pod in a text, whether we could edit it or not; `None` if it is no pod.
pub fn identity(text: &str) -> Option<Identity> {
    let tree = Tree::glance(text)?;
    if tree.root.get("kind").and_then(Node::text) != Some("Pod") {
        return None;
    }
    let metadata = tree.root.get("metadata")?;
    let field = |key: &str| metadata.get(key).and_then(Node::text).map(str::to_owned);
    let namespace = field("namespace").unwrap_or_else(|| "default".to_owned());
    Some(Identity { namespace, name: field("name")?, container: String::new() })
}

/// One of our annotations.
pub(super) fn annotation<'t>(tree: &'t Tree<'_>, key: &str) -> Option<&'t Node<'t>> {
    tree.root.get("metadata")?.get("annotations")?.get(key)
}

/// Our marks, if any of them is there.
pub(super) fn ours(tree: &Tree<'_>) -> Option<Ours> {
    let text = |key| annotation(tree, key).and_then(Node::text);
    if [REVISION, GENERATION, UNDO].into_iter().all(|key| text(key).is_none()) {
        return None;
    }
    let generation = text(GENERATION).and_then(|generation| generation.parse().ok()).unwrap_or(0);
    Some(Ours { revision: text(REVISION).unwrap_or_default().to_owned(), generation })
}

/// A manifest that was read, to be asked and edited without reading it again.
#[derive(Debug)]
pub struct Manifest<'a>(pub(super) Tree<'a>);

impl<'a> Manifest<'a> {
    /// Reads and checks a manifest.
    pub fn read(text: &'a str) -> Result<Self, Refusal> {
        refuse::read_tree(text).map(Self)
    }

    /// What it says about its scheduler, or why it cannot be edited.
    pub fn pod(&self) -> Result<SchedulerSpec, Refusal> {
        pod_of(&self.0)
    }
}

/// Reads what a manifest says about its scheduler, or why it cannot be edited.
pub fn read(text: &str) -> Result<SchedulerSpec, Refusal> {
    Manifest::read(text)?.pod()
}

fn pod_of(tree: &Tree<'_>) -> Result<SchedulerSpec, Refusal> {
    let found = find(tree)?;
    malformed::volumes_have_names(tree)?;
    let metadata = tree.root.get("metadata");
    let spec = |key: &str| tree.root.get("spec").and_then(|spec| spec.get(key)).and_then(Node::text).map(str::to_owned);
    let image = found.container.get("image");
    if let Some(node) = image {
        refuse::no_placeholder_image(tree, node)?;
    }
    Ok(SchedulerSpec {
        identity: Identity {
            name: pod_name(tree).unwrap_or_default().to_owned(),
            namespace: metadata.and_then(|m| m.get("namespace")).and_then(Node::text).unwrap_or("default").to_owned(),
            container: found.name.clone(),
        },
        has_readiness_probe: found.container.get("readinessProbe").is_some_and(|probe| !probe.is_null()),
        probe_paths: probe_paths(found.container),
        image: image.and_then(Node::text).unwrap_or_default().to_owned(),
        image_line: image.map(|node| tree.line(node.span.start)),
        flags: found.flags_with_lines(tree),
        mounts: mounts::read(tree, found.container),
        run_as: run_as::read(tree, found.container),
        host_network: spec("hostNetwork").as_deref() == Some("true"),
        dns_policy: spec("dnsPolicy"),
        service: None,
        ours: ours(tree),
    })
}

/// The paths that the probes of a container ask over HTTP.
fn probe_paths(container: &Node<'_>) -> Vec<String> {
    let probes = ["startupProbe", "livenessProbe", "readinessProbe"];
    let path = |probe| container.get(probe)?.get("httpGet")?.get("path")?.text();
    let mut paths: Vec<String> = probes.into_iter().filter_map(path).map(str::to_owned).collect();
    paths.sort();
    paths.dedup();
    paths
}
