//! Units to judge.

use std::fs;
use std::path::Path;

use unit_edit::{Edit, Error, Unit, effective};

use crate::support::{Random, arguments, damage, soup};

/// A unit, its drop-ins, and the unit after an edit.
pub struct Case {
    pub name: String,
    pub seed: u64,
    pub fragment: Vec<u8>,
    pub drop_ins: Vec<Vec<u8>>,
    pub edited: Option<Vec<u8>>,
    /// A drop-in that sets the same commands
    pub copy: Option<Vec<u8>>,
}

impl Case {
    pub fn new(seed: u64, corpus: &[Vec<u8>]) -> Self {
        let mut random = Random(seed.wrapping_mul(0x2545_F491_4F6C_DD1D));
        let fragment = match random.below(3) {
            0 => soup(&mut random),
            _ => damage(&corpus[random.below(corpus.len())], &mut random),
        };
        let drop_ins = (0..random.below(6).saturating_sub(3)).map(|_| drop_in(&mut random)).collect();
        let wanted = arguments(random.pick(&[
            "--kube-scheduler-arg=config=/etc/x.yaml\t--kube-scheduler-arg=config=\n",
            "--text=it's 100% $HOME; \"é\"\\\n--debug\n",
        ]));
        let edit = Edit { owner: "judge", note: "1", arguments: &wanted };
        let edited = Unit::parse("u.service", &fragment).edit(&edit).ok();
        let mut case = Self { name: format!("c{seed}.service"), seed, fragment, drop_ins, edited, copy: None };
        case.copy = case.effective_drop_in();
        case
    }

    fn effective_drop_in(&self) -> Option<Vec<u8>> {
        let fragment = Unit::parse("u.service", &self.fragment);
        let drop_ins: Vec<Unit<'_>> = self.drop_ins.iter().map(|text| Unit::parse("d.conf", text)).collect();
        let found = effective(&fragment, &drop_ins).ok()?;
        found.exec_start()?;
        found.to_drop_in().ok()
    }

    /// A unit as it is.
    pub fn plain(number: u64, fragment: Vec<u8>) -> Self {
        Self {
            name: format!("p{number}.service"),
            seed: number,
            fragment,
            drop_ins: Vec::new(),
            edited: None,
            copy: None,
        }
    }

    pub fn write(&self, folder: &Path, fragment: &[u8], copy: Option<&Vec<u8>>) {
        fs::write(folder.join(&self.name), fragment).unwrap();
        let drop_ins = folder.join(format!("{}.d", self.name));
        fs::create_dir(&drop_ins).unwrap();
        for (index, text) in self.drop_ins.iter().chain(copy).enumerate() {
            fs::write(drop_ins.join(format!("{index}.conf")), text).unwrap();
        }
    }

    /// Whether only the host can judge: a shell runs a command, which older versions do not know, or a path holds
    /// what the host replaces.
    pub fn is_undecided(&self, fragment: &[u8]) -> bool {
        let files = std::iter::once(fragment).chain(self.drop_ins.iter().map(Vec::as_slice));
        files.into_iter().any(|text| {
            let unit = Unit::parse("u.service", text);
            unit.exec_starts().iter().any(|command| command.prefixes().uses_shell || loaded(command.path()).is_none())
        })
    }

    /// The commands that our reader sees; a word that only the host knows is nothing.
    pub fn read(&self, fragment: &[u8]) -> Result<Vec<Vec<Option<Vec<u8>>>>, Error> {
        let fragment = Unit::parse("u.service", fragment);
        let drop_ins: Vec<Unit<'_>> = self.drop_ins.iter().map(|text| Unit::parse("d.conf", text)).collect();
        let found = effective(&fragment, &drop_ins)?;
        let words = |command: &unit_edit::ExecStart<'_>| {
            let name = loaded(&command.argv().swap_remove(0));
            std::iter::once(name).chain(command.arguments().iter().map(unit_edit::Word::loaded)).collect()
        };
        Ok(found.commands().iter().map(words).collect())
    }
}

/// A name with `%%` for `%`; nothing if it holds another specifier.
fn loaded(name: &[u8]) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let mut bytes = name.iter().peekable();
    while let Some(byte) = bytes.next() {
        if *byte == b'%' {
            match bytes.peek() {
                Some(b'%') => drop(bytes.next()),
                Some(letter) if letter.is_ascii_alphanumeric() => return None,
                _ => {}
            }
        }
        out.push(*byte);
    }
    Some(out)
}

fn drop_in(random: &mut Random) -> Vec<u8> {
    let text = random.pick(&[
        "[Service]\nExecStart=\nExecStart=/bin/echo from drop-in\n",
        "[Service]\nExecStart=/bin/echo second\n",
        "[Service]\nType=oneshot\nExecStart=/bin/echo second \\\n  and more\n",
        "[Service]\nRestart=no\n",
        "[Unit]\nDescription=other\n",
    ]);
    damage(text.as_bytes(), random)
}
