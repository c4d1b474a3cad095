//! The laws of an edit, checked from outside: by bytes and lines, with no help from the editor.

use schedpatch::target::static_pod::{self, Draft};
use schedpatch::target::{Refusal, Wanted};

use super::rng::Rng;

/// What an input came to.
#[derive(Debug)]
pub enum Outcome {
    /// Edited and undone; the edited text.
    Edited(String),
    Refused(Refusal),
}

pub fn wanted(revision: &str, generation: u64) -> Wanted {
    Wanted {
        revision: revision.to_owned(),
        generation,
        config_dir: format!("/var/lib/schedpatch/revisions/{revision}"),
        image: None,
        command: None,
        run_as_user: None,
        dns_policy: None,
        args: Vec::new(),
        mounts: Vec::new(),
    }
}

fn patch(text: &str, wanted: &Wanted) -> Result<String, Refusal> {
    static_pod::patch(text, wanted)?.prove()
}

/// Checks laws 1 to 4 on one text. `Err` is a broken law.
pub fn check(text: &str, wanted: &Wanted, rng: &mut Rng) -> Result<Outcome, String> {
    let patched = match patch(text, wanted) {
        Ok(patched) => patched,
        Err(refusal) if refusal.message.is_empty() => return Err("a refusal without a reason".to_owned()),
        Err(refusal) => return Ok(Outcome::Refused(refusal)),
    };
    let again = patch(&patched, wanted).map_err(|refusal| format!("its own result is refused: {refusal}"))?;
    same("patching twice is not patching once", &patched, &again)?;
    let back = unpatch(&patched)?;
    same("undone, it is not the text that it was", text, &back)?;
    if static_pod::unpatch(text).and_then(Draft::prove).as_deref() != Ok(text) {
        return Err("undoing what was not done changes the text".to_owned());
    }
    let ours = our_lines(text, &patched)?;
    let next = Wanted { generation: wanted.generation + 1, ..super::laws::wanted("fedcba987654", 0) };
    let next = Wanted {
        image: wanted.image.clone(),
        command: wanted.command.clone(),
        run_as_user: wanted.run_as_user,
        dns_policy: wanted.dns_policy.clone(),
        args: wanted.args.clone(),
        ..next
    };
    let over = patch(&patched, &next).map_err(|refusal| format!("a second revision is refused: {refusal}"))?;
    same("a second revision differs from a first one", &patch(text, &next).map_err(|r| r.to_string())?, &over)?;
    foreign_comment_stays(text, &patched, &ours, rng)?;
    Ok(Outcome::Edited(patched))
}

fn unpatch(text: &str) -> Result<String, String> {
    static_pod::unpatch(text).and_then(Draft::prove).map_err(|refusal| format!("cannot be undone: {refusal}"))
}

fn same(what: &str, expected: &str, found: &str) -> Result<(), String> {
    if expected == found { Ok(()) } else { Err(format!("{what}\n--- expected\n{expected}\n--- found\n{found}")) }
}

/// Which lines of `after` are not of `before`. Every line of `before` must stand in `after`, in order and unchanged, but
/// for lines into which something of ours was put, or in which a displaced value was replaced.
fn our_lines(before: &str, after: &str) -> Result<Vec<bool>, String> {
    let displaced = displaced(after)?;
    let new = lines(after);
    let mut ours = vec![true; new.len()];
    let mut at = 0;
    for line in lines(before) {
        let found = new[at..].iter().position(|other| *other == line || is_explained(line, other, &displaced));
        let Some(found) = found else { return Err(format!("a foreign line is gone: {line:?}\n{after}")) };
        at += found;
        ours[at] = new[at] != line;
        at += 1;
    }
    Ok(ours)
}

/// Lines without their line breaks: the last one may have gained one.
fn lines(text: &str) -> Vec<&str> {
    text.split('\n').map(|line| line.strip_suffix('\r').unwrap_or(line)).collect()
}

/// The values that the manifest itself says were displaced.
fn displaced(after: &str) -> Result<Vec<String>, String> {
    let document: serde_yaml::Value = serde_yaml::from_str(after).map_err(|error| error.to_string())?;
    let undo = document["metadata"]["annotations"]["schedpatch.io/undo"].as_str().unwrap_or_default();
    let undo: serde_json::Value = serde_json::from_str(undo).map_err(|error| error.to_string())?;
    let values = undo["displaced"].as_object().into_iter().flatten();
    let mut values: Vec<String> = values.filter_map(|(_, value)| value.as_str().map(str::to_owned)).collect();
    // the longest first, so that one that is part of another does not spoil it
    values.sort_by_key(|value| std::cmp::Reverse(value.len()));
    Ok(values)
}

/// Whether `new` is `old` with something of ours put into it, and at most displaced values taken out.
fn is_explained(old: &str, new: &str, displaced: &[String]) -> bool {
    let kept =
        displaced.iter().filter(|value| !value.is_empty()).fold(old.to_owned(), |line, value| line.replace(value, ""));
    let is_ours =
        ["schedpatch", "terminationMessagePolicy", "dnsPolicy", "--v=4", "--bind-address=0.0.0.0", "registry.example"]
            .iter()
            .any(|mark| new.contains(mark));
    let mut rest = new.bytes();
    let survives = kept.bytes().all(|byte| rest.any(|other| other == byte));
    !old.trim().is_empty() && survives && (is_ours || kept != old)
}

/// Somebody puts a comment before a line that is not ours: after undoing it is where they put it.
fn foreign_comment_stays(text: &str, patched: &str, ours: &[bool], rng: &mut Rng) -> Result<(), String> {
    let new: Vec<&str> = patched.split_inclusive('\n').collect();
    let foreign: Vec<usize> = (0..new.len()).filter(|index| !ours[*index] && is_plain_line(new[*index])).collect();
    if foreign.is_empty() {
        return Ok(());
    }
    let at = foreign[rng.below(foreign.len())];
    let line = new[at];
    if new.iter().filter(|other| **other == line).count() != 1
        || text.split_inclusive('\n').filter(|other| *other == line).count() != 1
    {
        return Ok(());
    }
    let column = line.len() - line.trim_start().len();
    let commented = format!("{:column$}# somebody was here\n{line}", "");
    let edited = patched.replacen(line, &commented, 1);
    if static_pod::read(&edited).is_err() {
        return Ok(());
    }
    let expected = text.replacen(line, &commented, 1);
    same("a foreign comment did not survive the undoing", &expected, &unpatch(&edited)?)
}

/// A line on which a comment may be put without being part of a scalar or a flow collection.
fn is_plain_line(line: &str) -> bool {
    let body = line.trim();
    line.ends_with('\n')
        && body.len() > 8
        && body.bytes().all(|b| b.is_ascii_alphanumeric() || b" -:=./_".contains(&b))
        && (body.contains(": ") || body.starts_with("- --"))
}
