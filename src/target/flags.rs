//! The flags of kube-scheduler as pflag reads them: `--name=value`, `--name value`, `-v=5`; `_` is read as `-`; the last one wins.

/// One flag, and which words carry it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Flag {
    /// Without dashes, with `-` for `_`.
    pub name: String,
    /// `None` for a flag without a value, which for pflag is `true`.
    pub value: Option<String>,
    /// Its line
    pub line: Option<usize>,
    /// Number of the word that holds the name.
    pub(super) word: usize,
    /// Number of the word that holds the value.
    pub(super) value_word: usize,
}

/// All flags among the words that follow a program's name.
pub fn all_of(words: &[&str]) -> Vec<Flag> {
    read(words, 0)
}

/// The last value of a flag among the words of a command.
pub fn value_of(words: &[&str], name: &str) -> Option<String> {
    last(&read(words, 0), name)?.value.clone()
}

/// Reads the flags among `words`, which are numbered from `first`, up to `--`. A word that is no flag is skipped.
pub(super) fn read(words: &[&str], first: usize) -> Vec<Flag> {
    let mut flags = Vec::new();
    let mut index = 0;
    while let Some(word) = words.get(index) {
        let at = index;
        index += 1;
        if *word == "--" {
            break;
        }
        let Some((name, value)) = split(word) else { continue };
        let separate = words.get(index).filter(|next| value.is_none() && !is_flag(next));
        if separate.is_some() {
            index += 1;
        }
        flags.push(Flag {
            name: name.replace('_', "-"),
            value: value.or_else(|| separate.copied()).map(str::to_owned),
            line: None,
            word: first + at,
            value_word: first + at + usize::from(separate.is_some()),
        });
    }
    flags
}

/// A word that begins with a dash and is no negative number.
fn is_flag(word: &str) -> bool {
    word.starts_with('-') && word.parse::<f64>().is_err()
}

/// Name and value of `--name=value` or `--name`; `None` for a word that is no flag. One dash goes before one letter:
/// `-config` is not `--config`, so it keeps its dash.
pub(super) fn split(word: &str) -> Option<(&str, Option<&str>)> {
    let short = word.strip_prefix('-')?;
    let (name, value) = match short.strip_prefix('-').unwrap_or(short).split_once('=') {
        Some((name, value)) => (name, Some(value)),
        None => (short.strip_prefix('-').unwrap_or(short), None),
    };
    let is_long = short.starts_with('-');
    match name.len() {
        0 => None,
        1 => Some((name, value)),
        _ if is_long => Some((name, value)),
        length => Some((&word[..=length], value)),
    }
}

/// The flag of this name that counts: the last.
pub fn last<'a>(flags: &'a [Flag], name: &str) -> Option<&'a Flag> {
    flags.iter().rev().find(|flag| flag.name == name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_pairs(words: &[&str]) -> Vec<(String, Option<String>, usize, usize)> {
        read(words, 0).into_iter().map(|flag| (flag.name, flag.value, flag.word, flag.value_word)).collect()
    }

    #[test]
    fn values_stand_after_an_equals_sign_or_in_the_next_word() {
        let words = ["--a=b", "--config", "/x", "-v=5", "--leader_elect", "--c=d=e", "-config=/x", "-", "--"];
        let expected = [
            ("a", Some("b"), 0, 0),
            ("config", Some("/x"), 1, 2),
            ("v", Some("5"), 3, 3),
            ("leader-elect", None, 4, 4),
            ("c", Some("d=e"), 5, 5),
            ("-config", Some("/x"), 6, 6),
        ];
        let expected: Vec<_> =
            expected.into_iter().map(|(n, v, w, x)| (n.to_owned(), v.map(str::to_owned), w, x)).collect();
        assert_eq!(read_pairs(&words), expected);
    }

    #[test]
    fn the_last_of_two_flags_counts() {
        let flags = read(&["--config=/a", "--config=/b"], 0);
        assert_eq!(last(&flags, "config").unwrap().value.as_deref(), Some("/b"));
    }
}
