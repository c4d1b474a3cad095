//! Damaged units against the laws. `UNIT_EDIT_FUZZ=1000000` says how many, `UNIT_EDIT_SEED` where they begin.

#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]
#![allow(clippy::disallowed_methods, reason = "the environment says how long the test runs")]

mod support;

use std::collections::BTreeMap;
use std::panic::catch_unwind;

use support::{Random, arguments, corpus, damage, soup};
use unit_edit::{Argument, Edit, ErrorKind, Unit};

const OWNER: &str = "fuzz";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(default)
}

/// What became of one input.
enum Outcome {
    Edited,
    Refused(String),
}

fn wanted(random: &mut Random) -> Vec<Argument> {
    arguments(random.pick(&[
        "--kube-scheduler-arg=config=/etc/x.yaml\t--kube-scheduler-arg=config=\n",
        "--kube-scheduler-arg=config=/etc/x.yaml\t--kube-scheduler-arg=config=\n--debug\n",
        "--disable\n",
        "--text=it's 100% $HOME; \"é\"\\\n",
        "server\n",
    ]))
}

fn try_one(seed: u64, corpus: &[Vec<u8>]) -> Result<Outcome, String> {
    let mut random = Random(seed);
    let base = &corpus[random.below(corpus.len())];
    let before = if random.chance(10) { soup(&mut random) } else { damage(base, &mut random) };
    let wanted = wanted(&mut random);
    let edit = Edit { owner: OWNER, note: "n 1", arguments: &wanted };
    let unit = Unit::parse("u.service", &before);
    let after = match unit.edit(&edit) {
        Ok(after) => after,
        Err(error) if error.message.is_empty() => return Err("an error without words".to_owned()),
        // a mistake in a reader or in the edit, though a harmless one
        Err(error) if matches!(error.kind, ErrorKind::ReadersDisagree | ErrorKind::Unproven) => {
            return Err(error.message);
        }
        Err(error) => return Ok(Outcome::Refused(format!("{:?}", error.kind))),
    };
    let edited = Unit::parse("u.service", &after);
    let check = |is_kept: bool, law: &str| if is_kept { Ok(()) } else { Err(law.to_owned()) };
    check(edited.is_applied(&edit) == Ok(true), "an edit is applied")?;
    check(edited.edit(&edit).as_deref() == Ok(after.as_slice()), "a second edit changes nothing")?;
    check(edited.restore(OWNER).as_deref() == Ok(before.as_slice()), "restoring gives the text before")?;
    check(is_kept(&before, &after, &displaced(&edited)), "bytes of others stay, in order")?;
    check(has_arguments(&unit, &edited, &wanted), "the command line has the old words and the new")?;

    let other = [Argument::new("--other=2").named("--other=")];
    let later = Edit { owner: OWNER, note: "n 2", arguments: &other };
    let replaced = edited.edit(&later).map_err(|error| format!("an edit is replaced: {error}"))?;
    let direct = unit.edit(&later).map_err(|error| format!("another edit is made: {error}"))?;
    check(replaced == direct, "an edit over an edit is an edit of the original")?;

    // somebody else edits the file in between
    let foreign = damage(&after, &mut random);
    let changed = Unit::parse("u.service", &foreign);
    if let Ok(restored) = changed.restore(OWNER) {
        let clean = Unit::parse("u.service", &restored);
        let is_gone = restored == foreign || clean.record(OWNER) == Ok(None);
        check(is_gone, "nothing of ours is left")?;
        let put_back = displaced(&changed);
        check(!put_back.is_empty() || is_kept(&restored, &foreign, &[]), "restoring only removes")?;
    }
    if let Ok(again) = changed.edit(&edit) {
        let unit = Unit::parse("u.service", &again);
        check(unit.edit(&edit).as_deref() == Ok(again.as_slice()), "a second edit of a foreign text changes nothing")?;
    }
    Ok(Outcome::Edited)
}

/// The words that the edit replaced, as the comment of the edit has them.
fn displaced(unit: &Unit<'_>) -> Vec<Vec<u8>> {
    let changes = unit.record(OWNER).ok().flatten().map(|record| record.changes).unwrap_or_default();
    let was = |change| match change {
        unit_edit::Change::Set { was, .. } => Some(was),
        unit_edit::Change::Added(_) => None,
    };
    changes.into_iter().filter_map(was).collect()
}

/// Whether all bytes of `before` are in `after`, in order, but for one occurrence of each displaced word.
fn is_kept(before: &[u8], after: &[u8], displaced: &[Vec<u8>]) -> bool {
    let Some((word, others)) = displaced.split_first() else {
        let mut rest = after.iter();
        return before.iter().all(|byte| rest.any(|other| other == byte));
    };
    let mut places = before.windows(word.len()).enumerate().filter(|(_, place)| place == word).map(|(start, _)| start);
    let without = |start: usize| [&before[..start], &before[start + word.len()..]].concat();
    places.any(|start| is_kept(&without(start), after, others))
}

/// The old words in order, then or in between the new ones.
fn has_arguments(before: &Unit<'_>, after: &Unit<'_>, wanted: &[Argument]) -> bool {
    let words = |unit: &Unit<'_>| unit.exec_start().map(|command| command.argv()).unwrap_or_default();
    let (old, new) = (words(before), words(after));
    let added = new.len() - old.len();
    let kept = old.iter().zip(&new).filter(|(old, new)| old == new).count();
    let literals: Vec<Vec<u8>> = after
        .exec_start()
        .map(|command| command.arguments().iter().filter_map(unit_edit::Word::literal).collect())
        .unwrap_or_default();
    let is_there = |argument: &Argument| {
        let (one, two) =
            (argument.text().as_bytes(), argument.text().split_once('=').map(|(_, value)| value.as_bytes()));
        literals.iter().any(|word| word == one || Some(word.as_slice()) == two)
    };
    added <= wanted.len() && old.len() - kept <= wanted.len() - added && wanted.iter().all(is_there)
}

#[test]
fn damaged_units_are_edited_and_restored_byte_for_byte_or_refused() {
    let (inputs, first) = (number("UNIT_EDIT_FUZZ", 5_000), number("UNIT_EDIT_SEED", 0));
    let corpus = corpus();
    let mut edited = 0_u64;
    let mut refused: BTreeMap<String, u64> = BTreeMap::new();
    let mut wrong = Vec::new();
    for seed in first..first + inputs {
        let seed = seed.wrapping_mul(0x2545_F491_4F6C_DD1D);
        match catch_unwind(|| try_one(seed, &corpus)) {
            Ok(Ok(Outcome::Edited)) => edited += 1,
            Ok(Ok(Outcome::Refused(kind))) => *refused.entry(kind).or_default() += 1,
            Ok(Err(law)) => wrong.push(format!("seed {seed}: {law}")),
            Err(_) => wrong.push(format!("seed {seed}: panic")),
        }
    }
    let total: u64 = refused.values().sum();
    println!(
        "{inputs} inputs: {edited} edited and restored byte for byte, {total} refused {refused:?}, {} wrong",
        wrong.len()
    );
    assert!(wrong.is_empty(), "{:#?}", &wrong[..wrong.len().min(10)]);
    assert!(edited * 10 >= inputs * 4, "too few inputs were edited: {edited} of {inputs}");
}
