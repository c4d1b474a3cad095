//! An edit that has been written but not yet proven.

use super::error::{Error, ErrorKind};
use super::op::Op;
use super::second_reader::Data;
use super::splice::{self, Splice};
use super::tree::Tree;

/// A text before and after an edit, and what the edit means. [`Draft::prove`] gives the new text once it is proven; the
/// other ways to it are for looking, and for joining edits before they are proven together.
#[derive(Debug)]
pub struct Draft<'a> {
    before: &'a str,
    after: String,
    ops: Vec<Op>,
}

impl<'a> Draft<'a> {
    /// Writes `ops` into the text of `tree`.
    pub fn new(tree: &Tree<'a>, ops: Vec<Op>) -> Result<Self, Error> {
        let mut splices = Vec::new();
        for op in &ops {
            splices.extend(tree.write(op)?);
        }
        Self::from_splices(tree, ops, splices)
    }

    /// An edit whose splices were made by hand; `ops` say what they mean.
    pub fn from_splices(tree: &Tree<'a>, ops: Vec<Op>, splices: Vec<Splice>) -> Result<Self, Error> {
        Ok(Self { before: tree.text, after: splice::apply(tree.text, splices)?, ops })
    }

    /// The unproven text, and what the edit means.
    pub fn into_parts(self) -> (String, Vec<Op>) {
        (self.after, self.ops)
    }

    /// This edit and another that was made on its result, as one.
    #[must_use]
    pub fn then(mut self, after: String, ops: Vec<Op>) -> Self {
        self.ops.extend(ops);
        Self { after, ..self }
    }

    /// The new text before it is proven: to look at, not to use.
    pub fn unproven(&self) -> &str {
        &self.after
    }

    /// The new text, if another YAML reader sees in it the old document plus exactly the operations.
    pub fn prove(self) -> Result<String, Error> {
        if self.after == self.before {
            return Ok(self.after);
        }
        let mut expected = Data::read(self.before).map_err(|error| {
            let message = format!("a second YAML reader cannot read the file: {error}");
            Error { kind: ErrorKind::ReadersDisagree, line: error.location().map(|at| at.line()), message }
        })?;
        if self.ops.iter().any(|op| expected.apply(op).is_none()) {
            let message = "a second YAML reader does not find what must be changed";
            return Err(Error::new(ErrorKind::ReadersDisagree, message));
        }
        match Data::read(&self.after) {
            Ok(found) if found == expected => Ok(self.after),
            Ok(_) => Err(Error::new(ErrorKind::Unproven, "the edited text reads differently from what was meant")),
            Err(error) => Err(Error::new(ErrorKind::Unproven, format!("the edited text cannot be read back: {error}"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::Value;
    use crate::tree::Segment;

    const BEFORE: &str = "list:\n- a\nother: 1\n";

    fn draft(after: &str) -> Draft<'static> {
        let ops = vec![Op::Push { list: vec![Segment::Key("list".into())], items: vec![Value::text("b")] }];
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
            assert_eq!(draft(wrong).prove().map_err(|error| error.kind), Err(ErrorKind::Unproven), "{wrong}");
        }
    }
}
