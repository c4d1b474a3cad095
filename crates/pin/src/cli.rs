//! The command line.

mod args;
mod daemon;
mod import;
mod list;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use schedpatch_service::cli::{self, Ran};

use args::{Args, Command};

/// Runs the program with these arguments.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    cli::main("schedpatch-pin", arguments, run)
}

async fn run(args: Args) -> Ran {
    match &args.command {
        None => daemon::run(&args).await,
        Some(Command::List(own)) => list::run(&args, own).await,
        Some(Command::Import(own)) => import::run(&args, own).await,
        Some(Command::Why(own)) => why::run(&args, own).await,
    }
}
