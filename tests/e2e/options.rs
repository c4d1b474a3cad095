//! The command line of the suite.

use clap::{Parser, ValueEnum};

const EXAMPLES: &str = "\
Examples:
  hack/e2e                              the newest Kubernetes, everything but the slow tests
  hack/e2e --all --version v1.30.4      an older one, the slow tests too
  hack/e2e --suite agent                the agent from its chart and image, and what is done to it
  hack/e2e --suite fleet                the same on three control planes: one after the other
  hack/e2e --list                       the names
  hack/e2e kubeadm 'own words'          tests whose names hold one of these
  hack/e2e --keep --name dev uid        leave the bed for the next run, or to look at it with testbed exec --name dev cp1 bash

Exit codes: 0 all passed, 1 a test failed or the bed could not be built, 2 wrong usage.";

/// Which tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Suite {
    /// The commands on a host, and the facts that the design takes for granted
    Host,
    /// The agent: `schedpatch run`, with its chart and image
    Agent,
    /// The same on three control planes
    Fleet,
}

impl Suite {
    /// How many control planes its bed has.
    pub fn nodes(self) -> u32 {
        if self == Self::Fleet { 3 } else { 1 }
    }
}

/// The real program on a real cluster
#[derive(Debug, Parser)]
#[command(name = "hack/e2e", bin_name = "hack/e2e", after_help = EXAMPLES)]
#[allow(clippy::struct_excessive_bools, reason = "each is a flag of its own")]
pub struct Options {
    /// Run only tests whose names hold one of these
    #[arg(value_name = "FILTER")]
    pub filters: Vec<String>,

    /// Which tests: each suite fits into twenty minutes
    #[arg(long, value_name = "SUITE", default_value = "host", value_enum)]
    pub suite: Suite,

    /// Print the names of the tests and run none
    #[arg(long)]
    pub list: bool,

    /// Run the slow tests too
    #[arg(long)]
    pub all: bool,

    /// Kubernetes version of the bed, one that hack/testbed knows (default: its newest)
    #[arg(long, value_name = "V", env = "SCHEDPATCH_E2E_VERSION")]
    pub version: Option<String>,

    /// Name of the bed; one of that name that is up is used (default: e2e-PID)
    #[arg(long, value_name = "BED")]
    pub name: Option<String>,

    /// Leave the bed up at the end
    #[arg(long)]
    pub keep: bool,

    /// Tell what was done in tests that passed, too
    #[arg(long, short)]
    pub verbose: bool,
}
