//! What may be on the disk when the power goes: a model of a file system that promises no more than POSIX does.
//!
//! A file's content is on the disk once the file is synced; before, it may be there, missing, or cut in half. A name is on
//! the disk once its directory is synced; before, every subset of the changes to a directory may be there. Real journalling
//! file systems promise more, so what survives here survives there.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;

use super::faulty_fs::Call;
use super::rng::Rng;
use super::{Effort, effort};

/// So many unsynced changes of names are tried in all combinations; of more, as many random ones.
fn exhaustive() -> usize {
    match effort() {
        Effort::Short => 6,
        Effort::Ci => 9,
        Effort::All => 12,
    }
}

/// Paths on the host with content and mode; directories have no content.
pub type Image = BTreeMap<String, (Option<Vec<u8>>, u32)>;

#[derive(Clone, Debug, Default)]
struct File {
    /// On the disk for sure
    durable: (Vec<u8>, u32),
    /// What a reader sees
    seen: (Vec<u8>, u32),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Node {
    File(usize),
    Dir(usize),
}

/// A change of names, with what it names.
#[derive(Clone, Debug)]
enum Change {
    Add(String, Node),
    Remove(String),
    Rename(String, String, Node),
}

#[derive(Clone, Debug, Default)]
struct Dir {
    mode: u32,
    durable: BTreeMap<String, Node>,
    seen: BTreeMap<String, Node>,
    pending: Vec<Change>,
}

/// The disk.
#[derive(Clone, Debug)]
pub struct Disk {
    files: Vec<File>,
    dirs: Vec<Dir>,
}

impl Change {
    fn apply(&self, names: &mut BTreeMap<String, Node>) {
        match self {
            Self::Add(name, node) => drop(names.insert(name.clone(), *node)),
            Self::Remove(name) => drop(names.remove(name)),
            Self::Rename(from, to, node) => {
                names.remove(from);
                names.insert(to.clone(), *node);
            }
        }
    }
}

impl Disk {
    /// A disk that holds a tree, all of it for sure.
    pub fn of(root: &Path) -> Self {
        let mut disk = Self { files: Vec::new(), dirs: Vec::new() };
        disk.load(root);
        disk
    }

    fn load(&mut self, path: &Path) -> Node {
        let mode = fs::symlink_metadata(path).expect("it is there").mode() & 0o7777;
        if !path.is_dir() {
            let content = (fs::read(path).expect("readable"), mode);
            self.files.push(File { durable: content.clone(), seen: content });
            return Node::File(self.files.len() - 1);
        }
        let own = self.dirs.len();
        self.dirs.push(Dir { mode, ..Dir::default() });
        let mut names = BTreeMap::new();
        for entry in fs::read_dir(path).expect("readable") {
            let entry = entry.expect("readable");
            names.insert(entry.file_name().to_string_lossy().into_owned(), self.load(&entry.path()));
        }
        self.dirs[own].durable.clone_from(&names);
        self.dirs[own].seen = names;
        Node::Dir(own)
    }

    fn find(&self, path: &str) -> Node {
        path.split('/').filter(|part| !part.is_empty()).fold(Node::Dir(0), |node, part| match node {
            Node::Dir(dir) => *self.dirs[dir].seen.get(part).unwrap_or_else(|| panic!("{path} is not on the disk")),
            Node::File(_) => panic!("{path} leads through a file"),
        })
    }

    fn dir(&mut self, path: &str) -> &mut Dir {
        match self.find(path) {
            Node::Dir(dir) => &mut self.dirs[dir],
            Node::File(_) => panic!("{path} is a file"),
        }
    }

    fn file(&mut self, path: &str) -> Option<&mut File> {
        let (dir, name) = path.rsplit_once('/').expect("an absolute path");
        match self.dir(dir).seen.get(name).copied() {
            Some(Node::File(file)) => self.files.get_mut(file),
            // a call on a file whose creation was dropped
            _ => None,
        }
    }

    fn change(&mut self, dir: &str, change: Change) {
        let dir = self.dir(dir);
        change.apply(&mut dir.seen);
        dir.pending.push(change);
    }

    fn add_file(&mut self, dir: &str, name: &str) {
        let empty = (Vec::new(), 0o600);
        self.files.push(File { durable: empty.clone(), seen: empty });
        let node = Node::File(self.files.len() - 1);
        self.change(dir, Change::Add(name.to_owned(), node));
    }

    /// What a call does.
    pub fn play(&mut self, call: &Call) {
        match call {
            Call::MakeDir { dir, name } => {
                self.dirs.push(Dir { mode: 0o755, ..Dir::default() });
                let node = Node::Dir(self.dirs.len() - 1);
                self.change(dir, Change::Add(name.clone(), node));
            }
            Call::Create { dir, name } => self.add_file(dir, name),
            Call::OpenLock { dir, name } => {
                if !self.dir(dir).seen.contains_key(name) {
                    self.add_file(dir, name);
                }
            }
            Call::Write { file, bytes } => {
                let is_lock = file.ends_with("/lock");
                if let Some(file) = self.file(file) {
                    if is_lock {
                        file.seen.0.clear();
                    }
                    file.seen.0.extend(bytes);
                }
            }
            Call::SetMode { file, mode } => {
                if let Some(file) = self.file(file) {
                    file.seen.1 = *mode;
                }
            }
            Call::SetDirMode { dir, mode } => self.dir(dir).mode = *mode,
            Call::Sync { file } => {
                if let Some(file) = self.file(file) {
                    file.durable = file.seen.clone();
                }
            }
            Call::SyncDir { dir } => {
                let dir = self.dir(dir);
                dir.durable.clone_from(&dir.seen);
                dir.pending.clear();
            }
            Call::Rename { dir, from, to } => {
                let node = *self.dir(dir).seen.get(from).expect("it is there");
                self.change(dir, Change::Rename(from.clone(), to.clone(), node));
            }
            Call::RemoveFile { dir, name } | Call::RemoveDir { dir, name } => {
                self.change(dir, Change::Remove(name.clone()));
            }
            // the tests' files belong to one user, and have no labels
            Call::SetOwner { .. } | Call::SetLabel { .. } => {}
        }
    }

    /// Everything that may be found after a loss of power now.
    pub fn images(&self, rng: &mut Rng) -> Vec<Image> {
        let pending: usize = self.dirs.iter().map(|dir| dir.pending.len()).sum();
        let masks: BTreeSet<u64> = if pending <= exhaustive() {
            (0..1 << pending).collect()
        } else {
            // all prefixes, and as many random subsets as would be tried otherwise
            let prefixes = (0..=pending).map(|length| (1_u64 << length) - 1);
            prefixes.chain((0..1 << exhaustive()).map(|_| rng.next() & ((1 << pending) - 1))).collect()
        };
        let unsynced = self.files.iter().any(|file| file.durable != file.seen);
        let cuts: &[Content] = if unsynced { &[Content::Lost, Content::Torn, Content::Seen] } else { &[Content::Seen] };
        let choices = masks.iter().flat_map(|mask| cuts.iter().map(move |cut| (*mask, *cut)));
        choices.map(|(mask, cut)| self.image(mask, cut)).collect()
    }

    fn image(&self, mask: u64, cut: Content) -> Image {
        let mut bit = 0;
        let names: Vec<BTreeMap<String, Node>> = self
            .dirs
            .iter()
            .map(|dir| {
                let mut names = dir.durable.clone();
                for change in &dir.pending {
                    if mask >> bit & 1 == 1 {
                        change.apply(&mut names);
                    }
                    bit += 1;
                }
                names
            })
            .collect();
        let mut image = Image::new();
        self.collect(&names, 0, "", cut, &mut image);
        image
    }

    fn collect(&self, names: &[BTreeMap<String, Node>], dir: usize, path: &str, cut: Content, image: &mut Image) {
        image.insert(format!("{path}/"), (None, self.dirs[dir].mode));
        for (name, node) in &names[dir] {
            let path = format!("{path}/{name}");
            match node {
                Node::Dir(dir) => self.collect(names, *dir, &path, cut, image),
                Node::File(file) => {
                    let File { durable, seen } = &self.files[*file];
                    let (content, mode) = match cut {
                        Content::Seen => seen.clone(),
                        Content::Lost => durable.clone(),
                        Content::Torn if durable == seen => seen.clone(),
                        Content::Torn => (seen.0[..seen.0.len() / 2].to_vec(), seen.1),
                    };
                    image.insert(path, (Some(content), mode));
                }
            }
        }
    }
}

/// What became of content that was not synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Content {
    Lost,
    Torn,
    Seen,
}

/// Makes a real tree of an image.
pub fn materialise(image: &Image, root: &Path) {
    let _ = fs::remove_dir_all(root);
    for (path, (content, mode)) in image {
        let path = root.join(path.trim_start_matches('/'));
        match content {
            Some(content) => fs::write(&path, content).expect("written"),
            None => fs::create_dir_all(&path).expect("a directory"),
        }
        fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).expect("a mode");
    }
}
