//! Flags that may be given several times: in the environment, where there is one variable for all, each line is a value.

use std::ffi::OsStr;

use clap::builder::{PossibleValue, TypedValueParser};
use clap::{Arg, Command, Error};

/// The values that one flag or one variable holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct List<T>(Vec<T>);

/// All values of a flag, in their order.
pub(super) fn all<T>(lists: Vec<List<T>>) -> Vec<T> {
    lists.into_iter().flat_map(|list| list.0).collect()
}

/// Reads lists: the parser of one value, and the separator.
#[derive(Clone)]
pub(super) struct ListOf<P> {
    item: P,
    separators: &'static [char],
}

/// Values that may hold commas, one on each line.
pub(super) fn lines<P>(item: P) -> ListOf<P> {
    ListOf { item, separators: &['\n'] }
}

/// Values that hold no commas, on lines or with commas between them.
pub(super) fn lines_or_commas<P>(item: P) -> ListOf<P> {
    ListOf { item, separators: &['\n', ','] }
}

impl<P: TypedValueParser> TypedValueParser for ListOf<P> {
    type Value = List<P::Value>;

    fn parse_ref(&self, command: &Command, arg: Option<&Arg>, value: &OsStr) -> Result<Self::Value, Error> {
        let Some(text) = value.to_str() else {
            return self.item.parse_ref(command, arg, value).map(|item| List(vec![item]));
        };
        // a text in YAML ends with a line break, so empty lines mean nothing
        let parts = text.split(self.separators).map(|part| part.trim_end_matches('\r')).filter(|part| !part.is_empty());
        let items =
            parts.map(|part| self.item.parse_ref(command, arg, OsStr::new(part))).collect::<Result<Vec<_>, _>>()?;
        if items.is_empty() {
            // the parser of one value says what is wrong with none
            return self.item.parse_ref(command, arg, OsStr::new("")).map(|item| List(vec![item]));
        }
        Ok(List(items))
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        self.item.possible_values()
    }
}
