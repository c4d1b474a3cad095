//! The program: parses the command line and runs it.

use std::process::ExitCode;

fn main() -> ExitCode {
    schedpatch_extender::cli::main(std::env::args_os().collect())
}
