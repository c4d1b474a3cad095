//! `schedpatch-extender check FILE`.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::args::CheckArgs;
use super::{Ran, print};
use crate::config;

pub(super) fn run(args: &CheckArgs) -> Ran {
    let config = config::load(&args.file).map_err(|error| error.to_string())?;
    let filters = config.policies.iter().filter(|policy| policy.refuses()).count();
    let mut said =
        format!("{}: valid. Policies: {}; with a threshold: {filters}\n", args.file.display(), config.policies.len());
    for warning in config::warnings(&config) {
        let _ = writeln!(said, "warning: {warning}");
    }
    print(&said);
    Ok(ExitCode::SUCCESS)
}
