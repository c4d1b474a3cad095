//! The proof of an edit: another reader must see the old settings plus exactly the changes.

use super::error::{Error, ErrorKind};
use super::second_reader::{self, Seen, Token};
use super::setting::Setting;
use super::unit::Unit;

/// What an edit means for the words of one setting.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// The word at this index becomes another
    Set(usize, Vec<u8>),
    /// The word at this index goes
    Remove(usize),
    /// A word follows the last one
    Append(Vec<u8>),
}

/// Whether `after` is `before` with these changes of settings, given by their indices.
pub(crate) fn prove(before: &Unit<'_>, after: &[u8], changes: &[(usize, Meaning)]) -> Result<(), Error> {
    let disagree = || {
        before.refuse(
            ErrorKind::ReadersDisagree,
            "a second reader sees this unit differently; set the command line in a drop-in",
        )
    };
    let unproven = || {
        before.refuse(
            ErrorKind::Unproven,
            "the edited unit reads differently from what was meant; set the command line in a drop-in",
        )
    };
    let old = second_reader::read(before.file).ok_or_else(disagree)?;
    let settings = &before.reading.settings;
    if old.len() != settings.len() || !old.iter().zip(settings).all(|(seen, setting)| is_same(seen, setting)) {
        return Err(disagree());
    }
    let new = second_reader::read(after).filter(|new| new.len() == old.len()).ok_or_else(unproven)?;
    for (index, (old, new)) in old.iter().zip(&new).enumerate() {
        let own: Vec<&Meaning> =
            changes.iter().filter(|(setting, _)| *setting == index).map(|(_, change)| change).collect();
        if own.is_empty() {
            if old != new {
                return Err(unproven());
            }
            continue;
        }
        let tokens = second_reader::tokens(&old.value).ok_or_else(disagree)?;
        if !has_same_words(&tokens, &settings[index]) {
            return Err(disagree());
        }
        let is_as_meant = second_reader::tokens(&new.value) == Some(expect(tokens, &own));
        if !is_as_meant || old.section != new.section || old.key != new.key {
            return Err(unproven());
        }
    }
    Ok(())
}

fn is_same(seen: &Seen, setting: &Setting) -> bool {
    seen.section == setting.section.as_bytes() && seen.key == setting.key.as_bytes() && seen.value == setting.value
}

fn has_same_words(tokens: &[Token], setting: &Setting) -> bool {
    let Some(commands) = &setting.commands else { return false };
    let same = |(token, word): (&Token, &crate::Word)| match token {
        Token::Separator => word.is_separator,
        Token::Word(text) => !word.is_separator && *text == word.text,
    };
    tokens.len() == commands.words.len() && tokens.iter().zip(&commands.words).all(same)
}

fn expect(tokens: Vec<Token>, changes: &[&Meaning]) -> Vec<Token> {
    let mut expected = Vec::with_capacity(tokens.len());
    for (index, token) in tokens.into_iter().enumerate() {
        let change =
            changes.iter().find(|change| matches!(change, Meaning::Set(at, _) | Meaning::Remove(at) if *at == index));
        match change {
            Some(Meaning::Set(_, text)) => expected.push(Token::Word(text.clone())),
            Some(_) => {}
            None => expected.push(token),
        }
    }
    expected.extend(changes.iter().filter_map(|change| match change {
        Meaning::Append(text) => Some(Token::Word(text.clone())),
        _ => None,
    }));
    expected
}

#[cfg(test)]
mod tests {
    use super::*;

    type Change = dyn Fn(&mut Vec<Setting>);

    const BEFORE: &[u8] = b"[Service]\nType=simple\nExecStart=/x a\n";

    fn prove_text(after: &str) -> Result<(), ErrorKind> {
        let changes = [(1, Meaning::Set(1, b"b".to_vec())), (1, Meaning::Append(b"c d".to_vec()))];
        prove(&Unit::parse("u.service", BEFORE), after.as_bytes(), &changes).map_err(|error| error.kind)
    }

    #[test]
    fn only_a_text_that_says_exactly_what_was_meant_is_given_out() {
        assert_eq!(prove_text("[Service]\nType=simple\n# note\nExecStart=/x 'b' \\\n  'c d'\n"), Ok(()));
        for wrong in [
            "[Service]\nType=simple\nExecStart=/x a\n",
            "[Service]\nType=simple\nExecStart=/x b\n",
            "[Service]\nType=simple\nExecStart=/x b c d\n",
            "[Service]\nType=simple\nExecStart=/x b 'c d' e\n",
            "[Service]\nType=simple\nExecStart=/x b ; 'c d'\n",
            "[Service]\nType=simple\nExecStart=/x b 'c d\n",
            "[Service]\nType=simple\nExecStop=/x b 'c d'\n",
            "[Service]\nType=oneshot\nExecStart=/x b 'c d'\n",
            "[Service]\nType=simple\n[Unit]\nExecStart=/x b 'c d'\n",
            "[Service]\nType=simple\nExecStart=/x b 'c d'\nRestart=no\n",
            "[Service]\nExecStart=/x b 'c d'\nType=simple\n",
            "[Service]\nExecStart=/x b 'c d'\n",
            "[Service]\nType=simple\nExecStart=/x b 'c d'\n[Unit\n",
        ] {
            assert_eq!(prove_text(wrong), Err(ErrorKind::Unproven), "{wrong}");
        }
    }

    #[test]
    fn readers_that_disagree_about_the_text_before_prove_nothing() {
        let after = b"[Service]\nType=simple\nExecStart=/x a b\n";
        let meaning = [(1, Meaning::Append(b"b".to_vec()))];
        let prove_reading = |change: &Change| {
            let mut unit = Unit::parse("u.service", BEFORE);
            change(&mut unit.reading.settings);
            prove(&unit, after, &meaning).map_err(|error| error.kind)
        };
        assert_eq!(prove_reading(&|_| {}), Ok(()));
        let changes: [&Change; 4] = [
            &|settings| settings[0].value = b"other".to_vec(),
            &|settings| settings[1].section = "Unit".to_owned(),
            &|settings| drop(settings.pop()),
            &|settings| {
                if let Some(commands) = &mut settings[1].commands {
                    commands.words[1].text = b"other".to_vec();
                }
            },
        ];
        for change in changes {
            assert_eq!(prove_reading(change), Err(ErrorKind::ReadersDisagree));
        }
    }
}
