//! Taking an edit out again.

use std::ops::Range;

use super::error::{Error, ErrorKind};
use super::proof::{self, Meaning};
use super::record::{Change, Record};
use super::splice::{self, Splice};
use super::unit::Unit;
use super::word::Word;

/// A word of ours: index of its setting, its own index in it.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Place {
    setting: usize,
    word: usize,
}

impl Unit<'_> {
    /// The text without the edit of `owner`: byte for byte the text before it if nobody else touched the file. Otherwise
    /// only the words and the comment of the edit go, displaced words come back, and everything else stays.
    pub fn restore(&self, owner: &str) -> Result<Vec<u8>, Error> {
        let Some((record, line)) = self.find_record(owner)? else { return Ok(self.file.to_vec()) };
        self.check()?;
        let mut splices = vec![Splice::delete(self.lines[line].text.start..self.lines[line].next)];
        let mut changes = Vec::new();
        for (change, place) in self.places(&record, line) {
            let Some((words, word)) = self.words_at(place) else { continue };
            match change {
                Change::Added(_) => {
                    splices.push(Splice::delete(self.cut(words, place.word)));
                    changes.push((place.setting, Meaning::Remove(place.word)));
                }
                Change::Set { was, .. } => {
                    let text = Unit::unquote(was).ok_or_else(|| self.by_hand(line))?;
                    splices.push(Splice { range: word.span.clone(), put: was.clone() });
                    changes.push((place.setting, Meaning::Set(place.word, text)));
                }
            }
        }
        let text = splice::apply(self.file, splices).ok_or_else(|| self.by_hand(line))?;
        match proof::prove(self, &text, &changes) {
            Err(error) if error.kind == ErrorKind::Unproven => Err(self.by_hand(line)),
            proven => proven.map(|()| text),
        }
    }

    fn by_hand(&self, line: usize) -> Error {
        let message = "cannot take the edit out safely; remove the arguments that this comment names, and the comment";
        self.refuse_at(ErrorKind::Unproven, line + 1, message)
    }

    /// Where the words of an edit are now; words that somebody else removed are left out.
    fn places<'a>(&self, record: &'a Record, line: usize) -> Vec<(&'a Change, Place)> {
        let mut settings: Vec<usize> = self.command_lines().rev().map(|(index, ..)| index).collect();
        let follows = |index: &usize| self.reading.settings[*index].first_line > line;
        if let Some(at) = settings.iter().rposition(follows) {
            // the comment is directly before the command line
            let own = settings.remove(at);
            settings.insert(0, own);
        }
        let mut found: Vec<(&Change, Place)> = Vec::new();
        for change in &record.changes {
            let (Change::Added(text) | Change::Set { word: text, .. }) = change;
            let place = settings.iter().find_map(|setting| {
                let words = &self.reading.settings[*setting].commands.as_ref()?.words;
                let is_free = |word: usize| found.iter().all(|(_, other)| *other != Place { setting: *setting, word });
                let is_ours = |word: &Word| !word.is_separator && word.literal().as_deref() == Some(text.as_bytes());
                let word = (1..words.len()).rev().find(|word| is_ours(&words[*word]) && is_free(*word))?;
                Some(Place { setting: *setting, word })
            });
            found.extend(place.map(|place| (change, place)));
        }
        found
    }

    fn words_at(&self, place: Place) -> Option<(&[Word], &Word)> {
        let words = &self.reading.settings[place.setting].commands.as_ref()?.words;
        Some((words, words.get(place.word)?))
    }

    /// What goes with a word: the gap before it, as the edit wrote it. If somebody wrote lines in between, they stay.
    fn cut(&self, words: &[Word], index: usize) -> Range<usize> {
        let span = words[index].span.clone();
        let before = words[index - 1].span.end;
        let (from, to) = (self.line_at(before - 1), self.line_at(span.start));
        if to - from <= 1 {
            return before..span.end;
        }
        let line = &self.lines[to];
        let is_alone = words.get(index + 1).is_none_or(|next| self.line_at(next.span.start) > to);
        let is_continued = self.file[..line.text.end].ends_with(b"\\");
        if is_alone && is_continued { line.text.start..line.next } else { span }
    }

    /// What one word reads as.
    fn unquote(source: &[u8]) -> Option<Vec<u8>> {
        match super::second_reader::tokens(source)?.as_slice() {
            [super::second_reader::Token::Word(text)] => Some(text.clone()),
            _ => None,
        }
    }
}
