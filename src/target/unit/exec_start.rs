//! The method `execstart`: arguments at the end of the unit's own command line. Pure.
//!
//! Only what was added is remembered, in a comment of the unit: others edit the rest of it too.

use unit_edit::{Argument, Change, Edit, Record, Unit};

use super::{OWNER, server, spec};
use crate::target::refusal::{Refusal, Rule};
use crate::target::{Context, Definition, Ours, SchedulerSpec, Wanted};

/// How the command line gives an argument to the scheduler.
pub(super) const FLAG: &str = "--kube-scheduler-arg=";

/// The text of a unit.
#[derive(Debug)]
pub(super) struct ExecStart<'a> {
    pub text: &'a str,
    pub context: Context<'a>,
}

impl ExecStart<'_> {
    fn unit(&self) -> Unit<'_> {
        Unit::parse(self.context.path, self.text.as_bytes())
    }

    fn record(&self) -> Result<Option<Record>, Refusal> {
        Ok(self.unit().record(OWNER)?)
    }

    fn ours(&self) -> Result<Option<Ours>, Refusal> {
        let Some(record) = self.record()? else { return Ok(None) };
        spec::marks(&record.note).map(|(ours, _)| Some(ours)).ok_or_else(unreadable_record)
    }

    fn edited(&self, note: &str, arguments: &[Argument]) -> Result<String, Refusal> {
        let edited = self.unit().edit(&Edit { owner: OWNER, note, arguments })?;
        String::from_utf8(edited).map_err(|_| Refusal::new(Rule::Unproven, "the edited unit is no UTF-8 text"))
    }
}

impl Definition for ExecStart<'_> {
    fn spec(&self) -> Result<SchedulerSpec, Refusal> {
        let Context { path, around } = self.context;
        let server = server::read(path, self.text, around, None)?;
        if let Some((file, line)) = &server.overridden_by {
            let message = format!("{file}:{line} sets ExecStart= in place of this unit, so an edit here has no effect");
            return Err(Refusal::new(Rule::UnitOverridden, message));
        }
        spec::of_server(&server, around, self.ours()?)
    }

    fn edit(&self, wanted: &Wanted) -> Result<String, Refusal> {
        let arguments: Vec<Argument> = spec::arguments(wanted)?.iter().map(|own| argument(own)).collect();
        let record = self.record()?;
        // what a rollback noted stays for as long as its text does
        let marks = record.as_ref().and_then(|record| spec::marks(&record.note));
        let is_same = |ours: &Ours| ours.revision == wanted.revision && ours.generation == wanted.generation;
        let failed = marks.filter(|(ours, _)| is_same(ours)).and_then(|(_, failed)| failed);
        self.edited(&spec::note(&wanted.revision, wanted.generation, failed), &arguments)
    }

    fn restore(&self) -> Result<String, Refusal> {
        let restored = self.unit().restore(OWNER)?;
        String::from_utf8(restored).map_err(|_| Refusal::new(Rule::Unproven, "the restored unit is no UTF-8 text"))
    }

    fn recommit(&self, generation: u64, rolled_back_from: Option<&str>) -> Result<String, Refusal> {
        let record = self.record()?.ok_or_else(unreadable_record)?;
        let (ours, _) = spec::marks(&record.note).ok_or_else(unreadable_record)?;
        let arguments: Vec<Argument> = record.changes.iter().map(|change| argument(word(change))).collect();
        self.edited(&spec::note(&ours.revision, generation, rolled_back_from), &arguments)
    }
}

/// `name=value` as an argument of the command line, which takes the place of an earlier value.
fn argument(own: &str) -> Argument {
    let name = own.split_once('=').map_or(own, |(name, _)| name);
    // k3s takes it with dashes too
    Argument::new(format!("{FLAG}{own}")).named(format!("{FLAG}{name}=")).named(format!("{FLAG}--{name}="))
}

/// What a change has put into the command line, as `name=value`: also where the flag is a word of its own.
fn word(change: &Change) -> &str {
    let (Change::Added(word) | Change::Set { word, .. }) = change;
    word.strip_prefix(FLAG).unwrap_or(word)
}

fn unreadable_record() -> Refusal {
    Refusal::new(Rule::UndoRecord, "the comment that remembers our edit does not say which revision it is of")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_earlier_value_with_dashes_is_replaced_and_comes_back() {
        for hand in
            ["--kube-scheduler-arg=--config=/x", "--kube-scheduler-arg --config=/x", "--kube-scheduler-arg=config=/x"]
        {
            let text = format!("[Service]\nExecStart=/usr/local/bin/k3s server {hand}\n");
            let edit = Edit { owner: OWNER, note: "n", arguments: &[argument("config=/y")] };
            let edited = Unit::parse("k3s.service", text.as_bytes()).edit(&edit).unwrap();
            let unit = Unit::parse("k3s.service", &edited);
            let words: Vec<_> = unit.exec_start().unwrap().argv().concat();
            let words = String::from_utf8(words).unwrap();
            assert!(words.contains("config=/y") && !words.contains("config=/x"), "{words}");
            assert_eq!(unit.restore(OWNER).unwrap(), text.as_bytes(), "{hand}");
        }
    }
}
