//! Reads the file and finds the line of what is wrong in it.

use std::path::Path;

use yaml_edit::Tree;

use super::check::check;
use super::{Config, ConfigError};

/// A ConfigMap holds at most a megabyte.
pub const MAX_FILE_BYTES: usize = 1024 * 1024;

/// Reads and checks a file.
pub fn load(file: &Path) -> Result<Config, ConfigError> {
    let unreadable = |why: String| ConfigError::Unreadable { file: file.to_owned(), why };
    let length = std::fs::metadata(file).map_err(|error| unreadable(error.to_string()))?.len();
    if usize::try_from(length).is_ok_and(|length| length > MAX_FILE_BYTES) {
        return Err(unreadable(format!("it has {length} bytes, and {MAX_FILE_BYTES} are the most")));
    }
    let text = std::fs::read_to_string(file).map_err(|error| unreadable(error.to_string()))?;
    parse(file, &text)
}

/// Checks a text; `file` is for the error.
pub fn parse(file: &Path, text: &str) -> Result<Config, ConfigError> {
    let wrong = |line: usize, why: String| ConfigError::Wrong { file: file.to_owned(), line: line.max(1), why };
    // Finds duplicate keys, several documents and aliases that multiply, each with its line.
    let tree = Tree::read_uncommented(text).map_err(|error| wrong(error.line.unwrap_or(1), error.message.clone()))?;
    let config: Config = serde_yaml::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |place| place.line());
        let why = error.to_string();
        let why = why.rsplit_once(" at line ").map_or(why.as_str(), |(why, _)| why);
        wrong(line, format!("{why}; docs/use/extender.md lists all fields"))
    })?;
    if let Err(fault) = check(&config) {
        let mut path = fault.path;
        // a field that is not there has the line of what it should be in
        let node = loop {
            match tree.at(&path) {
                Some(node) => break Some(node),
                None if path.is_empty() => break None,
                None => drop(path.pop()),
            }
        };
        return Err(wrong(node.map_or(1, |node| tree.line(node.span.start)), fault.why));
    }
    Ok(config)
}
