//! Law 5, checked from outside: at every instant the manifest is there, complete, and the old text or the new one; every
//! file that it refers to is there and complete; nothing stray is in its directory.
//!
//! Shares no code with the program: it knows only the files, YAML, JSON and SHA-256.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};

/// Names of preflights begin with this.
const PREFLIGHT: &str = "schedpatch-preflight-";

/// Where things are on the host.
#[derive(Clone, Debug)]
pub struct Places {
    pub manifests: &'static str,
    pub target: &'static str,
    pub state: &'static str,
}

/// What may be seen while an operation runs, and what must be seen when it is done.
#[derive(Clone, Debug)]
pub struct Expectation {
    places: Places,
    /// Files of the manifest directory before: content, mode, user, group
    start: BTreeMap<String, (Vec<u8>, u32, u32, u32)>,
    /// The target's text before and after, without what differs from commit to commit
    texts: [String; 2],
    /// Configuration files by their path on the host, as a run without faults leaves them
    configs: BTreeMap<String, Vec<u8>>,
    /// Our directory when all is done: path, mode
    state: BTreeMap<String, u32>,
    kind: Kind,
    /// Whether the file of a preflight may be seen meanwhile
    may_try: bool,
}

/// What the journal must say of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Applies,
    /// What stands is the last good when all is done
    Proves,
    /// A hold must be there as soon as ours is out
    Holds,
    /// A preflight's file may be there, and must be gone when all is done
    Tries,
}

impl Expectation {
    /// From the host before the operation and after a run of it without faults.
    pub fn new(places: Places, before: &Path, after: &Path, kind: Kind) -> Self {
        let mut start = listing(&before.join(places.manifests.trim_start_matches('/')));
        let found = start.len();
        start.retain(|name, _| !name.starts_with(PREFLIGHT));
        let may_try = kind == Kind::Tries || start.len() < found;
        let text =
            |root: &Path| normalised(&read(&root.join(places.manifests.trim_start_matches('/')).join(places.target)));
        let mut configs = revision_files(before, places.state);
        configs.extend(revision_files(after, places.state));
        let texts = [text(before), text(after)];
        Self { start, texts, configs, state: tree(after, places.state), kind, may_try, places }
    }

    fn dir(&self, root: &Path) -> PathBuf {
        root.join(self.places.manifests.trim_start_matches('/'))
    }

    fn state_dir(&self, root: &Path) -> PathBuf {
        root.join(self.places.state.trim_start_matches('/'))
    }

    /// What must hold at every instant.
    pub fn check_instant(&self, root: &Path) -> Result<(), String> {
        let now = listing(&self.dir(root));
        for name in now.keys().filter(|name| !name.starts_with('.')) {
            if self.may_try && name.starts_with(PREFLIGHT) {
                // it is JSON, which is YAML too
                self.check_references(root, &now[name].0).map_err(|why| format!("{name}: {why}"))?;
                let (mode, is_whole) = (now[name].1, now[name].0.ends_with(b"}\n"));
                if mode != 0o600 || !is_whole {
                    return Err(format!("{name} has mode {mode:o}, or is not whole"));
                }
            } else if !self.start.contains_key(name) {
                return Err(format!("a stray file that the kubelet would read: {name}"));
            }
        }
        for (name, before) in &self.start {
            let after = now.get(name).ok_or_else(|| format!("{name} is missing"))?;
            if name != self.places.target && before != after {
                return Err(format!("{name} was changed"));
            }
            if (before.1, before.2, before.3) != (after.1, after.2, after.3) {
                return Err(format!("{name} has another mode or owner: {before:?} {:?}", (after.1, after.2, after.3)));
            }
        }
        let bytes = &now[self.places.target].0;
        let text = normalised(bytes);
        if !self.texts.contains(&text) {
            return Err(format!("the manifest is neither the old text nor the new one: {}", self.difference(&text)));
        }
        self.check_references(root, bytes)?;
        self.check_journal(root, bytes)
    }

    /// Every file of ours that the manifest names is there, and is what its revision says.
    fn check_references(&self, root: &Path, manifest: &[u8]) -> Result<(), String> {
        let pod: serde_yaml::Value = serde_yaml::from_slice(manifest).map_err(|error| format!("no YAML: {error}"))?;
        let volumes = pod["spec"]["volumes"].as_sequence().cloned().unwrap_or_default();
        for path in volumes.iter().filter_map(|volume| volume["hostPath"]["path"].as_str()) {
            if path.starts_with(self.places.state) && !root.join(path.trim_start_matches('/')).is_dir() {
                return Err(format!("the manifest mounts {path}, which is not there"));
            }
        }
        for word in words(&pod) {
            let Some(path) = word.strip_prefix("--config=").filter(|path| path.starts_with(self.places.state)) else {
                continue;
            };
            let there =
                fs::read(root.join(path.trim_start_matches('/'))).map_err(|error| format!("{path}: {error}"))?;
            if self.configs.get(path) != Some(&there) {
                return Err(format!("{path} is not what it should be ({} bytes)", there.len()));
            }
            let dir = Path::new(path).parent().expect("it is in a directory").display().to_string();
            for (beside, content) in self.configs.iter().filter(|(beside, _)| beside.starts_with(&dir)) {
                if fs::read(root.join(beside.trim_start_matches('/'))).ok().as_ref() != Some(content) {
                    return Err(format!("{beside} beside the configuration is missing or wrong"));
                }
            }
        }
        Ok(())
    }

    /// The journal can be read, knows what is in the target, and every text that leads back is there.
    fn check_journal(&self, root: &Path, manifest: &[u8]) -> Result<(), String> {
        let dir = self.state_dir(root);
        let is_ours = String::from_utf8_lossy(manifest).contains("schedpatch.io/generation");
        let journal = match fs::read(dir.join("state.json")) {
            Ok(bytes) => {
                serde_json::from_slice::<serde_json::Value>(&bytes).map_err(|error| format!("state.json: {error}"))?
            }
            Err(_) if is_ours => return Err("the manifest is ours, and there is no journal".to_owned()),
            Err(_) => return Ok(()),
        };
        let flight = &journal["inFlight"];
        for digest in [&journal["original"], &journal["lastGood"]["text"], &flight["original"]] {
            let Some(name) = digest.as_str() else { continue };
            let text = fs::read(dir.join("texts").join(name))
                .map_err(|error| format!("the journal names the text {name}: {error}"))?;
            if hex(&text) != name {
                return Err(format!("the text {name} is not what its name says"));
            }
        }
        let own = hex(manifest);
        let as_before = self.start[self.places.target].0 == manifest;
        if is_ours && !as_before && journal["current"]["text"] != own && flight["to"] != own {
            return Err("the manifest is ours, and the journal does not know it".to_owned());
        }
        if self.kind == Kind::Holds
            && normalised(manifest) == self.texts[1]
            && self.texts[0] != self.texts[1]
            && journal["hold"].is_null()
        {
            return Err("ours is taken out, and no hold keeps it out".to_owned());
        }
        Ok(())
    }

    /// What must hold when the operation is done, and done again if need be.
    pub fn check_settled(&self, root: &Path) -> Result<(), String> {
        self.check_instant(root)?;
        let text = normalised(&read(&self.dir(root).join(self.places.target)));
        if text != self.texts[1] {
            return Err(format!("the manifest is not the new text: {}", self.difference(&text)));
        }
        let hidden: Vec<_> = listing(&self.dir(root)).into_keys().filter(|name| name.starts_with('.')).collect();
        if !hidden.is_empty() {
            return Err(format!("left over in the manifest directory: {hidden:?}"));
        }
        self.check_no_preflight(root)?;
        let now = tree(root, self.places.state);
        if now != self.state {
            return Err(format!("our directory is not as it should be:\n{now:#?}\ninstead of\n{:#?}", self.state));
        }
        if let Ok(bytes) = fs::read(self.state_dir(root).join("state.json")) {
            let journal: serde_json::Value = serde_json::from_slice(&bytes).expect("checked above");
            if !journal["inFlight"].is_null() {
                return Err("work is still in flight".to_owned());
            }
        }
        self.check_proof(root)
    }

    /// What must hold once the operation has said that it is done, even if the power goes.
    pub fn check_durable(&self, root: &Path) -> Result<(), String> {
        if normalised(&read(&self.dir(root).join(self.places.target))) != self.texts[1] {
            return Err("it was called done, and is undone".to_owned());
        }
        self.check_no_preflight(root)?;
        self.check_proof(root)
    }

    /// No file of a preflight is left, and each that was begun has its number.
    pub fn check_no_preflight(&self, root: &Path) -> Result<(), String> {
        if let Some(name) = listing(&self.dir(root)).into_keys().find(|name| name.contains(PREFLIGHT)) {
            return Err(format!("{name} is left in the manifest directory"));
        }
        Ok(())
    }

    fn check_proof(&self, root: &Path) -> Result<(), String> {
        if self.kind == Kind::Tries {
            let journal = read(&self.state_dir(root).join("state.json"));
            let journal: serde_json::Value = serde_json::from_slice(&journal).map_err(|error| error.to_string())?;
            let attempts = journal["preflights"]["attempts"].as_u64().unwrap_or_default();
            return if attempts > 0 { Ok(()) } else { Err("the preflight has no number".to_owned()) };
        }
        if self.kind != Kind::Proves {
            return Ok(());
        }
        let journal = read(&self.state_dir(root).join("state.json"));
        let journal: serde_json::Value = serde_json::from_slice(&journal).map_err(|error| error.to_string())?;
        let stands = hex(&read(&self.dir(root).join(self.places.target)));
        if journal["lastGood"]["text"] == stands { Ok(()) } else { Err("what stands is not the last good".to_owned()) }
    }

    /// Who waits for the lock must be able to say for whom.
    pub fn check_lock(&self, root: &Path, command: &str) -> Result<(), String> {
        match fs::read_to_string(self.state_dir(root).join("lock")) {
            Ok(line) if !line.contains(command) => Err(format!("the lock says {line:?} and not {command}")),
            _ => Ok(()),
        }
    }

    fn difference(&self, text: &str) -> String {
        let lines = text.lines().zip(self.texts[1].lines()).find(|(now, wanted)| now != wanted);
        lines.map_or_else(
            || format!("{} lines", text.lines().count()),
            |(now, wanted)| format!("{now}\ninstead of\n{wanted}"),
        )
    }
}

fn words(pod: &serde_yaml::Value) -> Vec<String> {
    let containers = pod["spec"]["containers"].as_sequence().cloned().unwrap_or_default();
    let lists = containers.iter().flat_map(|container| [container["command"].clone(), container["args"].clone()]);
    let lists = lists.filter_map(|list| list.as_sequence().cloned());
    lists.flatten().filter_map(|word| word.as_str().map(str::to_owned)).collect()
}

/// The text without what differs from commit to commit: the generation, and a uid that is made from it.
pub fn normalised(bytes: &[u8]) -> String {
    let text = String::from_utf8_lossy(bytes);
    let mut out = String::new();
    for line in text.split_inclusive('\n') {
        let end = if line.ends_with('\n') { "\n" } else { "" };
        if line.trim_start().starts_with("schedpatch.io/generation:") {
            out += "    schedpatch.io/generation: N";
            out += end;
        } else if line.starts_with("  uid: ") && text.contains("schedpatch.io/generation") {
            out += "  uid: U";
            out += end;
        } else if line.trim_start().starts_with("schedpatch.io/undo:") {
            const UID: &str = "/metadata/uid\":\"";
            match line.rsplit_once(UID) {
                Some((head, tail)) => {
                    out.extend([head, UID, "U", tail.trim_start_matches(|c: char| c.is_ascii_hexdigit())]);
                }
                None => out += line,
            }
        } else {
            out += line;
        }
    }
    out
}

fn listing(dir: &Path) -> BTreeMap<String, (Vec<u8>, u32, u32, u32)> {
    let entries = fs::read_dir(dir).unwrap_or_else(|error| panic!("{}: {error}", dir.display()));
    let file = |entry: fs::DirEntry| {
        let metadata = fs::symlink_metadata(entry.path()).expect("it is there");
        let look = (read(&entry.path()), metadata.mode() & 0o7777, metadata.uid(), metadata.gid());
        (entry.file_name().to_string_lossy().into_owned(), look)
    };
    entries.map(|entry| file(entry.expect("readable"))).collect()
}

/// Everything below our directory: path without names that differ from run to run, and mode.
fn tree(root: &Path, state: &str) -> BTreeMap<String, u32> {
    fn walk(dir: &Path, shown: &str, out: &mut BTreeMap<String, u32>) {
        let Ok(entries) = fs::read_dir(dir) else { return };
        let names: BTreeSet<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
        for (number, path) in names.iter().enumerate() {
            let name = path.file_name().expect("a name").to_string_lossy();
            // the digest of a text depends on the generation in it
            let name = if shown == "/texts" && name.len() == 64 { format!("text {number}") } else { name.into_owned() };
            let metadata = fs::symlink_metadata(path).expect("it is there");
            out.insert(format!("{shown}/{name}"), metadata.mode() & 0o7777);
            if metadata.is_dir() {
                walk(path, &format!("{shown}/{name}"), out);
            }
        }
    }
    let mut out = BTreeMap::new();
    let dir = root.join(state.trim_start_matches('/'));
    if let Ok(metadata) = fs::metadata(&dir) {
        out.insert("/".to_owned(), metadata.mode() & 0o7777);
    }
    walk(&dir, "", &mut out);
    out
}

fn revision_files(root: &Path, state: &str) -> BTreeMap<String, Vec<u8>> {
    let mut files = BTreeMap::new();
    let Ok(revisions) = fs::read_dir(root.join(state.trim_start_matches('/')).join("revisions")) else { return files };
    for revision in revisions {
        let revision = revision.expect("readable");
        for file in fs::read_dir(revision.path()).expect("readable") {
            let file = file.expect("readable");
            let name = format!("{state}/revisions/{}/{}", revision.file_name().display(), file.file_name().display());
            files.insert(name, read(&file.path()));
        }
    }
    files
}

fn read(path: &Path) -> Vec<u8> {
    fs::read(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    Sha256::digest(bytes).iter().fold(String::new(), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a string takes it");
        hex
    })
}
