//! What the tests share: random numbers, golden units, damage.

#![allow(dead_code, reason = "each test uses a part")]

pub mod rules;

use std::path::PathBuf;

use unit_edit::Argument;

/// The folder of golden units.
pub fn golden() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/golden")
}

/// One argument a line: its text, then its names, with tabs between.
pub fn arguments(text: &str) -> Vec<Argument> {
    let read = |line: &str| {
        let mut parts = line.split('\t');
        let argument = Argument::new(parts.next().unwrap_or_default());
        parts.fold(argument, Argument::named)
    };
    text.lines().map(read).collect()
}

/// The units of all golden folders.
pub fn corpus() -> Vec<Vec<u8>> {
    let mut folders: Vec<PathBuf> = std::fs::read_dir(golden()).unwrap().map(|entry| entry.unwrap().path()).collect();
    folders.sort();
    folders.iter().map(|folder| std::fs::read(folder.join("in.service")).unwrap()).collect()
}

/// Random numbers that a seed repeats (splitmix64).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    pub fn below(&mut self, limit: usize) -> usize {
        usize::try_from(self.next() % u64::try_from(limit.max(1)).unwrap()).unwrap()
    }

    pub fn pick<'a, T: ?Sized>(&mut self, from: &[&'a T]) -> &'a T {
        from[self.below(from.len())]
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }
}

/// Lines that change how a unit is read.
const LINES: &[&str] = &[
    "ExecStart=",
    "ExecStart=/usr/local/bin/k3s server",
    "ExecStart=/bin/echo a ; /bin/echo b",
    "ExecStart=/bin/echo \"a b\" 'c d' e\\x41f \\q",
    "ExecStart=-/bin/echo \"open",
    "ExecStart=@/bin/echo name $A ${B} $$C %% %n",
    "ExecStart=+/bin/echo \\u00e9 \\U0001F600 \\101 \\\\ \\;",
    "ExecStart=!!:/bin/echo $A",
    "ExecStart = /bin/echo 'it\\'s' a\"b c\"d ''",
    "ExecStartPre=-/bin/true",
    "Type=oneshot",
    "Type=simple",
    "[Service]",
    "[Install]",
    "[Unit]",
    "[X-Other]",
    "# a comment \\",
    "  ; another",
    "",
    "  ",
    "\\",
    "Environment=A=b \\",
    "    --more \\",
    "no equals sign",
    "=no key",
    "X-Key=value",
    "Description=é ü",
];

/// Bytes that mean something to systemd.
#[rustfmt::skip]
const MARKS: &[&[u8]] = &[
    b" ", b"\t", b"\\", b"\n", b"\r\n", b"\r", b"\n\r", b"'", b"\"", b";", b"#", b"%", b"$", b"=", b"[", b"]", b"\0",
    b"\xEF\xBB\xBF", b"\xFF", b"-", b"@", b":", b"+", b"!", b"|", b" \\\n", b"\\ \n", b" ; ", b" \\; ", b"\\x41",
    b"\\n", b"%%", b"$$", b"\xEF\xBF\xBE", b"x", b"\x0c", b"\x01", b"--kube-scheduler-arg=config=/old ",
    b"'--kube-scheduler-arg' 'config=/x' ", b" '' ", b"\\u0041", b"\\",
];

/// Parts of command lines, and things that look like them.
#[rustfmt::skip]
const PARTS: &[&str] = &[
    " ", " ", " ", " ", "\t", "'", "'", "\"", "\"", "\\", "\\", ";", " ; ", " \\; ", "\\;", "';'", "\\\\", "\\'",
    "\\\"", "\\n", "\\s", "\\x41", "\\x4", "\\x00", "\\xff", "\\u00e9", "\\u12", "\\u0000", "\\uFFFE",
    "\\U0001F600", "\\U00110000", "\\U0000FFFE", "\\U0000D800", "\\101", "\\000", "\\400", "\\08", "\\1", "\\q",
    "\\ ", "\\é", "é", "%", "%%", "%n", "%Z", "%9", "%-", "$", "$$", "$A", "${A}", "$$$A", "-", "@", ":", "+", "!",
    "/bin/echo", "a", "b", "server", "--x=1", "=", "#", "[", "]", " \\\n", " \\\n  ", "\\\n", " \\\n# note\n",
    " \\\n; note \\\n  ", "\\\r\n", "\x0c", "\u{FEFF}", "/", ".", "..", "x", "y", "\x01",
];

/// A unit with command lines that are made of all kinds of parts.
pub fn soup(random: &mut Random) -> Vec<u8> {
    let mut text = String::from(random.pick::<str>(&[
        "[Service]\n",
        "[Service]\nType=oneshot\n",
        "[Unit]\nDescription=x\n[Service]\nType=oneshot\n",
    ]));
    for _ in 0..=random.below(3) {
        text += random.pick::<str>(&[
            "ExecStart=/bin/echo ",
            "ExecStart=/bin/echo",
            "ExecStart=",
            "ExecStart = -/bin/echo ",
            "ExecStart=@/bin/echo a ",
            "ExecStart=-@/bin/echo",
            "ExecStart=-",
        ]);
        for _ in 0..random.below(12) {
            text += random.pick(PARTS);
        }
        text += random.pick::<str>(&["\n", "\n", "\n", "\r\n", "\n\n", ""]);
    }
    text += random.pick::<str>(&["", "[Install]\nWantedBy=x.target\n"]);
    text.into_bytes()
}

/// A unit with a few things wrong.
pub fn damage(unit: &[u8], random: &mut Random) -> Vec<u8> {
    let mut text = unit.to_vec();
    for _ in 0..random.below(4) {
        text = damage_once(text, random);
    }
    text
}

fn damage_once(mut text: Vec<u8>, random: &mut Random) -> Vec<u8> {
    let at = place(&text, random);
    match random.below(9) {
        0 | 1 => drop(text.splice(at..at, random.pick(MARKS).iter().copied())),
        2 => drop(text.splice(at..(at + 1 + random.below(3)).min(text.len()), [])),
        3 => drop(text.splice(at..(at + 1).min(text.len()), random.pick(MARKS).iter().copied())),
        4 | 5 => {
            let start = line_start(&text, at);
            let line = format!("{}\n", random.pick(LINES));
            drop(text.splice(start..start, line.bytes()));
        }
        6 => {
            let (start, end) = (line_start(&text, at), line_end(&text, at));
            let line = text[start..end].to_vec();
            if random.chance(50) {
                text.drain(start..end);
            }
            let to = line_start(&text, place(&text, random));
            text.splice(to..to, line);
        }
        7 if random.chance(40) => {
            text = String::from_utf8_lossy(&text).replace("\r\n", "\n").replace('\n', "\r\n").into_bytes();
        }
        7 => text.truncate(text.len().saturating_sub(random.below(12))),
        _ => {
            let end = line_end(&text, at).saturating_sub(1);
            text.splice(end..end, random.pick::<[u8]>(&[b" \\", b"\\", b" \\ ", b" ", b" 'x'", b"\r"]).iter().copied());
        }
    }
    text
}

/// Half of all damage is where the command line is.
fn place(text: &[u8], random: &mut Random) -> usize {
    let key = b"ExecStart=";
    let starts: Vec<usize> = text.windows(key.len()).enumerate().filter(|(_, w)| w == key).map(|(at, _)| at).collect();
    if starts.is_empty() || random.chance(50) {
        return random.below(text.len() + 1);
    }
    let start = starts[random.below(starts.len())];
    (start + random.below(120)).min(text.len())
}

fn line_start(text: &[u8], at: usize) -> usize {
    text[..at].iter().rposition(|byte| *byte == b'\n').map_or(0, |found| found + 1)
}

fn line_end(text: &[u8], at: usize) -> usize {
    text[at..].iter().position(|byte| *byte == b'\n').map_or(text.len(), |found| at + found + 1)
}
