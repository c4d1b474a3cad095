//! A k3s server, whose scheduler is a part of its own process. Its configuration is carried by the command line of the systemd
//! unit, or by a file beside the configuration of k3s; only a restart of the whole server makes it effective.

mod choose;
mod config;
mod drop_in;
mod environment;
mod exec_start;
mod observer;
mod refuse;
mod restarter;
mod server;
mod spec;
mod trial;

use super::{
    Activation, Candidates, Chosen, Context, Definition, Expectation, Here, HostFiles, Observer, OnTrial, Refusal,
    Rule, SchedulerSpec, Service, ServiceExpectation, TargetFile, TargetKind, Words,
};
use crate::finding::Finding;
use crate::host::HostPath;
use drop_in::DropIn;
use exec_start::ExecStart;
use observer::ServerObserver;
pub use restarter::UnitRestarter;
use trial::Base;

/// Where units are edited; everywhere else packages own them.
pub const UNITS: &str = "/etc/systemd/system";
/// Where k3s looks for configuration files beside its own.
pub const CONFIG_DIR: &str = "/etc/rancher/k3s/config.yaml.d";
/// Our file there. A later one of another owner may have the last word.
pub(crate) const OWN_FILE: &str = "90-schedpatch.yaml";
/// Our name in the comments of a unit.
const OWNER: &str = "schedpatch";
/// The service file of OpenRC.
const OPENRC: &str = "/etc/init.d/k3s";

/// How the configuration is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the command line in the unit
    ExecStart,
    /// By a file in `config.yaml.d`
    DropIn,
}

/// Who restarts k3s.
#[derive(Clone, Copy, Debug)]
pub enum RestartBy {
    /// A person, whenever it suits
    Person(&'static UnitRestarter),
    /// The service manager, at once
    Manager(&'static UnitRestarter),
    /// The same, and a new text is first tried in a place that a restart of the host forgets
    ManagerAfterTrial(&'static UnitRestarter),
}

/// The kind of target that a k3s server is.
#[derive(Debug)]
pub struct K3s {
    method: Method,
    restart: RestartBy,
}

impl K3s {
    /// A server whose configuration is carried like this.
    pub const fn new(method: Method, restart: RestartBy) -> Self {
        Self { method, restart }
    }

    /// Who restarts this server: a restart that ends all containers would end schedpatch itself, and a server that stays down
    /// when its scheduler refuses a configuration could not be taken back.
    fn restarter(&self, spec: &SchedulerSpec) -> Option<&'static UnitRestarter> {
        let is_safe = |service: &Service| service.spares_containers && service.starts_again;
        let is_safe = spec.service.as_ref().is_some_and(is_safe);
        match self.restart {
            RestartBy::Person(_) => None,
            RestartBy::Manager(restarter) | RestartBy::ManagerAfterTrial(restarter) => {
                Some(restarter).filter(|_| is_safe)
            }
        }
    }

    /// The way to the service manager, whoever restarts.
    fn service_manager(&self) -> &'static UnitRestarter {
        match self.restart {
            RestartBy::Person(manager) | RestartBy::Manager(manager) | RestartBy::ManagerAfterTrial(manager) => manager,
        }
    }
}

/// Whether a path is that of a unit that may be edited.
fn is_unit(path: &str) -> bool {
    path.rsplit_once('/').is_some_and(|(dir, name)| dir == UNITS && name.ends_with(".service"))
}

impl TargetKind for K3s {
    fn name(&self) -> &'static str {
        match self.method {
            Method::ExecStart => "systemd unit",
            Method::DropIn => "configuration file of k3s",
        }
    }

    fn needs_marker(&self) -> bool {
        true
    }

    fn is_candidate(&self, file: &TargetFile) -> bool {
        match self.method {
            Method::ExecStart => {
                let names_k3s =
                    file.text.as_ref().map_or_else(|_| file.path.contains("k3s"), |text| text.contains("k3s"));
                file.path.ends_with(".service") && names_k3s
            }
            Method::DropIn => file.path.name() == OWN_FILE,
        }
    }

    fn keeps_neighbours(&self) -> bool {
        false
    }

    fn own_file(&self) -> Option<&'static str> {
        (self.method == Method::DropIn).then_some(OWN_FILE)
    }

    fn look_around(&self, files: &mut [TargetFile], host: &dyn HostFiles) {
        let _ = host.text(OPENRC);
        match self.method {
            Method::ExecStart => {
                for file in files {
                    let Ok(text) = &file.text else { continue };
                    if server::read(&file.path, text, host, None).is_ok() {
                        let tried = trial::overlay(Base { on_disk: text, unit_path: &file.path, unit: text }, host);
                        on_trial(file, tried);
                    }
                }
            }
            Method::DropIn => {
                for path in &server::units(host) {
                    let Some(Ok(unit)) = host.text(path) else { continue };
                    let (Ok(_), Some(file)) = (server::read(path, &unit, host, None), files.first_mut()) else {
                        continue;
                    };
                    let Ok(text) = &file.text else { continue };
                    let tried = trial::overlay(Base { on_disk: text, unit_path: path, unit: &unit }, host);
                    on_trial(file, tried);
                }
            }
        }
    }

    fn trial(&self, on_disk: &str, text: &str, context: Context<'_>) -> Result<Option<(HostPath, Vec<u8>)>, Refusal> {
        let definition = self.read(text, context)?;
        let spec = definition.spec()?;
        if self.restarter(&spec).is_none() || !matches!(self.restart, RestartBy::ManagerAfterTrial(_)) {
            return Ok(None);
        }
        let drop_in = match self.method {
            Method::ExecStart => {
                let base = Base { on_disk, unit_path: context.path, unit: on_disk };
                trial::write(base, text, text, (0, &[]), context.around)?
            }
            Method::DropIn => {
                let DropIn { unit: (unit_path, unit), .. } = DropIn::new(text, context)?;
                let head = server::read(unit_path, unit, context.around, None)?.head;
                let more = drop_in::arguments(text)?;
                let tried = trial::write(Base { on_disk, unit_path, unit }, unit, text, (head, &more), context.around);
                // the method drop-in is in use already, so it is no way out
                tried.map_err(|refusal| match refusal.rule {
                    Rule::UnitShape | Rule::UnitOverridden => Refusal { rule: Rule::Untriable, ..refusal },
                    _ => refusal,
                })?
            }
        };
        Ok(Some((trial::path(&spec.identity.name), drop_in)))
    }

    fn read<'a>(&self, text: &'a str, context: Context<'a>) -> Result<Box<dyn Definition + 'a>, Refusal> {
        Ok(match self.method {
            Method::ExecStart => Box::new(ExecStart { text, context }),
            Method::DropIn => Box::new(DropIn::new(text, context)?),
        })
    }

    fn choose<'a>(&self, candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
        choose::choose(self.method, candidates)
    }

    fn what_follows(&self, spec: &SchedulerSpec) -> String {
        match self.restarter(spec) {
            Some(_) => "systemd restarts k3s.".to_owned(),
            None => format!("Restart k3s to make it effective: {}", restart_command(spec)),
        }
    }

    fn activation(&self, spec: &SchedulerSpec) -> Activation {
        let by_person = || Activation::Person(self.service_manager());
        self.restarter(spec).map_or_else(by_person, |restarter| Activation::Restart(restarter))
    }

    fn expectation(&self, spec: &SchedulerSpec) -> Expectation {
        let config = spec.config().map(|(_, path)| path.to_owned());
        Expectation {
            // the process shows its configuration file, which is of one revision; a generation it does not show
            revision: spec.ours.as_ref().and(config.as_deref()).and_then(observer::revision_of),
            generation: None,
            config,
            has_readiness_probe: false,
            endpoint: spec.endpoint(),
            unnoticed_after: None,
            service: Some(ServiceExpectation {
                program: spec.service.as_ref().map_or_else(String::new, |service| service.program.clone()),
                restart_by_hand: self.restarter(spec).is_none().then(|| restart_command(spec)),
                reads_again: self.method == Method::DropIn,
            }),
            words: Words {
                absent: "k3s does not run",
                earlier: "k3s does not show yet that it was started with this configuration",
                not_started: "k3s does not start",
            },
        }
    }

    fn observer(&self, spec: &SchedulerSpec, here: &Here<'_>) -> Box<dyn Observer> {
        Box::new(ServerObserver::new(self.service_manager(), self.restarter(spec).is_none(), spec, here))
    }
}

/// The text on trial is the one that counts.
fn on_trial(file: &mut TargetFile, tried: Option<(String, OnTrial)>) {
    if let Some((text, trial)) = tried {
        file.text = Ok(text);
        file.trial = Some(trial);
    }
}

/// What a person runs to make a new text effective.
fn restart_command(spec: &SchedulerSpec) -> String {
    let unit = spec.identity.name.strip_suffix(".service").unwrap_or(&spec.identity.name);
    format!("systemctl daemon-reload && systemctl restart {unit}")
}
