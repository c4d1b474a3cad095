//! The command line.

mod args;
mod daemon;
mod import;
mod list;
mod output;
mod why;

use std::ffi::OsString;
use std::process::ExitCode;

use clap::Parser as _;

use args::{Args, Command};

/// What a command comes to: done or not, or why it could not be tried.
type Ran = Result<ExitCode, String>;

/// Runs the program with these arguments.
pub fn main(arguments: Vec<OsString>) -> ExitCode {
    let args = match Args::try_parse_from(arguments) {
        Ok(args) => args,
        Err(error) => {
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { 2 } else { 0 });
        }
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let ran = match runtime {
        Ok(runtime) => runtime.block_on(run(args)),
        Err(error) => Err(format!("cannot start the runtime: {error}; see ulimit -n")),
    };
    ran.unwrap_or_else(|why| {
        eprintln!("schedpatch-pin: {why}");
        ExitCode::FAILURE
    })
}

async fn run(args: Args) -> Ran {
    match &args.command {
        None => daemon::run(&args).await,
        Some(Command::List(own)) => list::run(&args, own).await,
        Some(Command::Import(own)) => import::run(&args, own).await,
        Some(Command::Why(own)) => why::run(&args, own).await,
    }
}
