//! The program: parses the command line and runs it.

use std::process::ExitCode;

use clap::Parser;

fn main() -> ExitCode {
    schedpatch::cli::Cli::parse().run()
}
