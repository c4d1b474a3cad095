//! Bare words that the scheduler's YAML reader (1.1) and ours (1.2) read differently. They must be quoted.

/// Whether a bare word is one of them.
pub(crate) fn is_ambiguous(word: &str) -> bool {
    // most words begin otherwise, and every one is looked at
    if !word.starts_with(|first: char| first.is_ascii_digit() || "+-=<yYnNoO".contains(first)) {
        return false;
    }
    let lower = word.to_ascii_lowercase();
    let digits = lower.trim_start_matches(['+', '-']);
    matches!(lower.as_str(), "y" | "n" | "yes" | "no" | "on" | "off" | "=" | "<<")
        || (digits.len() > 1 && digits.starts_with('0') && digits.bytes().all(|b| b.is_ascii_digit()))
        || ["0b", "0o"].iter().any(|prefix| digits.strip_prefix(prefix).is_some_and(is_number_like))
        || (digits.contains('_')
            && digits.starts_with(|c: char| c.is_ascii_digit())
            && is_number_like(&digits.replace(['.', 'e', 'x'], "0")))
        || is_sexagesimal(digits)
        || is_date(digits)
}

fn is_number_like(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'_')
}

/// `12:30:45`, which YAML 1.1 reads as a number of seconds.
fn is_sexagesimal(text: &str) -> bool {
    text.contains(':')
        && text.split(':').all(|part| (1..=2).contains(&part.len()) && part.bytes().all(|b| b.is_ascii_digit()))
}

/// `2001-01-01`, which YAML 1.1 reads as a point in time.
fn is_date(text: &str) -> bool {
    let parts: Vec<_> = text.split('-').collect();
    matches!(parts[..], [year, month, day]
        if year.len() == 4 && (1..=2).contains(&month.len()) && !day.is_empty()
            && [year, month, &day[..1]].iter().all(|part| part.bytes().all(|b| b.is_ascii_digit())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_that_two_readers_read_differently_are_found_unless_quoted() {
        let first_ambiguous = |text: &str| yaml_edit::survey(text, is_ambiguous).unwrap().bare;
        for word in ["yes", "Off", "y", "012", "-017", "0b11", "0o14", "1_000", "12:30:45", "2001-01-01"] {
            assert_eq!(first_ambiguous(&format!("a: 1\nb: {word}\n")), Some((word.to_owned(), 2)));
            assert_eq!(first_ambiguous(&format!("b: \"{word}\"\n")), None);
        }
        for word in
            ["true", "5s", "0", "10", "1.5", "0.5", "/etc/x", "127.0.0.1", "http://[::1]:8080", "a_b", "null", "~"]
        {
            assert_eq!(first_ambiguous(&format!("b: '' # yes\nc: {word}\n")), None, "{word}");
        }
    }
}
