//! A pretended systemd with one k3s server, for each host's root: what its unit files say is loaded by a reload and started by a
//! restart. Time is tokio's, so that stories can turn it. A configuration that names `crash.` ends the server 3 seconds after each
//! start; with `slow.` its scheduler never answers.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{LazyLock, Mutex};
use std::time::Duration;

use schedpatch::host::systemd::{ServiceManager, SystemdError, UnitState};
use schedpatch::platform::{Platform, Platforms, k3s_platform};
use schedpatch::target::unit::{CONFIG_DIR, K3s, Method, RestartBy, UNITS, UnitRestarter};
use tokio::time::Instant;
use unit_edit::{Unit, effective};

pub const UNIT: &str = "/etc/systemd/system/k3s.service";
pub const TRIAL: &str = "/run/systemd/system/k3s.service.d/90-schedpatch.conf";
pub const DROP_IN: &str = "/etc/rancher/k3s/config.yaml.d/90-schedpatch.yaml";
pub const TEXT: &str = include_str!("../golden/k3s-execstart/host/etc/systemd/system/k3s.service");

/// systemd starts the server anew so long after it has ended.
const CYCLE: u64 = 8;
const LIFE: u64 = 3;

static MANAGER: Pretended = Pretended;
static BY_UNIT: UnitRestarter = UnitRestarter::new(&MANAGER, Method::ExecStart);
static BY_FILE: UnitRestarter = UnitRestarter::new(&MANAGER, Method::DropIn);
static UNIT_KIND: K3s = K3s::new(Method::ExecStart, RestartBy::ManagerAfterTrial(&BY_UNIT));
static FILE_KIND: K3s = K3s::new(Method::DropIn, RestartBy::ManagerAfterTrial(&BY_FILE));
static PERSON_KIND: K3s = K3s::new(Method::ExecStart, RestartBy::Person(&BY_UNIT));
static DIRECT_KIND: K3s = K3s::new(Method::ExecStart, RestartBy::Manager(&BY_UNIT));
static UNIT_PLATFORM: Platform = k3s_platform(&UNIT_KIND, UNITS);
static FILE_PLATFORM: Platform = k3s_platform(&FILE_KIND, CONFIG_DIR);
static PERSON_PLATFORM: Platform = k3s_platform(&PERSON_KIND, UNITS);
static DIRECT_PLATFORM: Platform = k3s_platform(&DIRECT_KIND, UNITS);
pub static BY_TRIAL: Platforms = &[&UNIT_PLATFORM];
pub static BY_DROP_IN: Platforms = &[&FILE_PLATFORM];
pub static BY_PERSON: Platforms = &[&PERSON_PLATFORM];
pub static AT_ONCE: Platforms = &[&DIRECT_PLATFORM];

#[derive(Debug)]
struct Pretended;

/// What systemd knows of the server on one host.
#[derive(Clone, Debug, Default)]
pub struct Machine {
    /// The command line that it has loaded
    pub loaded: Vec<String>,
    drop_ins: Vec<String>,
    /// The arguments that the process has read, files first
    pub runs: Vec<String>,
    started: Option<Instant>,
    starts: u64,
    /// How often a restart was asked for
    pub restarts: u64,
    pub reloads: u64,
    /// So long its scheduler takes after it is ready
    pub late: u64,
    /// systemd refuses to answer
    pub is_silent: bool,
    /// The bus is down, or not mounted
    pub is_unreachable: bool,
    /// systemd refuses to restart anything
    pub refuses: bool,
    /// A drop-in that systemd reads and schedpatch does not see: its path and its text
    pub hidden: Option<(String, String)>,
}

static MACHINES: LazyLock<Mutex<HashMap<PathBuf, Machine>>> = LazyLock::new(Mutex::default);

/// Looks at, or changes, what systemd knows of a host.
pub fn machine<T>(root: &Path, with: impl FnOnce(&mut Machine) -> T) -> T {
    with(MACHINES.lock().expect("nobody panics with it").entry(root.to_owned()).or_default())
}

/// The files of a server that runs its unit as it is.
pub fn install(root: &Path) {
    for (path, text) in [(UNIT, TEXT), ("/usr/local/bin/k3s", "v1.36.3+k3s1 ")] {
        let file = root.join(path.trim_start_matches('/'));
        fs::create_dir_all(file.parent().expect("a directory")).expect("made");
        fs::write(file, text).expect("written");
    }
    for dir in ["run/systemd/system", "etc/rancher/k3s", "var/lib/rancher/k3s/server"] {
        fs::create_dir_all(root.join(dir)).expect("made");
    }
    machine(root, |machine| *machine = Machine::default());
    reload(root);
    start(root);
}

pub fn read(root: &Path, path: &str) -> Option<String> {
    fs::read_to_string(root.join(path.trim_start_matches('/'))).ok()
}

/// `systemctl daemon-reload`
pub fn reload(root: &Path) {
    let text = read(root, UNIT).unwrap_or_default();
    let trial = read(root, TRIAL).map(|text| (TRIAL.to_owned(), text));
    let hidden = machine(root, |machine| machine.hidden.clone());
    let mut beside: Vec<(String, String)> = trial.into_iter().chain(hidden).collect();
    beside.sort_by_key(|(path, _)| path.rsplit('/').next().map(str::to_owned));
    let fragment = Unit::parse(UNIT, text.as_bytes());
    let drop_ins: Vec<Unit<'_>> = beside.iter().map(|(path, text)| Unit::parse(path, text.as_bytes())).collect();
    let effective = effective(&fragment, &drop_ins).expect("systemd loads it");
    let words = effective.exec_start().expect("a command").argv();
    machine(root, |machine| {
        machine.loaded = words.iter().map(|word| String::from_utf8_lossy(word).into_owned()).collect();
        machine.drop_ins = beside.iter().map(|(path, _)| path.clone()).collect();
    });
}

/// The process begins: it reads its files and its command line.
pub fn start(root: &Path) {
    let file = read(root, DROP_IN).unwrap_or_default();
    let of_file = file.lines().filter_map(|line| line.strip_prefix("- \"")?.strip_suffix('"'));
    let of_file: Vec<String> = of_file.map(|own| format!("--kube-scheduler-arg={own}")).collect();
    machine(root, |machine| {
        machine.runs = [&machine.loaded[1..2], &of_file, &machine.loaded[2..]].concat();
        machine.started = Some(Instant::now());
        machine.starts += 1;
    });
}

/// Time passes for the process.
pub fn age(root: &Path, seconds: u64) {
    machine(root, |machine| {
        let started = machine.started.and_then(|started| started.checked_sub(Duration::from_secs(seconds)));
        machine.started = started.or(machine.started);
    });
}

/// The host starts anew: what is in `/run` is gone.
pub fn reboot(root: &Path) {
    let _ = fs::remove_dir_all(root.join("run/systemd/system"));
    fs::create_dir_all(root.join("run/systemd/system")).expect("made");
    reload(root);
    start(root);
}

impl Machine {
    fn age(&self) -> u64 {
        self.started.map_or(0, |started| started.elapsed().as_secs())
    }

    /// The configuration file that the process was started with.
    pub fn config(&self) -> Option<&str> {
        self.runs.iter().rev().find_map(|word| word.strip_prefix("--kube-scheduler-arg=config="))
    }

    fn answers(&self) -> Result<(), SystemdError> {
        if self.is_unreachable {
            return Err(SystemdError::NoSocket { path: "/run/dbus/system_bus_socket".to_owned() });
        }
        if self.is_silent { Err(SystemdError::Silent { seconds: 20 }) } else { Ok(()) }
    }

    fn says(&self, root: &Path, word: &str) -> bool {
        self.config().and_then(|path| read(root, path)).is_some_and(|text| text.contains(word))
    }

    /// Whether its API answers.
    pub fn is_up(&self, root: &Path) -> bool {
        let age = self.age();
        if self.says(root, "crash.") { (1..LIFE).contains(&(age % CYCLE)) } else { age >= 1 }
    }

    /// Whether it has written its arguments to its node; until then the node has those of the start before.
    pub fn shows(&self, root: &Path) -> bool {
        self.is_up(root) && self.age() >= 4
    }

    /// Whether its scheduler answers.
    pub fn schedules(&self, root: &Path) -> bool {
        !self.says(root, "crash.") && !self.says(root, "slow.") && self.age() >= 2 + self.late
    }

    /// How often systemd has started it anew by itself.
    fn ends(&self, root: &Path) -> u64 {
        if self.says(root, "crash.") { self.age() / CYCLE } else { 0 }
    }
}

impl ServiceManager for Pretended {
    fn unit(&self, root: &Path, name: &str) -> Result<UnitState, SystemdError> {
        machine(root, |machine| {
            machine.answers()?;
            let (is_up, ends) = (machine.is_up(root), machine.ends(root));
            let (active, sub) = if is_up { ("active", "running") } else { ("activating", "start") };
            Ok(UnitState {
                fragment: format!("{UNITS}/{name}"),
                drop_ins: machine.drop_ins.clone(),
                commands: vec![machine.loaded.clone()],
                invocation: format!("start-{}-{ends}", machine.starts),
                restarts: u32::try_from(ends).unwrap_or_default(),
                active: active.to_owned(),
                sub: sub.to_owned(),
                result: "success".to_owned(),
                has_job: machine.age() < 1,
            })
        })
    }

    fn reload(&self, root: &Path) -> Result<(), SystemdError> {
        machine(root, |machine| machine.answers())?;
        machine(root, |machine| machine.reloads += 1);
        reload(root);
        Ok(())
    }

    fn restart(&self, root: &Path, _: &str) -> Result<(), SystemdError> {
        if machine(root, |machine| machine.refuses) {
            return Err(SystemdError::Failed { why: "Transaction is destructive".to_owned() });
        }
        machine(root, |machine| machine.restarts += 1);
        start(root);
        Ok(())
    }
}
