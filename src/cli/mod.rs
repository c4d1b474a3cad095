//! The command line: flags into settings, results onto standard output, an exit code for scripts.

mod plan;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use crate::settings::Settings;

/// Puts your scheduler configuration into the kube-scheduler that a cluster already runs.
#[derive(Debug, Parser)]
#[command(name = "schedpatch", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Plan(plan::Args),
}

impl Cli {
    /// Runs the command. 0: done, 1: failed, 2: wrong usage (by clap), 3: `--check` found changes.
    pub fn run(self) -> ExitCode {
        match self.command {
            Command::Plan(args) => args.run(),
        }
    }
}

/// The settings that the flags of `schedpatch plan` give.
pub fn plan_settings(flags: &[String]) -> Result<Settings, clap::Error> {
    let words = ["schedpatch", "plan"].into_iter().chain(flags.iter().map(String::as_str));
    Cli::try_parse_from(words).map(|cli| match cli.command {
        Command::Plan(args) => args.settings(),
    })
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
