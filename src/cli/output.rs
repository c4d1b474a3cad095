//! What all commands print the same way.

use std::io::{self, Write};
use std::process::ExitCode;

use anstream::{AutoStream, ColorChoice};
use clap::ValueEnum;

use crate::finding::Finding;
use crate::plan::{self, Colour};

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(super) enum Output {
    /// For people
    Text,
    /// One document for machines, printed on errors too
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set (CLICOLOR and CLICOLOR_FORCE count too)
    Auto,
    Always,
    Never,
}

/// Colour.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct ColorArgs {
    /// When to colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum)]
    color: When,
}

impl ColorArgs {
    pub fn resolve(self) -> Colour {
        let on = match self.color {
            When::Always => true,
            When::Never => false,
            When::Auto => AutoStream::choice(&io::stdout()) != ColorChoice::Never,
        };
        if on { Colour::On } else { Colour::Off }
    }
}

/// Runs a command that asks the API, to its end.
pub(super) fn block_on<T>(asked: impl Future<Output = Result<T, Finding>>) -> Result<T, Finding> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(|error| Finding::error("runtime", error.to_string(), "see ulimit -n"))?.block_on(asked)
}

/// Prints the answer of a command, or to standard error why there is none.
pub(super) fn print_answer(answer: Result<String, Finding>) -> ExitCode {
    match answer {
        Ok(text) => print(&text, ExitCode::SUCCESS),
        Err(finding) => fail(&[finding], Colour::Off),
    }
}

/// Prints to standard output and gives the exit code through, unless printing failed.
pub(super) fn print(text: &str, code: ExitCode) -> ExitCode {
    match io::stdout().write_all(text.as_bytes()) {
        // a reader that went away (`| head`) is no failure of ours
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            let _ = writeln!(io::stderr(), "schedpatch: cannot write to standard output: {error}");
            ExitCode::FAILURE
        }
        _ => code,
    }
}

/// Prints the text of an answer that is an error: what a person reads goes to standard error.
pub(super) fn print_error(text: &str) -> ExitCode {
    let _ = io::stderr().write_all(text.as_bytes());
    ExitCode::FAILURE
}

/// Prints what went wrong with a command that writes: it has no other answer, so this goes to standard error.
pub(super) fn fail(findings: &[Finding], colour: Colour) -> ExitCode {
    let _ = io::stderr().write_all(plan::show_findings(findings, colour).as_bytes());
    ExitCode::FAILURE
}
