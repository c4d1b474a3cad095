//! The command line: flags into settings, results onto standard output, an exit code for scripts.

mod apply;
mod args;
mod fleet;
mod lists;
mod output;
mod plan;
mod preflight_args;
mod restore;
mod rollout;
mod run;
mod status;
mod target;
mod uninstall;
mod verify;
mod write;

use std::ffi::OsString;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, FromArgMatches as _, Parser, Subcommand};

use crate::settings::Settings;

/// Exit code for wrong usage, as clap has it.
const USAGE: u8 = 2;

/// Called by this name, as kubectl does for `kubectl schedpatch`, it is about the cluster where it can be.
const PLUGIN: &str = "kubectl-schedpatch";

/// Puts your scheduler configuration into the kube-scheduler that a cluster already runs.
#[derive(Debug, Parser)]
#[command(name = "schedpatch", version, max_term_width = 100, arg_required_else_help = true)]
pub struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    Run(Box<run::Args>),
    Plan(plan::Args),
    Apply(apply::Args),
    Restore(restore::Args),
    Status(status::Args),
    Rollout(rollout::Args),
    Uninstall(uninstall::Args),
    Verify(verify::Args),
}

/// Parses the words of the command line, the first of which is the program's name, and runs the command.
pub fn main(words: Vec<OsString>) -> ExitCode {
    let is_plugin = words.first().and_then(|name| Path::new(name).file_name()).is_some_and(|name| name == PLUGIN);
    let command = Cli::command();
    let command = if is_plugin { command.bin_name("kubectl schedpatch") } else { command };
    match Cli::from_arg_matches(&command.get_matches_from(words)) {
        Ok(mut cli) => {
            if let (true, Command::Status(args)) = (is_plugin, &mut cli.command) {
                args.mean_cluster();
            }
            cli.run()
        }
        Err(error) => {
            let _ = error.print();
            ExitCode::from(USAGE)
        }
    }
}

impl Cli {
    /// Runs the command. 0: done, 1: failed, 2: wrong usage, 3: found something that is not settled.
    pub fn run(self) -> ExitCode {
        if let Err(error) = self.check() {
            let _ = error.print();
            return ExitCode::from(USAGE);
        }
        match self.command {
            Command::Run(args) => args.run(),
            Command::Plan(args) => args.run(),
            Command::Apply(args) => args.run(),
            Command::Restore(args) => args.run(),
            Command::Status(args) => args.run(),
            Command::Rollout(args) => args.run(),
            Command::Uninstall(args) => args.run(),
            Command::Verify(args) => args.run(),
        }
    }

    /// What clap cannot express.
    fn check(&self) -> Result<(), clap::Error> {
        let wrong = |name: &str, kind: ErrorKind, message: &str| {
            let mut command = Self::command();
            let command = command.find_subcommand_mut(name).map(std::mem::take).unwrap_or_default();
            Err(command.bin_name(format!("schedpatch {name}")).error(kind, message))
        };
        let nothing = "nothing is asked for: give --source DIR, or one of the flags that begin with --scheduler-";
        match &self.command {
            Command::Plan(args) if args.is_empty() => wrong("plan", ErrorKind::MissingRequiredArgument, nothing),
            Command::Apply(args) if args.is_empty() => wrong("apply", ErrorKind::MissingRequiredArgument, nothing),
            Command::Run(args) if args.is_empty() => wrong("run", ErrorKind::MissingRequiredArgument, nothing),
            Command::Run(args) if args.needs_node() => wrong(
                "run",
                ErrorKind::MissingRequiredArgument,
                "give this node's name with --node-name NAME (or NODE_NAME), or run without any API: --standalone",
            ),
            Command::Status(args) if args.contradicts_itself() => wrong(
                "status",
                ErrorKind::ArgumentConflict,
                "extenders are asked from the network of their scheduler: run schedpatch status --extenders on the host, \
                 without the flags of the cluster",
            ),
            Command::Restore(args) if args.contradicts_itself() => wrong(
                "restore",
                ErrorKind::ArgumentConflict,
                "--purge leaves nothing to go back to: use it without --to",
            ),
            _ => Ok(()),
        }
    }
}

/// The settings that the flags of `schedpatch plan` give.
pub fn plan_settings(flags: &[String]) -> Result<Settings, clap::Error> {
    let words = ["schedpatch", "plan"].into_iter().chain(flags.iter().map(String::as_str));
    let cli = Cli::try_parse_from(words)?;
    cli.check()?;
    match cli.command {
        Command::Plan(args) => Ok(args.settings()),
        _ => Err(clap::Error::new(ErrorKind::InvalidSubcommand)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound() {
        super::Cli::command().debug_assert();
    }
}
