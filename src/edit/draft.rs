//! An edit that has been written but not yet proven.

use super::data::Data;
use super::op::Op;
use super::refusal::{Refusal, Rule};
use super::splice::{self, Splice};
use super::tree::Tree;

/// A text before and after an edit, and what the edit means. The only way to the new text is [`Draft::prove`].
#[derive(Debug)]
pub struct Draft<'a> {
    before: &'a str,
    after: String,
    ops: Vec<Op>,
}

impl<'a> Draft<'a> {
    /// Writes `ops` into the text of `tree`.
    pub(crate) fn new(tree: &Tree<'a>, ops: Vec<Op>) -> Result<Self, Refusal> {
        let mut splices = Vec::new();
        for op in &ops {
            splices.extend(tree.write(op)?);
        }
        Self::from_splices(tree, ops, splices)
    }

    pub(crate) fn from_splices(tree: &Tree<'a>, ops: Vec<Op>, splices: Vec<Splice>) -> Result<Self, Refusal> {
        Ok(Self { before: tree.text, after: splice::apply(tree.text, splices)?, ops })
    }

    pub(crate) fn into_parts(self) -> (String, Vec<Op>) {
        (self.after, self.ops)
    }

    /// This edit and another that was made on its result, as one.
    pub(crate) fn then(mut self, after: String, ops: Vec<Op>) -> Self {
        self.ops.extend(ops);
        Self { after, ..self }
    }

    pub(crate) fn unproven(&self) -> &str {
        &self.after
    }

    /// The new text, if another YAML reader sees in it the old document plus exactly our change.
    pub fn prove(self) -> Result<String, Refusal> {
        if self.after == self.before {
            return Ok(self.after);
        }
        let mut expected = Data::read(self.before).map_err(|error| {
            let message = format!("a second YAML reader cannot read the file: {error}");
            Refusal { rule: Rule::ReadersDisagree, line: error.location().map(|at| at.line()), message }
        })?;
        if self.ops.iter().any(|op| expected.apply(op).is_none()) {
            let message = "a second YAML reader does not find what must be changed";
            return Err(Refusal::new(Rule::ReadersDisagree, message));
        }
        match Data::read(&self.after) {
            Ok(found) if found == expected => Ok(self.after),
            Ok(_) => Err(Refusal::new(Rule::Unproven, "the edited text reads differently from what was meant")),
            Err(error) => Err(Refusal::new(Rule::Unproven, format!("the edited text cannot be read back: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edit::op::Value;
    use crate::edit::tree::Seg;

    const BEFORE: &str = "list:\n- a\nother: 1\n";

    fn draft(after: &str) -> Draft<'static> {
        let ops = vec![Op::Push { list: vec![Seg::Key("list".into())], items: vec![Value::text("b")] }];
        Draft { before: BEFORE, after: after.to_owned(), ops }
    }

    #[test]
    fn only_a_text_that_says_exactly_what_was_meant_is_given_out() {
        assert!(draft("list:\n- a\n- b\nother: 1\n").prove().is_ok());
        for wrong in [
            "list:\n- a\nother: 1\nlist2:\n- b\n",
            "list:\n- a\n- b\nother: 2\n",
            "list:\n- a\n- b\n",
            "other: 1\nlist:\n- a\n- b\n",
            "list:\n- a\n- b\n- c\nother: 1\n",
            "list: [",
        ] {
            assert_eq!(draft(wrong).prove().map_err(|refusal| refusal.rule), Err(Rule::Unproven), "{wrong}");
        }
    }
}
