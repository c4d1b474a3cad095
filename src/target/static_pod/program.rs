//! Where in a container's words (`command`, then `args`) kube-scheduler is named.

const SCHEDULER: &str = "kube-scheduler";
/// Flags of go-runner, and of the kube-log-runner that took its name in 1.36, whose value may be the next word.
const GO_RUNNER_VALUE_FLAGS: [&str; 4] = ["log-file", "flush-interval", "log-file-size", "log-file-age"];

/// What the words of a container say about kube-scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Program {
    /// It is the word with this number; its flags follow.
    At(usize),
    /// It is there, but behind a program that may do anything with its arguments.
    Behind(String),
    /// It is not there.
    Absent,
}

/// Looks for kube-scheduler: plain, by absolute path, after `/go-runner`, or as `hyperkube kube-scheduler`.
pub(super) fn find(words: &[&str]) -> Program {
    let Some((first, rest)) = words.split_first() else { return Program::Absent };
    match base_name(first) {
        SCHEDULER => Program::At(0),
        "hyperkube" => match rest.first() {
            Some(&(SCHEDULER | "scheduler")) => Program::At(1),
            _ => Program::Absent,
        },
        "go-runner" => match first_operand(rest) {
            Some(index) if base_name(rest[index]) == SCHEDULER => Program::At(index + 1),
            _ => behind(first, rest),
        },
        _ => behind(first, rest),
    }
}

/// The words that follow kube-scheduler, its flags; none if it is not there, or only behind another program.
pub(crate) fn words_after<'w, 't>(words: &'w [&'t str]) -> Option<&'w [&'t str]> {
    match find(words) {
        Program::At(index) => words.get(index + 1..),
        Program::Behind(_) | Program::Absent => None,
    }
}

/// The program that go-runner starts: the first word that is neither a flag of its own nor the value of one.
fn first_operand(words: &[&str]) -> Option<usize> {
    let mut index = 0;
    loop {
        let word = *words.get(index)?;
        match word.strip_prefix("--").or_else(|| word.strip_prefix('-')) {
            Some("") => return Some(index + 1).filter(|next| *next < words.len()),
            Some(flag) if GO_RUNNER_VALUE_FLAGS.contains(&flag) => index += 2,
            Some(_) => index += 1,
            None => return Some(index),
        }
    }
}

/// Whether one of the words is, or as a shell script names, kube-scheduler.
fn behind(first: &str, rest: &[&str]) -> Program {
    let script = rest.iter().flat_map(|word| {
        word.split(|separator: char| separator.is_whitespace() || ";&|()'\"`".contains(separator)).map(base_name)
    });
    let parts: Vec<&str> = script.collect();
    let named = parts.contains(&SCHEDULER) || parts.windows(2).any(|pair| pair == ["hyperkube", "scheduler"]);
    if named { Program::Behind(first.to_owned()) } else { Program::Absent }
}

fn base_name(word: &str) -> &str {
    word.rsplit('/').next().unwrap_or(word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scheduler_is_found_in_every_form_seen_in_the_wild() {
        for (words, expected) in [
            (&["kube-scheduler", "--a=b"][..], Program::At(0)),
            (&["/usr/local/bin/kube-scheduler"], Program::At(0)),
            (&["/go-runner", "--log-file=/x", "--also-stdout", "/usr/local/bin/kube-scheduler"], Program::At(3)),
            (&["/go-runner", "--log-file", "/x", "--", "kube-scheduler"], Program::At(4)),
            (&["/hyperkube", "kube-scheduler"], Program::At(1)),
            (&["/hyperkube", "scheduler"], Program::At(1)),
            (&["/hyperkube", "apiserver"], Program::Absent),
            (&["/bin/sh", "-c", "exec /usr/bin/kube-scheduler --a 1>>/log 2>&1"], Program::Behind("/bin/sh".into())),
            (&["sh", "-c", "/hyperkube scheduler --v=2 >/log"], Program::Behind("sh".into())),
            (&["tini", "--", "kube-scheduler"], Program::Behind("tini".into())),
            (&["etcd", "--name=kube-scheduler-1"], Program::Absent),
            (&[], Program::Absent),
        ] {
            assert_eq!(find(words), expected, "{words:?}");
        }
    }
}
