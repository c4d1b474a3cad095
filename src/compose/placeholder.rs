//! What a person or a script still has to fill in: marks of template languages, `<svc-clusterip>`, `${HOST}`, `%s`.
//!
//! Only values are looked at, so comments may hold anything. The arguments of plugins are free text (a query may well
//! hold `<` and `%`): there only the marks of an unrendered Helm chart count.

use serde_yaml::Value;

use yaml_edit::Segment;

/// Opening marks of the template languages in use: Go and Jinja, Jinja blocks, ERB.
const MARKS: [&str; 3] = ["{{", "{%", "<%"];

/// What a Helm chart holds before it is rendered, and nothing else does.
const HELM: [&str; 4] = [".Values.", ".Release.", ".Chart.", "include "];

/// Marks around a placeholder, and what may stand between them.
type Wrapping = (&'static str, &'static str, fn(&str) -> bool);

/// The first placeholder of a configuration, without what surrounds it, and its place.
pub(crate) fn find(config: &Value) -> Option<(String, Vec<Segment>)> {
    walk(config, &mut Vec::new(), in_text)
}

/// Whether a text may hold a placeholder at all, so that most texts are not searched value by value. What is escaped
/// (`\u003c`, as Go writes `<`) may be one.
pub(crate) fn is_possible(text: &str) -> bool {
    let bytes = text.as_bytes();
    bytes.iter().enumerate().any(|(at, byte)| match byte {
        b'<' | b'%' | b'\\' => true,
        b'{' | b'$' => matches!(bytes.get(at + 1), Some(b'{' | b'%')),
        b'_' | b'@' => bytes.get(at + 1) == Some(byte),
        _ => false,
    })
}

/// Looks at every key and value below `value` in the order of the document.
fn walk(value: &Value, place: &mut Vec<Segment>, look: fn(&str) -> Option<String>) -> Option<(String, Vec<Segment>)> {
    match value {
        Value::String(text) => look(text).map(|found| (found, place.clone())),
        Value::Sequence(items) => items.iter().enumerate().find_map(|(index, item)| {
            place.push(Segment::Index(index));
            let found = walk(item, place, look);
            place.pop();
            found
        }),
        Value::Mapping(entries) => entries.iter().find_map(|(key, item)| {
            let key = key.as_str().unwrap_or_default();
            place.push(Segment::Key(key.to_owned()));
            let look_below = if is_args(place) { in_free_text } else { look };
            let found = look(key).map(|found| (found, place.clone())).or_else(|| walk(item, place, look_below));
            place.pop();
            found
        }),
        _ => None,
    }
}

/// Whether a place is `profiles[].pluginConfig[].args`.
fn is_args(place: &[Segment]) -> bool {
    let is = |place: &Segment, name: &str| matches!(place, Segment::Key(key) if key == name);
    matches!(place, [first, _, config, _, args] if is(first, "profiles") && is(config, "pluginConfig") && is(args, "args"))
}

fn in_free_text(text: &str) -> Option<String> {
    let inside = wrapped(text, "{{", "}}")?;
    HELM.iter().any(|mark| inside.contains(mark)).then(|| "{{ … }}, the mark of a template".to_owned())
}

/// The placeholder in a text. What a template holds is not repeated: it may be anything.
fn in_text(text: &str) -> Option<String> {
    if let Some(mark) = MARKS.iter().find(|mark| text.contains(*mark)) {
        return Some(format!("{mark}, the mark of a template"));
    }
    let kinds: [Wrapping; 4] =
        [("${", "}", is_not_empty), ("<", ">", is_word), ("__", "__", is_upper), ("@@", "@@", is_upper)];
    let placeholder = |(open, close, is_name): Wrapping| {
        wrapped(text, open, close)
            .filter(|name| is_name(name))
            .map(|name| format!("the placeholder {open}{name}{close}"))
    };
    kinds.into_iter().find_map(placeholder).or_else(|| verb_in(text).map(|verb| format!("the placeholder {verb}")))
}

fn is_not_empty(name: &str) -> bool {
    !name.is_empty()
}

/// `svc-clusterip`, `your extender IP`; not what stands between two comparisons.
fn is_word(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_alphabetic())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || " _.-/".contains(c))
}

fn is_upper(name: &str) -> bool {
    !name.is_empty() && !name.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// What stands between two marks.
fn wrapped<'a>(text: &'a str, open: &str, close: &str) -> Option<&'a str> {
    Some(text.split_once(open)?.1.split_once(close)?.0)
}

/// A verb of `printf` in a text, such as `%s`; not an octet of a URL, such as `%d0`.
pub(crate) fn verb_in(text: &str) -> Option<&'static str> {
    let bytes = text.as_bytes();
    let verb_at = |at: usize| match (bytes.get(at)?, bytes.get(at + 1)) {
        (b's', _) => Some("%s"),
        (b'v', _) => Some("%v"),
        (b'd', next) if !next.is_some_and(u8::is_ascii_hexdigit) => Some("%d"),
        _ => None,
    };
    let is_escape = |at: usize| at > 0 && bytes.get(at - 1) == Some(&b'%');
    text.match_indices('%').filter(|(at, _)| !is_escape(*at)).find_map(|(at, _)| verb_at(at + 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_still_to_be_filled_in_is_found() {
        for (text, expected) in [
            ("http://{{ .Values.host }}:80", "{{, the mark of a template"),
            ("{% if x %}", "{%, the mark of a template"),
            ("http://<svc-clusterip>:80", "the placeholder <svc-clusterip>"),
            ("http://<your extender IP>:80", "the placeholder <your extender IP>"),
            ("http://user:secret@${HOST}:80", "the placeholder ${HOST}"),
            ("__HOST__", "the placeholder __HOST__"),
            ("http://%s:%d", "the placeholder %s"),
            ("http://host:%d", "the placeholder %d"),
        ] {
            assert_eq!(in_text(text).as_deref(), Some(expected), "{text}");
            assert!(is_possible(text), "{text}");
        }
    }

    #[test]
    fn what_only_looks_like_it_passes() {
        for text in [
            "http://host/%d0%B0?a=%20b",
            "a < b and c > d",
            "a<1 and 2>b",
            "$(SCHEDPATCH_DIR)/ca.crt",
            "100%",
            "100%%s",
            "a__b__c",
            "x@@y@@z",
            "<>",
            "{a}",
            "<- x ->",
            "user@host",
        ] {
            assert_eq!(in_text(text), None, "{text}");
        }
        assert_eq!(in_free_text("avg by (node) (x{{y}}) < 5 and <b>"), None);
        assert!(in_free_text("http://{{ .Values.prometheus }}").is_some());
    }
}
