//! What a unit, with its drop-ins, its environment and the configuration files of k3s, starts. Pure.

use std::collections::BTreeMap;

use unit_edit::{Unit, effective};

use super::config::{self, ConfigFile, SCHEDULER_ARG};
use super::environment;
use super::trial;
use crate::host::HostPath;
use crate::target::refusal::{Refusal, Rule};
use crate::target::{FileText, HostFiles, local_address};

const DATA_DIR: &str = "/var/lib/rancher/k3s";
/// The file that k3s reads unless it is told otherwise.
pub(super) const CONFIG_FILE: &str = "/etc/rancher/k3s/config.yaml";

/// Where systemd looks for units and drop-ins (`systemd-analyze unit-paths`); of two with one name, the one in the earlier directory
/// counts. A pod sees only those that are mounted.
const UNIT_DIRS: [&str; 13] = [
    "/etc/systemd/system.control",
    "/run/systemd/system.control",
    "/run/systemd/transient",
    "/run/systemd/generator.early",
    "/etc/systemd/system",
    "/etc/systemd/system.attached",
    "/run/systemd/system",
    "/run/systemd/system.attached",
    "/run/systemd/generator",
    "/usr/local/lib/systemd/system",
    "/usr/lib/systemd/system",
    "/lib/systemd/system",
    "/run/systemd/generator.late",
];

/// A k3s server as its unit starts it.
#[derive(Debug)]
pub(super) struct Server {
    /// Name of the unit
    pub unit: String,
    /// Its whole command line
    pub command: Vec<String>,
    /// How many words of it are before the arguments of the server
    pub head: usize,
    /// Its arguments
    pub arguments: Vec<String>,
    /// The drop-ins that were read
    pub drop_ins: Vec<String>,
    /// The file and line of a drop-in that sets the command line in place of the unit
    pub overridden_by: Option<(String, usize)>,
    /// Whether a stop ends the server's own process only
    pub kills_process_only: bool,
    /// Whether systemd starts it anew however it ends
    pub starts_again: bool,
    /// Its data directory
    pub data_dir: String,
    /// The base of its configuration files
    pub config_file: String,
    /// Its configuration files, in order
    pub files: Vec<ConfigFile>,
}

/// A text that is looked at in place of the one that a configuration file has.
pub(super) type Own<'a> = Option<(&'a str, &'a str)>;

/// Reads the server that a unit starts. Everything that is read goes through `host`, which may take notes.
pub(super) fn read(path: &str, text: &str, host: &dyn HostFiles, own: Own<'_>) -> Result<Server, Refusal> {
    let unit_name = path.rsplit('/').next().unwrap_or(path);
    let fragment = Unit::parse(path, text.as_bytes());
    let texts = drop_ins(unit_name, host);
    let drop_ins: Vec<Unit<'_>> = texts.iter().map(|(path, text)| Unit::parse(path, text.as_bytes())).collect();
    let all = || std::iter::once(&fragment).chain(&drop_ins);
    let environment = environment::read(unit_name, all(), host);
    let effective = effective(&fragment, &drop_ins)?;
    let command = effective.exec_start().ok_or_else(|| no_server(unit_name))?;
    let words: Vec<String> =
        command.argv().iter().map(|word| String::from_utf8_lossy(word).replace("%%", "%")).collect();
    let program = String::from_utf8_lossy(command.path()).into_owned();
    let (head, arguments) = server_arguments(&program, &words).ok_or_else(|| no_server(unit_name))?;
    host.note_program(&program);

    let said = |names: &[&str], variable: &str| {
        let of_flags = flag_values(&arguments, names).pop();
        of_flags.or_else(|| environment.get(variable).cloned()).filter(|value| !value.is_empty())
    };
    // k3s asks its environment first, and of several flags the first counts
    let of_environment = environment.get("K3S_CONFIG_FILE").filter(|file| !file.is_empty()).cloned();
    let of_flag = || flag_values(&arguments, &["--config", "-c"]).into_iter().next().filter(|file| !file.is_empty());
    let config_file = of_environment.or_else(of_flag).unwrap_or_else(|| CONFIG_FILE.to_owned());
    let files = config::read(&config_file, host, own)?;
    let of_files = |key: &str| config::values(&files, key).pop();
    let data_dir = said(&["--data-dir", "-d"], "K3S_DATA_DIR").or_else(|| of_files("data-dir"));
    let is_last = |name: &str, wanted: &[u8]| {
        let said = all().flat_map(Unit::settings).filter(|(section, key, _)| (*section, *key) == ("Service", name));
        said.last().is_some_and(|(_, _, value)| value == wanted)
    };
    Ok(Server {
        unit: unit_name.to_owned(),
        command: words,
        head,
        arguments,
        drop_ins: texts.iter().map(|(path, _)| path.clone()).collect(),
        overridden_by: effective.overridden_by(path).map(|(file, line)| (file.to_owned(), line)),
        kills_process_only: is_last("KillMode", b"process"),
        starts_again: is_last("Restart", b"always"),
        data_dir: data_dir.unwrap_or_else(|| DATA_DIR.to_owned()),
        config_file,
        files,
    })
}

/// The arguments of `k3s server`, those before the command too (`k3s --debug server`), and how many words the command ends;
/// nothing for another program or another command.
fn server_arguments(program: &str, words: &[String]) -> Option<(usize, Vec<String>)> {
    let is_k3s = program.rsplit('/').next().is_some_and(|name| name.starts_with("k3s"));
    let mut at = 1;
    while let Some(word) = words.get(at).filter(|word| word.starts_with('-')) {
        // the one option of k3s itself that takes a value
        at += if matches!(word.as_str(), "--data-dir" | "-d") { 2 } else { 1 };
    }
    match words.get(at).map(String::as_str) {
        Some("server" | "start") if is_k3s => Some((at + 1, [words.get(1..at)?, words.get(at + 1..)?].concat())),
        _ => None,
    }
}

fn no_server(unit: &str) -> Refusal {
    Refusal::new(Rule::NoServer, format!("{unit} does not start a k3s server"))
}

/// The units that may start a k3s server, wherever systemd looks for units; of two with one name, the earlier one.
pub(super) fn units(host: &dyn HostFiles) -> Vec<HostPath> {
    let mut found: BTreeMap<String, HostPath> = BTreeMap::new();
    for path in UNIT_DIRS.iter().flat_map(|dir| host.files_in(dir)) {
        if path.name().starts_with("k3s") && path.name().ends_with(".service") {
            found.entry(path.name().to_owned()).or_insert(path);
        }
    }
    found.into_values().collect()
}

/// The drop-ins of a unit in systemd's order, without our own trial.
pub(super) fn drop_ins(unit: &str, host: &dyn HostFiles) -> Vec<(String, String)> {
    let mut found: BTreeMap<String, (HostPath, FileText)> = BTreeMap::new();
    let own = trial::path(unit);
    let own_dirs = UNIT_DIRS.iter().flat_map(|dir| prefixes(unit).map(move |name| format!("{dir}/{name}.d")));
    // what holds for all services comes last
    for dir in own_dirs.chain(UNIT_DIRS.iter().map(|dir| format!("{dir}/service.d"))) {
        let files = host.files_in(&dir);
        for path in files.into_iter().filter(|path| path.ends_with(".conf") && *path != own) {
            let Some(text) = host.text(&path) else { continue };
            found.entry(path.name().to_owned()).or_insert((path, text));
        }
    }
    found.into_values().filter_map(|(path, text)| Some((String::from(path), text.ok()?))).collect()
}

/// The names of a unit's drop-in directories: its own, then those of its prefixes, `k3s-.service` for `k3s-prod.service`.
fn prefixes(unit: &str) -> impl Iterator<Item = String> {
    let bare = unit.strip_suffix(".service").unwrap_or(unit).trim_end_matches('-');
    let dashes = bare.rmatch_indices('-').map(|(at, _)| format!("{}.service", &bare[..=at]));
    std::iter::once(unit.to_owned()).chain(dashes.collect::<Vec<_>>())
}

/// The values of a flag, `--flag=value` and `--flag value`.
pub(super) fn flag_values(arguments: &[String], names: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        match argument.split_once('=') {
            Some((name, value)) if names.contains(&name) => found.push(value.to_owned()),
            None if names.contains(&argument.as_str()) => found.extend(rest.next().cloned()),
            _ => {}
        }
    }
    found
}

/// An argument of the scheduler without the dashes, which k3s takes with or without them.
pub(super) fn bare(argument: &str) -> &str {
    argument.strip_prefix("--").unwrap_or(argument)
}

/// The configuration file that an argument gives to the scheduler.
pub(super) fn config_path(argument: &str) -> Option<&str> {
    bare(argument).strip_prefix("config=")
}

impl Server {
    /// The arguments of its scheduler, without dashes: first those of the files, then those of the command line.
    pub fn scheduler_arguments(&self) -> Vec<String> {
        let mut all = config::values(&self.files, SCHEDULER_ARG);
        all.extend(self.scheduler_arguments_of_command());
        all.iter().map(|argument| bare(argument).to_owned()).collect()
    }

    /// Those of the command line, which count more than those of the files.
    pub fn scheduler_arguments_of_command(&self) -> Vec<String> {
        flag_values(&self.arguments, &["--kube-scheduler-arg"])
    }

    /// Whether it is told to run no scheduler.
    pub fn has_no_scheduler(&self) -> bool {
        let flag = self.arguments.iter().any(|own| own == "--disable-scheduler" || own == "--disable-scheduler=true");
        flag || config::values(&self.files, "disable-scheduler").last().is_some_and(|value| value == "true")
    }

    /// Scheme, host and port of its API on this host.
    pub fn endpoint(&self) -> String {
        let said = |name: &str| {
            let of_command = flag_values(&self.arguments, &[&format!("--{name}")]).pop();
            of_command.or_else(|| config::values(&self.files, name).pop())
        };
        let port = said("https-listen-port").unwrap_or_else(|| "6443".to_owned());
        format!("https://{}:{port}", local_address(said("bind-address").as_deref()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::target::Around;

    fn server(arguments: &str, config: &str) -> Server {
        let unit =
            format!("[Service]\nKillMode=process\nRestart=always\nExecStart=/usr/local/bin/k3s server {arguments}\n");
        let mut around = Around::default();
        around.files.insert(HostPath::from(CONFIG_FILE), Ok(config.to_owned()));
        read("/etc/systemd/system/k3s.service", &unit, &around, None).unwrap()
    }

    #[test]
    fn a_server_is_asked_where_it_listens() {
        assert_eq!(server("", "").endpoint(), "https://127.0.0.1:6443");
        assert_eq!(server("--https-listen-port 7443", "bind-address: 10.0.0.5\n").endpoint(), "https://10.0.0.5:7443");
        assert_eq!(server("--bind-address=::", "").endpoint(), "https://[::1]:6443");
    }

    #[test]
    fn the_environment_names_the_configuration_file_before_a_flag_does() {
        let named = |environment: &str, arguments: &str| {
            let unit = format!("[Service]\n{environment}\nExecStart=/usr/local/bin/k3s server {arguments}\n");
            read("/etc/systemd/system/k3s.service", &unit, &Around::default(), None).unwrap().config_file
        };
        assert_eq!(named("Environment=K3S_CONFIG_FILE=/env.yaml", "--config=/flag.yaml"), "/env.yaml");
        assert_eq!(named("Environment=K3S_CONFIG_FILE=", "--config /flag.yaml -c=/other.yaml"), "/flag.yaml");
        assert_eq!(named("", ""), CONFIG_FILE);
    }

    #[test]
    fn arguments_of_the_scheduler_may_have_dashes() {
        let found = server("--kube-scheduler-arg=--config=/a", "kube-scheduler-arg: [--config=/b]\n");
        assert_eq!(found.scheduler_arguments(), ["config=/b", "config=/a"]);
        assert_eq!(
            (config_path("--config=/a"), config_path("config=/a"), config_path("v=1")),
            (Some("/a"), Some("/a"), None)
        );
    }

    #[test]
    fn only_a_unit_that_is_always_started_anew_starts_again() {
        assert!(server("", "").starts_again && server("", "").kills_process_only);
        let other = Around::default();
        let unit = "[Service]\nRestart=on-failure\nExecStart=/usr/local/bin/k3s server\n";
        assert!(!read("/etc/systemd/system/k3s.service", unit, &other, None).unwrap().starts_again);
    }

    #[test]
    fn options_before_the_command_are_its_arguments_too() {
        let words = |text: &str| text.split(' ').map(str::to_owned).collect::<Vec<_>>();
        let read = |text: &str| server_arguments("/usr/local/bin/k3s", &words(text));
        assert_eq!(read("k3s server --a"), Some((2, words("--a"))));
        assert_eq!(read("k3s --debug server --a"), Some((3, words("--debug --a"))));
        assert_eq!(read("k3s --data-dir /x start"), Some((4, words("--data-dir /x"))));
        assert_eq!(read("k3s --data-dir=/x server"), Some((3, words("--data-dir=/x"))));
        assert_eq!((read("k3s agent"), read("k3s --debug agent"), read("k3s --debug")), (None, None, None));
        assert_eq!(server_arguments("/usr/bin/other", &words("other server")), None);
    }

    #[test]
    fn drop_ins_are_read_wherever_systemd_reads_them() {
        let command = |tail: &str| format!("[Service]\nExecStart=\nExecStart=/usr/local/bin/k3s server {tail}\n");
        let unit = "[Service]\nExecStart=/usr/local/bin/k3s server\n";
        for place in [
            "/etc/systemd/system.control/k3s-prod.service.d/50-x.conf",
            "/etc/systemd/system/k3s-.service.d/50-x.conf",
            "/usr/lib/systemd/system/service.d/50-x.conf",
            "/run/systemd/generator.late/k3s-prod.service.d/50-x.conf",
        ] {
            let mut around = Around::default();
            around.files.insert(HostPath::from(place), Ok(command("--debug")));
            let found = read("/etc/systemd/system/k3s-prod.service", unit, &around, None).unwrap();
            assert_eq!(found.overridden_by.as_ref().map(|(file, _)| file.as_str()), Some(place));
            assert_eq!((found.arguments, found.drop_ins), (vec!["--debug".to_owned()], vec![place.to_owned()]));
            // one of the same name in an earlier directory hides it, and what holds for all services comes last
            let own = "/etc/systemd/system.control/k3s-prod.service.d/50-x.conf";
            around.files.insert(HostPath::from(own), Ok(command("--own")));
            let found = read("/etc/systemd/system/k3s-prod.service", unit, &around, None).unwrap();
            assert_eq!(found.arguments, ["--own"], "{place}");
        }
    }
}
