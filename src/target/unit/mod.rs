//! A k3s server, whose scheduler is a part of its own process. Its configuration is carried by the command line of the systemd
//! unit, or by a file beside the configuration of k3s; only a restart of the whole server makes it effective.

mod choose;
mod config;
mod drop_in;
mod environment;
mod exec_start;
mod nobody;
mod refuse;
mod server;
mod spec;
pub mod trial;

use super::{
    Activation, Candidates, Chosen, Context, Definition, Expectation, Here, HostFiles, Observer, Refusal,
    SchedulerSpec, TargetFile, TargetKind, Words,
};
use crate::finding::Finding;
use drop_in::DropIn;
use exec_start::ExecStart;

/// Where units are edited; everywhere else packages own them.
pub const UNITS: &str = "/etc/systemd/system";
/// Where k3s looks for configuration files beside its own.
pub const CONFIG_DIR: &str = "/etc/rancher/k3s/config.yaml.d";
/// Our file there. A later one of another owner may have the last word.
const OWN_FILE: &str = "90-schedpatch.yaml";
/// The service file of OpenRC
const OPENRC: &str = "/etc/init.d/k3s";

/// How the configuration is carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Method {
    /// By the command line in the unit
    ExecStart,
    /// By a file in `config.yaml.d`
    DropIn,
}

/// The kind of target that a k3s server is.
#[derive(Debug)]
pub struct K3s {
    method: Method,
}

impl K3s {
    /// A server that a person restarts.
    pub const fn restarted_by_a_person(method: Method) -> Self {
        Self { method }
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

    fn look_around(&self, files: &[TargetFile], host: &dyn HostFiles) {
        let _ = host.text(OPENRC);
        match self.method {
            Method::ExecStart => {
                for (path, text) in files.iter().filter_map(|file| Some((&file.path, file.text.as_deref().ok()?))) {
                    let _ = server::read(path, text, host, None);
                }
            }
            Method::DropIn => {
                let units = host.files_in(UNITS);
                for path in units.iter().filter(|path| is_unit(path) && path.name().starts_with("k3s")) {
                    if let Some(Ok(text)) = host.text(path) {
                        let _ = server::read(path, &text, host, None);
                    }
                }
            }
        }
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
        format!("Restart k3s to make it effective: {}", restart_command(spec))
    }

    fn activation(&self, _: &SchedulerSpec) -> Activation {
        Activation::Person
    }

    fn expectation(&self, spec: &SchedulerSpec) -> Expectation {
        Expectation {
            revision: spec.ours.as_ref().map(|ours| ours.revision.clone()),
            generation: spec.ours.as_ref().map(|ours| ours.generation),
            config: spec.config().map(|(_, path)| path.to_owned()),
            has_readiness_probe: false,
            endpoint: "https://127.0.0.1:10259".to_owned(),
            unnoticed_after: None,
            words: Words {
                absent: "k3s does not run",
                earlier: "k3s was not restarted yet",
                not_started: "k3s does not start",
            },
        }
    }

    fn observer(&self, _: &SchedulerSpec, _: &Here<'_>) -> Box<dyn Observer> {
        Box::new(nobody::Nobody)
    }
}

/// What a person runs to make a new text effective.
fn restart_command(spec: &SchedulerSpec) -> String {
    let unit = spec.identity.name.strip_suffix(".service").unwrap_or(&spec.identity.name);
    format!("systemctl daemon-reload && systemctl restart {unit}")
}
