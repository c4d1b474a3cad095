//! The log: one line for each change, on standard error, as text or JSON.

use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

/// This crate, whose lines are the program's own.
const SHARED: &str = env!("CARGO_CRATE_NAME");

/// Form of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Format {
    /// For people
    Text,
    /// One object a line
    Json,
}

/// Starts the log of a program and of what the programs share. Lines of libraries appear only from debug on, and then only
/// warnings.
pub fn start(target: &'static str, level: LevelFilter, format: Format) {
    let others = if level >= LevelFilter::DEBUG { LevelFilter::WARN } else { LevelFilter::OFF };
    let own = Targets::new().with_default(others).with_target(target, level).with_target(SHARED, level);
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_target(false).with_ansi(false);
    let log = tracing_subscriber::registry().with(own);
    // only a second log in the same process makes this fail, and that is no reason to stop
    let _ = match format {
        Format::Text => log.with(lines).try_init(),
        Format::Json => log.with(lines.json().flatten_event(true)).try_init(),
    };
}

pub use tracing_subscriber::filter::LevelFilter as Level;

/// A text of others as part of a log line or message: one line of at most so many bytes.
pub fn shortened(text: &str, most: usize) -> String {
    let end = text.floor_char_boundary(most);
    let mut line = text[..end].replace(char::is_control, " ");
    if end < text.len() {
        line.push('…');
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_of_others_become_one_short_line() {
        assert_eq!(shortened("a\nb\u{1b}[1m", 100), "a b [1m");
        assert_eq!(shortened("ää", 3), "ä…");
        assert_eq!(shortened("", 3), "");
    }
}
