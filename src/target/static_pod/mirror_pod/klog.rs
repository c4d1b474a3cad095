//! A line of a Kubernetes program's log as a sentence: without klog's header, and without the quotes and escapes of its
//! structured form. A person reads it beside words of ours.

/// The words of one line; one that klog did not write stays as it is.
pub(super) fn words(line: &str) -> String {
    let text = without_header(line);
    let Some((message, rest)) = quoted(text) else { return text.to_owned() };
    let rest = rest.trim_start();
    match rest.strip_prefix("err=").and_then(quoted) {
        Some((error, rest)) if rest.trim().is_empty() => format!("{message}: {error}"),
        Some((error, rest)) => format!("{message}: {error} ({})", rest.trim()),
        None if rest.is_empty() => message,
        None => format!("{message} ({rest})"),
    }
}

/// Without `E1117 12:00:00.000000       1 run.go:74] `.
fn without_header(line: &str) -> &str {
    let Some((header, text)) = line.split_once("] ") else { return line };
    let mut words = header.split_ascii_whitespace();
    let (day, time, thread, place) = (words.next(), words.next(), words.next(), words.next());
    let is_day = |day: &str| {
        let digits = day.strip_prefix(['I', 'W', 'E', 'F']).unwrap_or_default();
        digits.len() == 4 && digits.bytes().all(|byte| byte.is_ascii_digit())
    };
    let is_time = |time: &str| time.bytes().all(|byte| byte.is_ascii_digit() || b":.".contains(&byte));
    let is_header = day.is_some_and(is_day)
        && time.is_some_and(is_time)
        && thread.is_some_and(|thread| thread.parse::<u64>().is_ok())
        && place.is_some_and(|place| place.contains(':'))
        && words.next().is_none();
    if is_header { text } else { line }
}

/// The text in quotes at the beginning, as Go writes it, and what follows.
fn quoted(text: &str) -> Option<(String, &str)> {
    let mut chars = text.strip_prefix('"')?.char_indices();
    let mut inside = String::new();
    while let Some((index, c)) = chars.next() {
        match c {
            '"' => return Some((inside, text.get(index + 2..)?)),
            '\\' => inside.push(match chars.next()?.1 {
                'n' | 't' | 'r' => ' ',
                other => other,
            }),
            other => inside.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::words;

    #[test]
    fn the_last_words_of_a_scheduler_are_a_sentence() {
        let line =
            r#"E1117 12:00:00.000000       1 run.go:74] "command failed" err="couldn't create \"a\": line 3\nmore""#;
        assert_eq!(words(line), r#"command failed: couldn't create "a": line 3 more"#);
        let lost = r#"E1117 12:00:00.000000       1 server.go:242] "Leaderelection lost""#;
        assert_eq!(words(lost), "Leaderelection lost");
        let more = r#"I1117 12:00:00.000000       1 serving.go:386] "Generated" err="x" file="y""#;
        assert_eq!(words(more), r#"Generated: x (file="y")"#);
        let plain = "F1117 12:00:00.000000       1 server.go:7] unable to load \"x\": [a] b";
        assert_eq!(words(plain), "unable to load \"x\": [a] b");
    }

    #[test]
    fn what_klog_did_not_write_stays_as_it_is() {
        for line in ["panic: [recovered] x", "Error: unknown flag: --x", "\"open", "[a] b] c", "E1117 x] y", ""] {
            assert_eq!(words(line), line);
        }
    }
}
