//! `schedpatch-extender check FILE`.

use std::fmt::Write as _;
use std::process::ExitCode;

use super::args::CheckArgs;
use super::{Ran, print};
use crate::config::{self, WhenAllExceed};

pub(super) fn run(args: &CheckArgs) -> Ran {
    let config = config::load(&args.file).map_err(|error| error.to_string())?;
    let filters = config.policies.iter().filter(|policy| policy.refuses()).count();
    let mut said =
        format!("{}: valid. Policies: {}; with a threshold: {filters}\n", args.file.display(), config.policies.len());
    for policy in &config.policies {
        if policy.stale_after < config.prometheus.interval * 2 {
            let _ = writeln!(
                said,
                "warning: {}: staleAfter ({:?}) is less than two intervals ({:?}): one slow query makes the policy neutral",
                policy.name, policy.stale_after, config.prometheus.interval
            );
        }
        if policy.when_all_exceed == WhenAllExceed::Reject && policy.refuses() && !config.recovery.enabled {
            let _ = writeln!(
                said,
                "warning: {}: whenAllExceed: reject without recovery: pods wait until something else wakes them",
                policy.name
            );
        }
    }
    print(&said);
    Ok(ExitCode::SUCCESS)
}
