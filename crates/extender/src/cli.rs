//! The command line.

mod args;
mod ask;
mod check;
mod daemon;
mod simulate;

use std::ffi::OsString;
use std::process::ExitCode;

use schedpatch_service::cli::{self, Ran, print};

use args::{Args, Command};

/// Runs the program with these arguments.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    cli::main("schedpatch-extender", arguments, run)
}

async fn run(args: Args) -> Ran {
    match &args.command {
        Command::Run(own) => daemon::run(own).await,
        Command::Check(own) => check::run(own),
        Command::Schema => {
            print(crate::config::SCHEMA);
            Ok(ExitCode::SUCCESS)
        }
        Command::Simulate(own) => simulate::run(own).await,
        Command::Explain(own) => ask::explain(own).await,
    }
}
