//! `systemd-analyze`, and what it prints.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What systemd printed about one unit: its commands, and all other lines.
#[derive(Default)]
pub struct Loaded {
    pub commands: Vec<Vec<u8>>,
    pub others: Vec<Vec<u8>>,
}

/// Loads units of a folder; what systemd printed about each, and all its messages.
pub fn load(folder: &Path, names: &[&str]) -> (BTreeMap<String, Loaded>, String) {
    let run = folder.join("run");
    fs::create_dir(&run).unwrap();
    let paths = names.iter().map(|name| folder.join(name));
    let output = Command::new("systemd-analyze")
        .args(["--user", "--man=no", "--generators=no", "--recursive-errors=no", "verify"])
        .args(paths)
        .env("SYSTEMD_LOG_LEVEL", "debug")
        .env("SYSTEMD_UNIT_PATH", folder)
        .env("XDG_RUNTIME_DIR", &run)
        .output()
        .unwrap();
    let mut loaded: BTreeMap<String, Loaded> = BTreeMap::new();
    let (mut unit, mut setting) = (String::new(), Vec::new());
    for line in output.stdout.split(|byte| *byte == b'\n') {
        let text = line.trim_ascii_start();
        if line.starts_with(b"\t-> Unit ") {
            String::from_utf8_lossy(&text[8..]).trim_end_matches(':').clone_into(&mut unit);
            loaded.entry(unit.clone()).or_default();
        } else if line.starts_with(b"\t\t-> ") {
            setting = text.to_vec();
        }
        let Some(loaded) = loaded.get_mut(&unit) else { continue };
        match text.strip_prefix(b"Command Line: ") {
            Some(words) if setting == b"-> ExecStart:" => loaded.commands.push(words.to_vec()),
            // the time of a file that was written in this very moment
            _ if text.is_empty() || text.starts_with(b"Need Daemon Reload") => {}
            _ => loaded.others.push(line.to_vec()),
        }
    }
    (loaded, String::from_utf8_lossy(&output.stderr).into_owned())
}

/// Words as systemd prints them: bare, or in double quotes with escapes.
pub fn unquote(line: &[u8]) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    let mut is_quoted = false;
    let mut i = 0;
    while let Some(&byte) = line.get(i) {
        i += 1;
        let last = words.len() - 1;
        match byte {
            b'"' => is_quoted = !is_quoted,
            b' ' if !is_quoted => words.push(Vec::new()),
            b'\\' if is_quoted => {
                let next = line[i];
                let octal =
                    line.get(i..i + 3).filter(|digits| digits.iter().all(|digit| (b'0'..=b'7').contains(digit)));
                i += octal.map_or(1, <[u8]>::len);
                words[last].push(match (octal, next) {
                    (Some(digits), _) => {
                        digits.iter().fold(0_u8, |sum, digit| sum.wrapping_mul(8).wrapping_add(digit - b'0'))
                    }
                    (None, b'a') => 7,
                    (None, b'b') => 8,
                    (None, b'f') => 12,
                    (None, b'n') => b'\n',
                    (None, b'r') => b'\r',
                    (None, b't') => b'\t',
                    (None, b'v') => 11,
                    (None, same) => same,
                });
            }
            _ => words[last].push(byte),
        }
    }
    words
}
