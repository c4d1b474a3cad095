//! Flags that several commands share, and what may be given to them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use clap::builder::{PathBufValueParser, PossibleValuesParser};

use super::lists::{List, all, lines, lines_or_commas};
use crate::compose::lint::LintRule;
use crate::finding::Level;
use crate::host::HostPath;
use crate::platform::{self, K3sOptions, Method};
use crate::settings::{OnUpgrade, STATE_DIR, SchedulerOverrides, Settings};

/// Where the host is, and what of it is meant.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct HostArgs {
    /// Root of the host's file tree
    #[arg(long, value_name = "DIR", default_value = "/", env = "SCHEDPATCH_HOST_ROOT")]
    host_root: PathBuf,

    /// How this host runs its scheduler
    #[arg(long, value_name = "NAME", default_value = "auto", env = "SCHEDPATCH_PLATFORM", value_parser = platform_names())]
    platform: String,

    /// The manifest to edit, where several could be meant; the path is the host's own
    #[arg(long, value_name = "FILE", env = "SCHEDPATCH_TARGET", value_parser = host_path, conflicts_with = "manifest_dir")]
    target: Option<String>,

    /// The kubelet's staticPodPath, where it is not the platform's usual one
    #[arg(long, value_name = "DIR", env = "SCHEDPATCH_MANIFEST_DIR", value_parser = host_path)]
    manifest_dir: Option<String>,

    /// On k3s: where the configuration is carried
    #[arg(long, value_name = "HOW", default_value = "execstart", value_enum, env = "SCHEDPATCH_K3S_METHOD")]
    k3s_method: K3sMethod,

    /// On k3s: who restarts the server, which makes the configuration effective
    #[arg(long, value_name = "WHO", default_value = "auto", value_enum, env = "SCHEDPATCH_K3S_RESTART")]
    k3s_restart: K3sRestart,

    /// Directory on the host where schedpatch keeps everything of its own
    #[arg(long, value_name = "DIR", default_value = STATE_DIR, env = "SCHEDPATCH_STATE_DIR", value_parser = plain_host_path)]
    state_dir: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum K3sRestart {
    /// schedpatch asks systemd for it, unless that would end its own container
    Auto,
    /// A person does it; until then the phase is RestartRequired
    Manual,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum K3sMethod {
    /// In the command line of the systemd unit
    #[value(name = "execstart")]
    ExecStart,
    /// In /etc/rancher/k3s/config.yaml.d/90-schedpatch.yaml, which outlives the installer
    DropIn,
}

/// What is wanted of the scheduler.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct WantedArgs {
    /// Directory with your KubeSchedulerConfiguration, for example a mounted ConfigMap, or one file; may be given several
    /// times, and in the environment one on each line
    #[arg(long = "source", value_name = "PATH", env = "SCHEDPATCH_SOURCE", value_parser = lines(PathBufValueParser::new()))]
    sources: Vec<List<PathBuf>>,

    /// Insist on breaking a rule of the lint (docs/reference/lint.md); may be given several times, and in the environment one on each line
    #[arg(long, value_name = "RULE", env = "SCHEDPATCH_ACCEPT", value_parser = lines_or_commas(lint_rules()))]
    accept: Vec<List<String>>,

    #[command(flatten)]
    overrides: OverrideArgs,
}

/// How long to wait for others.
#[derive(Clone, Debug, clap::Args)]
pub(super) struct LockArgs {
    /// How long to wait for another schedpatch that is writing, for example 30s or 2m
    #[arg(long, value_name = "TIME", default_value = "30s", env = "SCHEDPATCH_LOCK_TIMEOUT", value_parser = duration)]
    pub lock_timeout: Duration,
}

impl HostArgs {
    /// How k3s is dealt with.
    pub fn k3s(&self, tries: bool) -> K3sOptions {
        let method = match self.k3s_method {
            K3sMethod::ExecStart => Method::ExecStart,
            K3sMethod::DropIn => Method::DropIn,
        };
        K3sOptions { method, by_person: self.k3s_restart == K3sRestart::Manual, tries }
    }

    /// Settings with which nothing is wanted: to look, or to take out.
    pub fn settings(self) -> Settings {
        let k3s = self.k3s(false);
        let Self { host_root, platform, target, manifest_dir, state_dir, .. } = self;
        Settings {
            platforms: k3s.platforms(),
            platform: (platform != "auto").then_some(platform),
            target: target.map(HostPath::from),
            manifest_dir: manifest_dir.map(HostPath::from),
            state_dir: HostPath::from(state_dir),
            ..Settings::new(host_root)
        }
    }
}

impl WantedArgs {
    /// Whether nothing at all was asked for, which is rather a mistake than a wish.
    pub fn is_empty(&self) -> bool {
        let OverrideArgs { image, command, run_as_user, args, mounts, dns_policy, .. } = &self.overrides;
        let has_own_program = image.is_some() || command.is_some() || run_as_user.is_some();
        self.sources.is_empty() && !has_own_program && args.is_empty() && mounts.is_empty() && dns_policy.is_none()
    }

    /// Adds what is wanted.
    pub fn add_to(self, settings: Settings) -> Settings {
        let Self { sources, accept, overrides } = self;
        Settings { sources: all(sources), accept: all(accept), overrides: overrides.into(), ..settings }
    }
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum OnUpgradeArg {
    /// It is not put back, and the scheduler runs as the upgrade left it
    Remove,
    /// It is put back
    Keep,
}

/// What is equivalent to root on the node: it comes from flags and the environment, never from a source.
#[derive(Clone, Debug, clap::Args)]
#[command(
    next_help_heading = "Scheduler overrides, by flags and environment only, never from a source: they are equivalent to root on the node"
)]
pub(super) struct OverrideArgs {
    /// Another image for the scheduler
    #[arg(long = "scheduler-image", value_name = "IMAGE", env = "SCHEDPATCH_SCHEDULER_IMAGE", value_parser = image)]
    image: Option<String>,

    /// Release of the scheduler, where the tag of its image does not tell
    #[arg(long = "scheduler-version", value_name = "VERSION", env = "SCHEDPATCH_SCHEDULER_VERSION")]
    version: Option<String>,

    /// The scheduler's program in its image, where it is not called kube-scheduler
    #[arg(long = "scheduler-command", value_name = "PATH", env = "SCHEDPATCH_SCHEDULER_COMMAND", value_parser = program)]
    command: Option<String>,

    /// The user that the scheduler runs as: 0 where an image has a user that may not read the scheduler's own files
    #[arg(long = "scheduler-run-as-user", value_name = "NUMBER", env = "SCHEDPATCH_SCHEDULER_RUN_AS_USER")]
    run_as_user: Option<u32>,

    /// What becomes of --scheduler-image when an upgrade of the cluster brings another minor release
    #[arg(
        long = "scheduler-image-on-upgrade",
        value_name = "WHAT",
        default_value = "remove",
        value_enum,
        env = "SCHEDPATCH_SCHEDULER_IMAGE_ON_UPGRADE"
    )]
    image_on_upgrade: OnUpgradeArg,

    /// A further flag of the scheduler, for example v=4; may be given several times, and in the environment one on each line
    #[arg(long = "scheduler-arg", value_name = "NAME=VALUE",
        allow_hyphen_values = true, env = "SCHEDPATCH_SCHEDULER_ARG", value_parser = lines(scheduler_arg))]
    args: Vec<List<(String, String)>>,

    /// A further path of the host that the scheduler sees, read-only; may be given several times, and in the environment one
    /// on each line
    #[arg(long = "scheduler-mount", value_name = "PATH", env = "SCHEDPATCH_SCHEDULER_MOUNT", value_parser = lines_or_commas(plain_host_path))]
    mounts: Vec<List<String>>,

    /// Another DNS policy for the scheduler's pod
    #[arg(
        long = "scheduler-dns-policy",
        value_name = "POLICY", env = "SCHEDPATCH_SCHEDULER_DNS_POLICY", value_parser = ["ClusterFirst", "ClusterFirstWithHostNet", "Default"])]
    dns_policy: Option<String>,
}

impl From<OverrideArgs> for SchedulerOverrides {
    fn from(given: OverrideArgs) -> Self {
        let OverrideArgs { image, version, command, run_as_user, image_on_upgrade, args, mounts, dns_policy } = given;
        // of a flag that is given twice the last counts; the order of the rest means nothing
        let args = all(args).into_iter().collect::<BTreeMap<_, _>>().into_iter().collect();
        let mounts = all(mounts).into_iter().collect::<BTreeSet<_>>().into_iter().collect();
        let image_on_upgrade = match image_on_upgrade {
            OnUpgradeArg::Remove => OnUpgrade::Remove,
            OnUpgradeArg::Keep => OnUpgrade::Keep,
        };
        Self { image, version, command, run_as_user, image_on_upgrade, args, mounts, dns_policy }
    }
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

/// A program that can be written anywhere without quoting.
fn program(text: &str) -> Result<String, String> {
    let plain = text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte));
    let is_word = text.starts_with(|c: char| c == '/' || c.is_ascii_alphanumeric());
    if plain && is_word && !text.ends_with('/') {
        Ok(text.to_owned())
    } else {
        Err("write a name or an absolute path".to_owned())
    }
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

/// A number with its unit: 500ms, 30s, 5m, 1h.
pub(super) fn duration(text: &str) -> Result<Duration, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let millis = match unit {
        "ms" => 1,
        "s" => 1_000,
        "m" => 60_000,
        "h" => 3_600_000,
        _ => return Err("write a number with its unit: 500ms, 30s, 5m or 1h".to_owned()),
    };
    let number: u64 = number.parse().map_err(|_| "write a number before the unit, for example 30s".to_owned())?;
    number.checked_mul(millis).map(Duration::from_millis).ok_or_else(|| "that is too long".to_owned())
}

/// A duration for what would spin, or give up at once, with none.
pub(super) fn second_or_more(text: &str) -> Result<Duration, String> {
    let given = duration(text)?;
    if given >= Duration::from_secs(1) { Ok(given) } else { Err("give at least 1s".to_owned()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_have_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("30s"), Ok(Duration::from_secs(30)));
        assert_eq!(duration("2h"), Ok(Duration::from_hours(2)));
        for wrong in ["", "30", "s", "-1s", "1.5s", "1d", "99999999999999999999s", "18446744073709551615h"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
        assert_eq!(second_or_more("1000ms"), Ok(Duration::from_secs(1)));
        assert!(second_or_more("999ms").is_err() && second_or_more("0h").is_err() && second_or_more("1").is_err());
    }
}
