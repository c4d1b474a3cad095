//! `schedpatch plan`: say what must change, change nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, IsTerminal, Write};
use std::path::PathBuf;
use std::process::ExitCode;

use clap::ValueEnum;
use clap::builder::PossibleValuesParser;

use crate::compose::lint::LintRule;
use crate::finding::{Finding, Level};
use crate::observe;
use crate::plan::{self, Colour, Direction, Plan};
use crate::platform;
use crate::settings::{Settings, Wishes};

/// Exit code of `--check` when something must change.
const CHANGES: u8 = 3;

const EXAMPLES: &str = "\
Examples:
  What would change on this node for the configuration in ./scheduler?
    schedpatch plan --source ./scheduler

  The same for a host that is mounted elsewhere, for a script:
    schedpatch plan --host-root /host --source /config -o json

  How is it taken out again?
    schedpatch plan --restore

  Is this node up to date? (exit 0: yes, 3: no, 1: cannot tell)
    schedpatch plan --source ./scheduler --check

Exit codes: 0 planned, 1 failed, 2 wrong usage, 3 --check found changes.";

/// Say exactly what must change on this host and why, as a diff; nothing is written
///
/// Finds the scheduler's static pod, composes the configuration from the sources, and prints each file that would
/// change. Needs no cluster, and no rights but to read the files.
#[derive(Debug, clap::Args)]
#[command(after_help = EXAMPLES)]
pub(super) struct Args {
    /// Root of the host's file tree
    #[arg(long, value_name = "DIR", default_value = "/", env = "SCHEDPATCH_HOST_ROOT")]
    host_root: PathBuf,

    /// Directory with your KubeSchedulerConfiguration, for example a mounted ConfigMap; may be given several times
    #[arg(long = "source", value_name = "DIR", env = "SCHEDPATCH_SOURCE", required_unless_present_any = ["restore", "image", "args", "mounts", "dns_policy"])]
    sources: Vec<PathBuf>,

    /// How this host runs its scheduler
    #[arg(long, value_name = "NAME", default_value = "auto", env = "SCHEDPATCH_PLATFORM", value_parser = platform_names())]
    platform: String,

    /// The manifest to edit, where several could be meant; the path is the host's own
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_TARGET", value_parser = host_path, conflicts_with = "manifest_dir")]
    target: Option<String>,

    /// The kubelet's staticPodPath, where it is not the platform's usual one
    #[arg(long, value_name = "DIR", env = "SCHEDPATCH_MANIFEST_DIR", value_parser = host_path)]
    manifest_dir: Option<String>,

    /// Directory on the host where schedpatch keeps everything of its own
    #[arg(long, value_name = "DIR", default_value = "/var/lib/schedpatch", env = "SCHEDPATCH_STATE_DIR", value_parser = plain_host_path)]
    state_dir: String,

    /// Insist on breaking a rule of the lint (docs/lint.md); may be given several times
    #[arg(long, value_name = "RULE", value_delimiter = ',', env = "SCHEDPATCH_ACCEPT", value_parser = lint_rules())]
    accept: Vec<String>,

    /// Plan the inverse: take out what schedpatch put in
    #[arg(long)]
    restore: bool,

    /// Exit with 3 if something must change
    #[arg(long)]
    check: bool,

    /// Form of the answer
    #[arg(short, long, value_name = "FORM", default_value = "text", value_enum)]
    output: Output,

    /// When to colour the text
    #[arg(long, value_name = "WHEN", default_value = "auto", value_enum)]
    color: When,

    #[command(flatten)]
    wishes: WishArgs,
}

/// What amounts to root on the node, and so is never taken from a source.
#[derive(Debug, clap::Args)]
#[command(next_help_heading = "What only flags may say, because it amounts to root on the node")]
pub(super) struct WishArgs {
    /// Another image for the scheduler
    #[arg(long = "scheduler-image", value_name = "IMAGE", env = "SCHEDPATCH_SCHEDULER_IMAGE", value_parser = image)]
    image: Option<String>,

    /// Release of the scheduler, where the tag of its image does not tell
    #[arg(long = "scheduler-version", value_name = "VERSION", env = "SCHEDPATCH_SCHEDULER_VERSION")]
    version: Option<String>,

    /// A further flag of the scheduler, for example v=4; may be given several times
    #[arg(long = "scheduler-arg", value_name = "NAME=VALUE",
        allow_hyphen_values = true, env = "SCHEDPATCH_SCHEDULER_ARG", value_parser = scheduler_arg)]
    args: Vec<(String, String)>,

    /// A further path of the host that the scheduler sees, read-only; may be given several times
    #[arg(long = "scheduler-mount", value_name = "PATH", value_delimiter = ',', env = "SCHEDPATCH_SCHEDULER_MOUNT", value_parser = plain_host_path)]
    mounts: Vec<String>,

    /// Another DNS policy for the scheduler's pod
    #[arg(
        long = "scheduler-dns-policy",
        value_name = "POLICY", env = "SCHEDPATCH_SCHEDULER_DNS_POLICY", value_parser = ["ClusterFirst", "ClusterFirstWithHostNet", "Default"])]
    dns_policy: Option<String>,
}

impl From<WishArgs> for Wishes {
    fn from(WishArgs { image, version, args, mounts, dns_policy }: WishArgs) -> Self {
        // of a flag that is given twice the last counts; the order of the rest means nothing
        let args = args.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        let mounts = mounts.into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        Self { image, version, args, mounts, dns_policy }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Output {
    /// For people
    Text,
    /// One document for machines, printed on errors too
    Json,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum When {
    /// On a terminal, unless NO_COLOR is set
    Auto,
    Always,
    Never,
}

impl Args {
    pub(super) fn run(self) -> ExitCode {
        let (check, output, color) = (self.check, self.output, self.color);
        let direction = if self.restore { Direction::Restore } else { Direction::Apply };
        let settings = self.settings();
        let plan = match observe::take_snapshot(&settings) {
            Ok(snapshot) => plan::make(&snapshot, &settings, direction),
            Err(finding) => Plan::failed(vec![finding]),
        };
        let text = match output {
            Output::Text => plan::show(&plan, color.resolve()),
            Output::Json => json(&plan),
        };
        if let Err(error) = io::stdout().write_all(text.as_bytes()) {
            // a reader that went away (`| head`) is no failure of the plan
            if error.kind() != io::ErrorKind::BrokenPipe {
                return ExitCode::FAILURE;
            }
        }
        if plan.has_errors() {
            ExitCode::FAILURE
        } else if check && !plan.steps.is_empty() {
            ExitCode::from(CHANGES)
        } else {
            ExitCode::SUCCESS
        }
    }

    pub(super) fn settings(self) -> Settings {
        let Self { host_root, sources, platform, target, manifest_dir, state_dir, accept, wishes, restore, .. } = self;
        let sources = if restore { Vec::new() } else { sources };
        let platform = (platform != "auto").then_some(platform);
        let wishes = wishes.into();
        Settings { host_root, sources, platform, target, manifest_dir, state_dir, wishes, accept }
    }
}

fn json(plan: &Plan) -> String {
    let failed = |error| {
        Plan::failed(vec![Finding::error("json", format!("cannot write the plan as JSON: {error}"), "use -o text")])
    };
    let text = plan.to_json().or_else(|error| failed(error).to_json());
    text.unwrap_or_default() + "\n"
}

impl When {
    fn resolve(self) -> Colour {
        let on = match self {
            Self::Always => true,
            Self::Never => false,
            Self::Auto => io::stdout().is_terminal() && !no_color(),
        };
        if on { Colour::On } else { Colour::Off }
    }
}

#[expect(clippy::disallowed_methods, reason = "the command line is where the environment is read")]
fn no_color() -> bool {
    std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty())
}

fn platform_names() -> PossibleValuesParser {
    let names = platform::ALL.iter().map(|platform| platform.id);
    PossibleValuesParser::new(["auto"].into_iter().chain(names))
}

fn lint_rules() -> PossibleValuesParser {
    PossibleValuesParser::new(LintRule::ALL.iter().filter(|rule| rule.level() == Level::Error).map(|rule| rule.name()))
}

/// Flags of the scheduler that decide who it is and who may talk to it, or that are ours to set.
const DENIED_ARGS: [&str; 13] = [
    "config",
    "master",
    "cert-dir",
    "client-ca-file",
    "help",
    "requestheader-client-ca-file",
    "secure-port",
    "version",
    "bind-address",
    "write-config-to",
    "authorization-always-allow-paths",
    "policy-config-file",
    "policy-configmap",
];

/// `NAME=VALUE`, with or without dashes before it.
fn scheduler_arg(text: &str) -> Result<(String, String), String> {
    let (name, value) = text.trim_start_matches('-').split_once('=').ok_or("write NAME=VALUE")?;
    let name = name.replace('_', "-");
    if name.is_empty() || !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
        return Err("the name of a flag has only letters, digits and -".to_owned());
    }
    if value.is_empty() || !value.bytes().all(|byte| matches!(byte, b'!'..=b'~')) {
        return Err("the value must be printable, without blanks".to_owned());
    }
    if DENIED_ARGS.contains(&name.as_str()) || name.ends_with("kubeconfig") || name.starts_with("tls-") {
        return Err(format!("{name} is not to be set this way: the target decides who the scheduler is"));
    }
    Ok((name, value.to_owned()))
}

/// An image that can be written anywhere without quoting.
fn image(text: &str) -> Result<String, String> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-:@".contains(&byte));
    if plain { Ok(text.to_owned()) } else { Err("write NAME:TAG or NAME:TAG@DIGEST".to_owned()) }
}

/// A path as the host sees it: absolute, so that it means the same wherever the host's root is mounted.
fn host_path(text: &str) -> Result<String, String> {
    let path = text.split('/').filter(|part| !part.is_empty()).fold(String::new(), |path, part| path + "/" + part);
    let clean = !path.is_empty() && text.starts_with('/') && !text.split('/').any(|part| part == ".." || part == ".");
    if clean { Ok(path) } else { Err("give an absolute path without . and ..".to_owned()) }
}

/// A path that needs no quoting in any of the files that it is written to.
fn plain_host_path(text: &str) -> Result<String, String> {
    let path = host_path(text)?;
    let plain = path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    if plain { Ok(path) } else { Err("use only letters, digits, / . _ and -".to_owned()) }
}
