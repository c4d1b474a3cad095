//! Answers, written directly: one buffer, no intermediate objects.

use std::borrow::Cow;
use std::ops::Range;

use super::{Asked, Text};

/// Room for `{"Host":"…","Score":10},` and a usual name.
const BYTES_PER_SCORE: usize = 56;

/// Writes a string. A borrowed one has no escapes in the request, so it needs none here.
fn push(out: &mut Vec<u8>, text: &Text<'_>) {
    match &text.0 {
        Cow::Borrowed(plain) => {
            out.push(b'"');
            out.extend_from_slice(plain.as_bytes());
            out.push(b'"');
        }
        Cow::Owned(owned) => push_escaped(out, owned),
    }
}

fn push_escaped(out: &mut Vec<u8>, text: &str) {
    // a vector takes everything, and a string is always JSON
    let _ = serde_json::to_writer(out, text);
}

/// `HostPriorityList`: a score from 0 to 10 for each node.
pub fn scores_answer(names: &[Text<'_>], points: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(names.len() * BYTES_PER_SCORE + 2);
    out.push(b'[');
    for (name, points) in names.iter().zip(points) {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(b"{\"Host\":");
        push(&mut out, name);
        out.extend_from_slice(b",\"Score\":");
        if *points >= 10 {
            out.extend_from_slice(b"10");
        } else {
            out.push(b'0' + points);
        }
        out.push(b'}');
    }
    out.push(b']');
    out
}

/// A piece of an answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Piece {
    /// Written anew
    New(Vec<u8>),
    /// A part of the request's body, as it came
    Old(Range<usize>),
}

/// `ExtenderFilterResult` that keeps every node.
pub fn pass_answer(body: &[u8], asked: &Asked<'_>) -> Vec<Piece> {
    filter_answer(body, asked, |_| true, &[])
}

/// `ExtenderFilterResult`: the nodes at the positions that `keeps` says, in the form they came in, and why others are refused.
///
/// Refusals are unresolvable for the scheduler: preempting pods would not change a metric, so it does not try. Node objects are
/// named as parts of the body that they came in, since copying megabytes takes longer than judging them.
pub fn filter_answer(
    body: &[u8],
    asked: &Asked<'_>,
    keeps: impl Fn(usize) -> bool,
    refusals: &[(usize, &str)],
) -> Vec<Piece> {
    let mut pieces = Vec::new();
    let mut out = b"{\"Nodes\":".to_vec();
    match asked {
        Asked::Names(names) => {
            out.reserve(names.iter().map(|name| name.len() + 3).sum::<usize>() + refusals.len() * 128 + 160);
            out.extend_from_slice(b"null,\"NodeNames\":[");
            let mut kept = names.iter().enumerate().filter(|(at, _)| keeps(*at)).peekable();
            while let Some((_, name)) = kept.next() {
                push(&mut out, name);
                if kept.peek().is_some() {
                    out.push(b',');
                }
            }
            out.push(b']');
        }
        Asked::Objects(_, items) => {
            out.extend_from_slice(b"{\"metadata\":{},\"items\":[");
            let kept = items.iter().enumerate().filter(|(at, _)| keeps(*at));
            for (number, run) in runs(body, kept.map(|(at, item)| (at, item.get()))).into_iter().enumerate() {
                if number > 0 {
                    out.push(b',');
                }
                pieces.extend([Piece::New(std::mem::take(&mut out)), Piece::Old(run)]);
            }
            out.extend_from_slice(b"]},\"NodeNames\":null");
        }
    }
    out.extend_from_slice(b",\"FailedNodes\":{},\"FailedAndUnresolvableNodes\":{");
    let names = asked.names();
    for (number, (at, why)) in refusals.iter().enumerate() {
        let Some(name) = names.get(*at) else { continue };
        if number > 0 {
            out.push(b',');
        }
        push(&mut out, name);
        out.push(b':');
        push_escaped(&mut out, why);
    }
    out.extend_from_slice(b"},\"Error\":\"\"}");
    pieces.push(Piece::New(out));
    pieces
}

/// Where texts are in the body that they were read from; neighbours are one range, with the commas between them.
fn runs<'a>(body: &[u8], texts: impl Iterator<Item = (usize, &'a str)>) -> Vec<Range<usize>> {
    let start = body.as_ptr().addr();
    let mut runs: Vec<Range<usize>> = Vec::new();
    let mut next = usize::MAX;
    for (number, text) in texts {
        let from = text.as_ptr().addr() - start;
        let to = from + text.len();
        match runs.last_mut() {
            Some(run) if number == next => run.end = to,
            _ => runs.push(from..to),
        }
        next = number + 1;
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::super::read;
    use super::*;

    fn whole(body: &[u8], pieces: &[Piece]) -> Vec<u8> {
        let bytes = pieces.iter().flat_map(|piece| match piece {
            Piece::New(bytes) => bytes.clone(),
            Piece::Old(range) => body[range.clone()].to_vec(),
        });
        bytes.collect()
    }

    fn json(bytes: &[u8]) -> serde_json::Value {
        serde_json::from_slice(bytes).expect("answers are JSON")
    }

    #[test]
    fn scores_are_a_list_of_host_and_score() {
        let names = [Text::from("a"), Text(Cow::Owned("b\"\n".to_owned()))];
        let expected = serde_json::json!([{"Host": "a", "Score": 10}, {"Host": "b\"\n", "Score": 0}]);
        assert_eq!(json(&scores_answer(&names, &[10, 0])), expected);
        assert_eq!(scores_answer(&[], &[]), b"[]");
    }

    #[test]
    fn a_filter_answers_in_the_form_it_was_asked_in() {
        let refusals = [(1, "cpu is 0.95, \"above\" 0.9")];
        let body = br#"{"NodeNames":["a","b","c"]}"#;
        let (_, asked) = read(body).expect("a request");
        let answer = json(&whole(body, &filter_answer(body, &asked, |at| at != 1, &refusals)));
        assert_eq!(answer["NodeNames"], serde_json::json!(["a", "c"]));
        assert_eq!(answer["FailedAndUnresolvableNodes"]["b"], "cpu is 0.95, \"above\" 0.9");
        assert!(answer["Nodes"].is_null() && answer["Error"] == "" && answer["FailedNodes"] == serde_json::json!({}));
        let body = br#"{"Nodes":{"items":[{"metadata":{"name":"a"},"x":1.50} , {"metadata":{"name":"b"}},{"metadata":{"name":"c"}}, {"metadata":{"name":"d"}}]}}"#;
        let (_, asked) = read(body).expect("a request");
        let bytes = whole(body, &filter_answer(body, &asked, |at| at != 1, &refusals));
        let answer = json(&bytes);
        assert!(answer["NodeNames"].is_null());
        let names = |answer: &serde_json::Value| -> Vec<String> {
            let items = answer["Nodes"]["items"].as_array().expect("a list");
            items.iter().map(|item| item["metadata"]["name"].as_str().expect("a name").to_owned()).collect()
        };
        assert_eq!(names(&answer), ["a", "c", "d"]);
        assert!(
            String::from_utf8(bytes).expect("text").contains(r#"{"metadata":{"name":"a"},"x":1.50}"#),
            "as it came"
        );
        let all = pass_answer(body, &asked);
        assert_eq!((names(&json(&whole(body, &all))).len(), all.len()), (4, 3), "all objects are one piece");
        let none = json(&whole(body, &filter_answer(body, &asked, |_| false, &refusals)));
        assert!(names(&none).is_empty());
    }
}
