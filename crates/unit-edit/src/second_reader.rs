//! A second reader of units. It shares no code with the first and works in another way: it rewrites the text in stages
//! (lines, joined lines, atoms, masks, words) where the first goes through it byte by byte. Both must agree.

/// A setting as the second reader sees it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    pub section: Vec<u8>,
    pub key: Vec<u8>,
    pub value: Vec<u8>,
}

/// Longest first: none of these may be taken for a shorter one.
const BREAKS: [&[u8]; 9] = [b"\r\n\0", b"\n\r\0", b"\r\n", b"\n\r", b"\r\0", b"\n\0", b"\r", b"\n", b"\0"];
const BLANKS: [u8; 4] = *b" \t\r\n";

/// All settings of a file, or nothing if systemd could not read it to its end.
pub(crate) fn read(file: &[u8]) -> Option<Vec<Seen>> {
    let mut lines = cut(file);
    if lines.iter().any(|line| line.len() >= 1 << 20) {
        return None;
    }
    lines.retain(|line| !matches!(strip(line).first(), Some(b'#' | b';')));
    if let Some(marked) = lines.iter_mut().find(|line| line.starts_with("\u{FEFF}".as_bytes())) {
        *marked = &marked[3..];
    }
    let mut section = Vec::new();
    let mut seen = Vec::new();
    for line in join(&lines)? {
        let line = strip(&line);
        std::str::from_utf8(line).ok()?.chars().all(|c| !is_reserved(c)).then_some(())?;
        match line {
            [] => {}
            [b'[', name @ .., b']'] => {
                name.iter().all(|b| *b >= 0x20 && *b != 0x7F && !b"\"'\\".contains(b)).then_some(())?;
                section = name.to_vec();
            }
            [b'[', ..] => return None,
            _ => {
                let mut halves = line.splitn(2, |byte| *byte == b'=');
                if let (Some(key), Some(value)) = (halves.next(), halves.next())
                    && !key.is_empty()
                {
                    let (key, value) = (strip(key).to_vec(), strip(value).to_vec());
                    seen.push(Seen { section: section.clone(), key, value });
                }
            }
        }
    }
    Some(seen)
}

fn cut(mut file: &[u8]) -> Vec<&[u8]> {
    let mut lines = Vec::new();
    while !file.is_empty() {
        let length = file.iter().take_while(|byte| !b"\r\n\0".contains(byte)).count();
        let (line, rest) = file.split_at(length);
        lines.push(line);
        file = BREAKS.iter().find_map(|mark| rest.strip_prefix(*mark)).unwrap_or(rest);
    }
    lines
}

/// Joins continued lines: those that end in an odd number of backslashes.
fn join(lines: &[&[u8]]) -> Option<Vec<Vec<u8>>> {
    let mut joined: Vec<Vec<u8>> = Vec::new();
    let mut is_open = false;
    for line in lines {
        let backslashes = line.iter().rev().take_while(|byte| **byte == b'\\').count();
        match joined.last_mut().filter(|_| is_open) {
            Some(last) if last.len() + line.len() > 1 << 20 => return None,
            Some(last) => last.extend_from_slice(line),
            None => joined.push(line.to_vec()),
        }
        is_open = backslashes % 2 == 1;
        if is_open && let Some(last) = joined.last_mut() {
            last.pop();
            last.push(b' ');
        }
    }
    Some(joined)
}

fn strip(mut line: &[u8]) -> &[u8] {
    while let [first, rest @ ..] = line
        && BLANKS.contains(first)
    {
        line = rest;
    }
    while let [rest @ .., last] = line
        && BLANKS.contains(last)
    {
        line = rest;
    }
    line
}

fn is_reserved(character: char) -> bool {
    matches!(u32::from(character), 0xFDD0..=0xFDEF) || matches!(u32::from(character) & 0xFFFF, 0xFFFE | 0xFFFF)
}

/// A piece of a command line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Token {
    Word(Vec<u8>),
    /// `;` between two commands
    Separator,
}

/// The smallest parts of a command line.
enum Atom {
    Plain(u8),
    Escape(Vec<u8>),
    /// A backslash at the end
    Dangling,
}

/// The words of a command line, or nothing if its quotes are not closed.
pub(crate) fn tokens(value: &[u8]) -> Option<Vec<Token>> {
    let (atoms, widths): (Vec<Atom>, Vec<usize>) = atoms(value).into_iter().unzip();
    let (quoted, marks) = mask(&atoms)?;
    let mut tokens = Vec::new();
    let (mut i, mut at) = (0, 0);
    while i < atoms.len() {
        let is_gap = |i: usize| matches!(&atoms[i], Atom::Plain(byte) if !quoted[i] && BLANKS.contains(byte));
        let length = (i..atoms.len()).take_while(|i| !is_gap(*i)).count();
        if length > 0 {
            let source_length: usize = widths[i..i + length].iter().sum();
            let source = &value[at..at + source_length];
            let text = (i..i + length).filter(|i| !marks[*i]).flat_map(|i| match &atoms[i] {
                Atom::Plain(byte) => vec![*byte],
                Atom::Escape(bytes) => bytes.clone(),
                Atom::Dangling => vec![b'\\'],
            });
            let text: Vec<u8> = text.collect();
            let is_first = matches!(tokens.last(), None | Some(Token::Separator));
            tokens.push(match source {
                b";" => Token::Separator,
                _ if is_first && text == b";" => Token::Separator,
                b"\\;" if !is_first => Token::Word(b";".to_vec()),
                _ => Token::Word(text),
            });
            at += source_length;
            i += length;
        } else {
            at += widths[i];
            i += 1;
        }
    }
    Some(tokens)
}

/// Which atoms are inside quotes, and which are the quotes themselves.
fn mask(atoms: &[Atom]) -> Option<(Vec<bool>, Vec<bool>)> {
    let mut quoted = vec![false; atoms.len()];
    let mut marks = vec![false; atoms.len()];
    let mut from = 0;
    let is = |atom: &Atom, wanted: &[u8]| matches!(atom, Atom::Plain(byte) if wanted.contains(byte));
    while let Some(open) = (from..atoms.len()).find(|i| is(&atoms[*i], b"\"'")) {
        let Atom::Plain(kind) = atoms[open] else { return None };
        let close = (open + 1..atoms.len()).find(|i| is(&atoms[*i], &[kind]))?;
        quoted[open..=close].fill(true);
        (marks[open], marks[close]) = (true, true);
        from = close + 1;
    }
    Some((quoted, marks))
}

fn atoms(value: &[u8]) -> Vec<(Atom, usize)> {
    let mut atoms = Vec::new();
    let mut rest = value;
    while let Some(first) = rest.first() {
        let (atom, width) = match (first, rest.get(1)) {
            (b'\\', None) => (Atom::Dangling, 1),
            (b'\\', Some(next)) => match escape(&rest[1..]) {
                Some((bytes, width)) => (Atom::Escape(bytes), 1 + width),
                None => (Atom::Escape(vec![b'\\', *next]), 2),
            },
            (plain, _) => (Atom::Plain(*plain), 1),
        };
        atoms.push((atom, width));
        rest = &rest[width..];
    }
    atoms
}

/// What an escape means, and how many bytes it has behind its backslash.
fn escape(rest: &[u8]) -> Option<(Vec<u8>, usize)> {
    const LETTERS: [(u8, u8); 11] = [
        (b'a', 0x07),
        (b'b', 0x08),
        (b'f', 0x0C),
        (b'n', 0x0A),
        (b'r', 0x0D),
        (b't', 0x09),
        (b'v', 0x0B),
        (b's', 0x20),
        (b'\\', b'\\'),
        (b'"', b'"'),
        (b'\'', b'\''),
    ];
    let first = *rest.first()?;
    if let Some((_, meaning)) = LETTERS.iter().find(|(letter, _)| *letter == first) {
        return Some((vec![*meaning], 1));
    }
    let (skip, length, radix) = match first {
        b'x' => (1, 2, 16),
        b'u' => (1, 4, 16),
        b'U' => (1, 8, 16),
        b'0'..=b'7' => (0, 3, 8),
        _ => return None,
    };
    let digits = std::str::from_utf8(rest.get(skip..skip + length)?).ok()?;
    let code = digits.chars().all(|c| c.is_digit(radix)).then(|| u32::from_str_radix(digits, radix).ok())??;
    let bytes = match (first, code) {
        (_, 0) => return None,
        (b'u', 0xD800..=0xDFFF) => {
            // systemd writes surrogates as if they were characters
            let bits = format!("{code:016b}");
            let part =
                |from: usize, to: usize, mark: &str| u8::from_str_radix(&format!("{mark}{}", &bits[from..to]), 2).ok();
            vec![part(0, 4, "1110")?, part(4, 10, "10")?, part(10, 16, "10")?]
        }
        (b'u', _) => char::from_u32(code)?.to_string().into_bytes(),
        (b'U', _) => char::from_u32(code).filter(|c| !is_reserved(*c))?.to_string().into_bytes(),
        _ => vec![u8::try_from(code).ok()?],
    };
    Some((bytes, skip + length))
}
