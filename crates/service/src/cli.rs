//! What the command lines of the programs share: how they are run, and how they print.

use std::ffi::OsString;
use std::io::Write as _;
use std::process::ExitCode;

/// What a command comes to, or why it could not be tried.
pub type Ran = Result<ExitCode, String>;

/// Form of a command's output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Output {
    /// For people
    Table,
    /// For machines
    Json,
}

/// Reads the arguments and runs a command on one thread. Wrong usage exits with 2, a failure with 1 and its reason.
pub fn main<A: clap::Parser, F: Future<Output = Ran>>(
    program: &str,
    arguments: Vec<OsString>,
    run: impl FnOnce(A) -> F,
) -> ExitCode {
    let args = match A::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let ran = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(format!("cannot start the runtime: {error}; see ulimit -n")),
    };
    ran.unwrap_or_else(|why| {
        eprintln!("{program}: {why}");
        ExitCode::FAILURE
    })
}

/// Prints a text. A reader that hangs up has seen enough.
pub fn print(text: &str) {
    let _ = std::io::stdout().lock().write_all(text.as_bytes());
}

/// Columns as wide as their widest cell.
pub fn table(rows: &[Vec<String>]) -> String {
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        text.push_str(cells.collect::<Vec<_>>().join("   ").trim_end());
        text.push('\n');
    }
    text
}
