//! Damages a manifest the way people, editors and scripts do.

use super::rng::Rng;

/// Characters that mean something to YAML, or to nobody.
const CHARACTERS: [&str; 24] = [
    "\t",
    "\r",
    "#",
    ":",
    "-",
    "\"",
    "'",
    "[",
    "]",
    "{",
    "}",
    ",",
    "&a ",
    "*a",
    "!!str ",
    "|",
    ">",
    "%",
    "@",
    "`",
    "é",
    "\u{2028}",
    "\u{85}",
    "\u{1f600}",
];

const LINES: [&str; 14] = [
    "# a comment",
    "",
    "---",
    "...",
    "  <<: *a",
    "{{ if .Values.x }}",
    "  extra: value",
    "    - --extra=1",
    "- item",
    "\tname: x",
    "metadata:",
    "    volumeMounts: []",
    "  annotations: {}",
    "%YAML 1.2",
];

/// A text with one damage more.
pub fn mutate(text: &str, rng: &mut Rng) -> String {
    let mut lines: Vec<String> = text.split_inclusive('\n').map(str::to_owned).collect();
    if lines.is_empty() {
        return "x".to_owned();
    }
    let at = rng.below(lines.len());
    match rng.below(22) {
        0 => drop(lines.remove(at)),
        1 => lines.insert(at, lines[at].clone()),
        2 => {
            let other = rng.below(lines.len());
            lines.swap(at, other);
        }
        3 => lines[at].insert_str(0, rng.pick(&[" ", "  ", "    "])),
        4 => {
            let indent = lines[at].len() - lines[at].trim_start_matches(' ').len();
            lines[at].drain(..indent.min(1 + rng.below(2)));
        }
        5 | 6 => {
            let column = rng.below(8);
            lines.insert(at, format!("{:column$}# {}\n", "", rng.pick(&["note", "--config=/x", "{{ x }}", "a\tb"])));
        }
        7 => lines.insert(at, "\n".to_owned()),
        8 => end_of_line(&mut lines[at], rng.pick(&[" # end", "  ", " # - x", "\t# tab", "\t"])),
        9 => end_of_line(&mut lines[at], "\r"),
        10 => lines.insert(at, format!("{}\n", rng.pick(&LINES))),
        11 => quote_value(&mut lines[at], rng),
        12 => lines[at] = lines[at].replacen(": ", rng.pick(&[": &a ", ": !!str ", ": *a ", ":  ", ": | "]), 1),
        13 => lines[at] = lines[at].replacen("- ", rng.pick(&["- &b ", "-   ", "- !x ", "-\n      "]), 1),
        14 => lines.insert(0, "\u{feff}".to_owned()),
        15 => {
            let cut = rng.below(text.len());
            return text.char_indices().take_while(|(index, _)| *index < cut).map(|(_, c)| c).collect();
        }
        16 => return text.trim_end().to_owned(),
        17 => return text.replace("\r\n", "\n").replace('\n', "\r\n"),
        18 => end_of_line(&mut lines[at], rng.pick(&[" extra", ": x", ", y", "]", "}"])),
        _ => return mutate_character(text, rng),
    }
    lines.concat()
}

/// Puts text before the line break.
fn end_of_line(line: &mut String, text: &str) {
    let end = line.trim_end_matches(['\r', '\n']).len();
    line.insert_str(end, text);
}

fn quote_value(line: &mut String, rng: &mut Rng) {
    let body = line.trim_end_matches(['\r', '\n']);
    let start = body.find(": ").map_or_else(|| body.find("- ").map(|at| at + 2), |at| Some(at + 2));
    if let Some(start) = start {
        let quote = rng.pick(&["\"", "'"]);
        *line = format!("{}{quote}{}{quote}{}", &body[..start], &body[start..], &line[body.len()..]);
    }
}

fn mutate_character(text: &str, rng: &mut Rng) -> String {
    let places: Vec<usize> = text.char_indices().map(|(at, _)| at).collect();
    let Some(at) = places.get(rng.below(places.len())).copied() else { return text.to_owned() };
    let next = text[at..].chars().next().map_or(at, |c| at + c.len_utf8());
    match rng.below(3) {
        0 => format!("{}{}", &text[..at], &text[next..]),
        1 => format!("{}{}{}", &text[..at], rng.pick(&CHARACTERS), &text[at..]),
        _ => format!("{}{}{}", &text[..at], rng.pick(&CHARACTERS), &text[next..]),
    }
}
