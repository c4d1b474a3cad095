//! `--preflight` and `--preflight-timeout`.

use std::time::Duration;

use clap::ValueEnum;

use super::args::second_or_more;
use crate::settings::Preflight;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Mode {
    /// In a second static pod, which ends by itself and is removed
    #[value(name = "static-pod")]
    On,
    /// Not at all: a new text is only verified once it is in place
    None,
}

#[derive(Clone, Copy, Debug, clap::Args)]
pub(super) struct PreflightArgs {
    /// Whether the scheduler itself checks a new text before the target is touched [default: static-pod for the agent, none
    /// for plan]
    #[arg(long, value_name = "HOW", value_enum, env = "SCHEDPATCH_PREFLIGHT")]
    preflight: Option<Mode>,

    /// So long the image of a preflight may take to be pulled
    #[arg(long, value_name = "TIME", default_value = "10m", env = "SCHEDPATCH_PREFLIGHT_TIMEOUT", value_parser = second_or_more)]
    preflight_timeout: Duration,
}

impl PreflightArgs {
    /// The setting; `default` where nothing was said.
    pub fn setting(self, default: Mode) -> Preflight {
        match self.preflight.unwrap_or(default) {
            Mode::On => Preflight::On { timeout: self.preflight_timeout },
            Mode::None => Preflight::None,
        }
    }
}
