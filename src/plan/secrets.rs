//! Secrets on the command line of a unit: a diff shows the lines beside our edit, but must not show these. Pure.

use std::borrow::Cow;

/// The arguments and variables of k3s that it hides itself in what it shows.
const SECRETS: [&str; 12] = [
    "--token",
    "-t",
    "--agent-token",
    "--datastore-endpoint",
    "--etcd-s3-access-key",
    "--etcd-s3-secret-key",
    "--etcd-s3-session-token",
    "--vpn-auth",
    "K3S_TOKEN",
    "K3S_AGENT_TOKEN",
    "K3S_DATASTORE_ENDPOINT",
    "K3S_VPN_AUTH",
];
const HIDDEN: &str = "********";

/// The text with asterisks in place of the values of such arguments, as words of their own or behind `=`.
pub(super) fn hide(text: &str) -> Cow<'_, str> {
    let mut found: Vec<_> = SECRETS.iter().flat_map(|name| values(text, name)).collect();
    if found.is_empty() {
        return Cow::Borrowed(text);
    }
    found.sort_by_key(|value| value.start);
    let (mut shown, mut rest) = (String::new(), 0);
    for value in found.into_iter().filter(|value| !value.is_empty()) {
        if value.start >= rest {
            shown.push_str(&text[rest..value.start]);
            shown.push_str(HIDDEN);
            rest = value.end;
        }
    }
    shown.push_str(&text[rest..]);
    Cow::Owned(shown)
}

/// Where the values of one argument are.
fn values<'t>(text: &'t str, name: &'t str) -> impl Iterator<Item = std::ops::Range<usize>> + 't {
    let is_between = |c: char| c.is_whitespace() || matches!(c, '"' | '\'' | '\\');
    text.match_indices(name).filter_map(move |(at, _)| {
        let before = text[..at].chars().next_back();
        let begins = before.is_none_or(|c| is_between(c) || c == '=');
        let behind = &text[at + name.len()..];
        let gap = match behind.strip_prefix('=') {
            Some(value) => 1 + value.len() - value.trim_start_matches(['"', '\'']).len(),
            None if name.starts_with('-') && behind.starts_with(is_between) => {
                behind.len() - behind.trim_start_matches(is_between).len()
            }
            None => return None,
        };
        let value = &behind[gap..];
        // a quoted value may have blanks
        let is_quote = |c: &char| matches!(c, '"' | '\'');
        let around = before.filter(|_| behind.starts_with('='));
        let quote = behind[..gap].chars().next_back().filter(is_quote).or_else(|| around.filter(is_quote));
        let end = match quote {
            Some(quote) => value.find(quote),
            None => value.find(is_between),
        };
        let start = at + name.len() + gap;
        (begins && !value.starts_with('-')).then(|| start..start + end.unwrap_or(value.len()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_secret_arguments_are_hidden_in_every_form_and_nothing_else_is() {
        let cases = [
            ("k3s server --token=abc --debug", "k3s server --token=******** --debug"),
            ("\t'--token' \\\n\t'abc' \\\n\t'--debug'", "\t'--token' \\\n\t'********' \\\n\t'--debug'"),
            ("'--token=a b' --debug", "'--token=********' --debug"),
            ("\"--agent-token\" \"a b\" x", "\"--agent-token\" \"********\" x"),
            ("server -t abc", "server -t ********"),
            ("--token-file /x --tls-san -t.example", "--token-file /x --tls-san -t.example"),
            ("Environment=K3S_TOKEN=abc", "Environment=K3S_TOKEN=********"),
            ("--token --debug", "--token --debug"),
        ];
        for (text, shown) in cases {
            assert_eq!(hide(text), shown);
        }
    }
}
