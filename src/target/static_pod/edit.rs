//! The edit of a static pod: our `--config`, our volume, our marks.
//!
//! `patch` puts them in, `unpatch` takes them out. An edit over an earlier one of ours is made on the text without it,
//! so the record of what to undo never piles up.

use yaml_edit::{Kind, Node, Op, Path, Segment, Tree, Value, path, write_scalar};

use super::conflicts::{no_leftovers, not_taken};
use super::is_applied::stands;
use super::pod::{self, Found, GENERATION, Manifest, REVISION, UNDO};
use super::refuse;
use super::restore;
use super::undo_record::{PROGRAM, Undo, pointer};
use crate::revision::Digest;
use crate::target::Wanted;
use crate::target::flags;
use crate::target::refusal::{Refusal, Rule};

/// Name of our volume and of its mount.
pub(super) const VOLUME: &str = "schedpatch-config";
/// Beginning of the names of further volumes.
pub(super) const MOUNT_VOLUME: &str = "schedpatch-mount-";
/// So that a crash tells its own words: kubeadm's default leaves the message empty.
pub(super) const TERMINATION_POLICY: &str = "FallbackToLogsOnError";

/// The security context of a container, and who it runs as.
const CONTEXT: &str = "securityContext";
const RUN_AS_USER: &str = "runAsUser";

/// As many hex digits as a UUID has.
const UID_DIGITS: usize = 32;

/// Our volumes: name, path and hostPath type. The first is the config's.
pub(super) fn volumes(wanted: &Wanted) -> Vec<(String, &str, &'static str)> {
    let config = (VOLUME.to_owned(), wanted.config_dir.as_str(), "Directory");
    let others = wanted.mounts.iter().enumerate().map(|(number, mount)| {
        (format!("{MOUNT_VOLUME}{number}"), mount.path.as_str(), if mount.is_dir { "Directory" } else { "File" })
    });
    std::iter::once(config).chain(others).collect()
}

/// An edit of a manifest that is not proven yet.
#[derive(Debug)]
pub struct Draft<'a>(pub(super) yaml_edit::Draft<'a>);

impl<'a> Draft<'a> {
    pub(super) fn new(tree: &Tree<'a>, ops: Vec<Op>) -> Result<Self, Refusal> {
        Ok(Self(yaml_edit::Draft::new(tree, ops)?))
    }

    /// The new text, if another YAML reader sees in it the old document plus exactly our change.
    pub fn prove(self) -> Result<String, Refusal> {
        Ok(self.0.prove()?)
    }
}

/// Drafts the edit of `text`; the draft gives its text only when proven.
pub fn patch<'a>(text: &'a str, wanted: &Wanted) -> Result<Draft<'a>, Refusal> {
    Manifest::read(text)?.patch(wanted)
}

impl<'a> Manifest<'a> {
    /// Drafts the edit; the draft gives its text only when proven.
    pub fn patch(&self, wanted: &Wanted) -> Result<Draft<'a>, Refusal> {
        let Self(tree) = self;
        if pod::ours(tree).is_none() {
            let ops = ops(tree, wanted)?;
            return Draft::new(tree, ops);
        }
        if stands(tree, wanted) {
            return Draft::new(tree, Vec::new());
        }
        let Draft(clean) = restore::draft(tree)?;
        let (after, ops) = {
            let tree = reread(clean.unproven(), tree)?;
            yaml_edit::Draft::new(&tree, ops(&tree, wanted)?)?.into_parts()
        };
        Ok(Draft(clean.then(after, ops)))
    }

    /// Drafts the text without our edit. A text that carries none comes back as it is.
    pub fn unpatch(&self) -> Result<Draft<'a>, Refusal> {
        let Self(tree) = self;
        if pod::ours(tree).is_none() {
            no_leftovers(tree, None)?;
            return Draft::new(tree, Vec::new());
        }
        let draft = restore::draft(tree)?;
        reread(draft.0.unproven(), tree)?;
        Ok(draft)
    }
}

/// Drafts the text without our edit. A text that carries none comes back as it is.
pub fn unpatch(text: &str) -> Result<Draft<'_>, Refusal> {
    Manifest::read(text)?.unpatch()
}

/// Reads the drafted text without our edit, and makes sure that nothing of ours is left in it. That it cannot be read
/// would be our fault, not the file's.
fn reread<'d>(draft: &'d str, before: &Tree<'_>) -> Result<Tree<'d>, Refusal> {
    let after = refuse::read_tree(draft).map_err(|refusal| {
        Refusal::new(Rule::Unproven, format!("taking out our edit gives a text that cannot be read ({refusal})"))
    })?;
    no_leftovers(&after, restore::record(before)?.config_dir())?;
    Ok(after)
}

/// Collects operations and, beside each, how to undo it.
struct Patch<'t, 'a> {
    tree: &'t Tree<'a>,
    ops: Vec<Op>,
    undo: Undo,
}

fn ops(tree: &Tree<'_>, wanted: &Wanted) -> Result<Vec<Op>, Refusal> {
    let found = pod::find(tree)?;
    not_taken(tree, &found, &volumes(wanted))?;
    no_placeholders(tree, &found)?;
    let container = ["spec", "containers", &found.name];
    let mut patch = Patch { tree, ops: Vec::new(), undo: Undo::new() };

    patch.flag(&found, "config", &wanted.config_path())?;
    if let Some(image) = &wanted.image {
        patch.scalar(&found.path, &container, "image", image)?;
    }
    if let Some(command) = &wanted.command {
        patch.program(&found, command)?;
    }
    if let Some(user) = wanted.run_as_user {
        patch.run_as_user(&found, &container, user)?;
    }
    for (name, value) in &wanted.args {
        patch.flag(&found, name, value)?;
    }
    let volumes = volumes(wanted);
    let mounts = volumes.iter().map(|(name, path, _)| {
        let mount = [("mountPath", Value::text(*path)), ("name", Value::text(name)), ("readOnly", Value::Bool(true))];
        (name.as_str(), Value::map(mount))
    });
    patch.named_items(&found.path, &container, "volumeMounts", mounts.collect())?;
    patch.scalar(&found.path, &container, "terminationMessagePolicy", TERMINATION_POLICY)?;

    let spec = path!["spec"];
    let items = volumes.iter().map(|(name, path, kind)| {
        let host_path = Value::map([("path", Value::text(*path)), ("type", Value::text(*kind))]);
        (name.as_str(), Value::map([("hostPath", host_path), ("name", Value::text(name))]))
    });
    patch.named_items(&spec, &["spec"], "volumes", items.collect())?;
    if let Some(policy) = &wanted.dns_policy {
        patch.scalar(&spec, &["spec"], "dnsPolicy", policy)?;
    }
    patch.metadata(wanted)?;
    Ok(patch.ops)
}

fn no_placeholders(tree: &Tree<'_>, found: &Found<'_, '_>) -> Result<(), Refusal> {
    if let Some(image) = found.container.get("image") {
        refuse::no_placeholder_image(tree, image)?;
    }
    pod::word_nodes(found.container).try_for_each(|word| refuse::no_placeholder(tree, word))
}

impl Patch<'_, '_> {
    /// Sets a flag of the scheduler: in place if it is there, else at the end of the list.
    fn flag(&mut self, found: &Found<'_, '_>, name: &str, value: &str) -> Result<(), Refusal> {
        if found.words[found.program..].contains(&"--") {
            return Err(Refusal::new(Rule::Shape, "the flags of kube-scheduler end with --, so none can be added"));
        }
        let flag = format!("--{name}");
        let child = |list: &str, index: Option<usize>| -> Path {
            let mut path = found.path.clone();
            path.push(Segment::Key(list.to_owned()));
            path.extend(index.map(Segment::Index));
            path
        };
        let Some(own) = flags::last(&found.flags, name) else {
            let list = found.flag_list();
            let at = pointer(&["spec", "containers", &found.name, list, &flag]);
            let word = format!("{flag}={value}");
            self.undo.placed.insert(at.clone(), word.clone());
            self.undo.created.push(at);
            let item = self.like_neighbours(found, list, word);
            self.ops.push(Op::Push { list: child(list, None), items: vec![item] });
            return Ok(());
        };
        let (list, index) = found.place(own.value_word);
        if own.value.is_none() && name == "config" {
            return Err(Refusal::new(Rule::Shape, format!("the flag {flag} has no value")));
        }
        let word = if own.word == own.value_word { format!("{flag}={value}") } else { value.to_owned() };
        let at = pointer(&["spec", "containers", &found.name, list, &flag]);
        self.set(child(list, Some(index)), at, &word)
    }

    /// Another program in the place of kube-scheduler's.
    fn program(&mut self, found: &Found<'_, '_>, command: &str) -> Result<(), Refusal> {
        if found.words.get(found.program) == Some(&command) {
            return Ok(());
        }
        if found.program > 0 {
            let message =
                format!("kube-scheduler is started through {:?}, so its program cannot be replaced", found.words[0]);
            return Err(Refusal::new(Rule::Shape, message));
        }
        let (list, index) = found.place(found.program);
        let mut path = found.path.clone();
        path.extend([Segment::Key(list.to_owned()), Segment::Index(index)]);
        self.set(path, pointer(&["spec", "containers", &found.name, list, PROGRAM]), command)
    }

    /// The user that the scheduler runs as.
    fn run_as_user(&mut self, found: &Found<'_, '_>, container: &[&str], user: u32) -> Result<(), Refusal> {
        let (mut context, mut path) = (found.path.clone(), found.path.clone());
        context.push(Segment::Key(CONTEXT.to_owned()));
        path.extend([Segment::Key(CONTEXT.to_owned()), Segment::Key(RUN_AS_USER.to_owned())]);
        let at = pointer(&[container, &[CONTEXT, RUN_AS_USER]].concat());
        if let Some(node) = self.tree.at(&path) {
            let is_there = node.text() == Some(&user.to_string());
            return if is_there { Ok(()) } else { self.set_bare(path, at, &user.to_string()) };
        }
        self.undo.placed.insert(at.clone(), user.to_string());
        self.undo.created.push(at);
        let of_context = pointer(&[container, &[CONTEXT]].concat());
        let there = self.collection(&context, &of_context, |node| matches!(node.kind, Kind::Map(_)))?;
        let entries = vec![(RUN_AS_USER.to_owned(), Value::Number(user))];
        self.ops.push(if there {
            Op::Add { map: context, entries }
        } else {
            Op::Add { map: found.path.clone(), entries: vec![(CONTEXT.to_owned(), Value::Map(entries))] }
        });
        Ok(())
    }

    /// A list of quoted words gets a quoted one more.
    fn like_neighbours(&self, found: &Found<'_, '_>, list: &str, word: String) -> Value {
        let items = found.container.get(list).map_or(&[][..], Node::items);
        let quoted = |item: &Node<'_>| self.tree.text[item.span.clone()].starts_with(['"', '\'']);
        if items.last().is_some_and(quoted) { Value::Quoted(word) } else { Value::Text(word) }
    }

    /// Sets a key to a string: nothing to do, another value, or a new key.
    fn scalar(&mut self, map: &Path, names: &[&str], key: &str, value: &str) -> Result<(), Refusal> {
        let mut path = map.clone();
        path.push(Segment::Key(key.to_owned()));
        let at = pointer(&[names, &[key]].concat());
        match self.tree.at(&path) {
            Some(node) if node.text() == Some(value) => Ok(()),
            Some(_) => self.set(path, at, value),
            None => {
                self.undo.placed.insert(at.clone(), value.to_owned());
                self.undo.created.push(at);
                self.ops.push(Op::Add { map: map.clone(), entries: vec![(key.to_owned(), Value::text(value))] });
                Ok(())
            }
        }
    }

    fn set(&mut self, path: Path, at: String, value: &str) -> Result<(), Refusal> {
        let style = match self.tree.at(&path).map(|node| &node.kind) {
            Some(Kind::Scalar { style, .. }) => *style,
            _ => return Ok(()),
        };
        self.set_text(path, at, value, write_scalar(value, style))
    }

    /// The same for a value that is no string.
    fn set_bare(&mut self, path: Path, at: String, value: &str) -> Result<(), Refusal> {
        self.set_text(path, at, value, value.to_owned())
    }

    fn set_text(&mut self, path: Path, at: String, value: &str, text: String) -> Result<(), Refusal> {
        let range = match self.tree.null(&path) {
            Some(null) => null,
            None => self.tree.one_line_scalar(&path)?,
        };
        self.undo.displaced.insert(at.clone(), self.tree.text[range].to_owned());
        self.undo.placed.insert(at, value.to_owned());
        self.ops.push(Op::Set { at: path, text });
        Ok(())
    }

    /// Adds items that have names of ours to a list, which is made where it is missing.
    fn named_items(&mut self, map: &Path, names: &[&str], key: &str, items: Vec<(&str, Value)>) -> Result<(), Refusal> {
        let mut list = map.clone();
        list.push(Segment::Key(key.to_owned()));
        let at = pointer(&[names, &[key]].concat());
        self.undo.created.extend(items.iter().map(|(name, _)| pointer(&[names, &[key, name]].concat())));
        let there = self.collection(&list, &at, |node| matches!(node.kind, Kind::List(_)))?;
        let items = items.into_iter().map(|(_, item)| item).collect();
        self.ops.push(if there {
            Op::Push { list, items }
        } else {
            Op::Add { map: map.clone(), entries: vec![(key.to_owned(), Value::List(items))] }
        });
        Ok(())
    }

    /// Notes how a collection stood before: there, null in some spelling, or missing. Says whether its key is there.
    fn collection(&mut self, path: &Path, at: &str, fits: fn(&Node<'_>) -> bool) -> Result<bool, Refusal> {
        let Some(node) = self.tree.at(path) else {
            self.undo.created.push(at.to_owned());
            return Ok(false);
        };
        if let Some(null) = self.tree.null(path) {
            self.undo.displaced.insert(at.to_owned(), self.tree.text[null].to_owned());
        } else if !fits(node) && !node.decorated {
            let line = self.tree.line(node.span.start);
            return Err(Refusal::at_line(
                Rule::MalformedPod,
                line,
                format!("{} is of the wrong type", at[1..].replace('/', ".")),
            ));
        }
        Ok(true)
    }

    /// The uid, where the manifest fixes one, and our annotations, which carry the record of all the rest.
    fn metadata(&mut self, wanted: &Wanted) -> Result<(), Refusal> {
        let metadata = path!["metadata"];
        let uid = self.tree.root.get("metadata").and_then(|metadata| metadata.get("uid"));
        if let Some(uid) = uid.filter(|uid| !uid.is_null()).and_then(Node::text).filter(|uid| !uid.is_empty()) {
            let ours = new_uid(uid, &wanted.revision, wanted.generation);
            self.scalar(&metadata, &["metadata"], "uid", &ours)?;
        }
        let annotations = path!["metadata", "annotations"];
        let there = self.collection(&annotations, "/metadata/annotations", |node| matches!(node.kind, Kind::Map(_)))?;
        let entries = vec![
            (REVISION.to_owned(), Value::Quoted(wanted.revision.clone())),
            (GENERATION.to_owned(), Value::Quoted(wanted.generation.to_string())),
            (UNDO.to_owned(), Value::Quoted(self.undo.to_line())),
        ];
        self.ops.push(if there {
            Op::Add { map: annotations, entries }
        } else {
            Op::Add { map: metadata, entries: vec![("annotations".to_owned(), Value::Map(entries))] }
        });
        Ok(())
    }
}

/// Another uid for every commit: with a fixed one the kubelet does not see that anything changed.
pub(super) fn new_uid(old: &str, revision: &str, generation: u64) -> String {
    let generation = generation.to_string();
    let parts = [old, revision, &generation].map(str::as_bytes);
    let mut uid = Digest::of_parts(parts).to_string();
    uid.truncate(UID_DIGITS);
    uid
}
