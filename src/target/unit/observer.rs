//! What runs of a k3s server. No single sign is enough: systemd says which start it is and how often it ended by itself, the node's
//! annotation says which arguments the process has read, and the scheduler itself is asked elsewhere.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::ListParams;
use kube::{Api, Client};
use tokio::time::Instant;

use super::server::{config_path, flag_values};
use super::{Method, UnitRestarter};
use crate::finding::Finding;
use crate::host::systemd::{ServiceManager, UnitState};
use crate::target::refusal::{Refusal, Rule};
use crate::target::{
    Answer, Here, Instance, Observation, Observer, Probe, Running, SchedulerSpec, UNKNOWN_START, Waiting,
};

/// The arguments of the process, those of its files first: JSON.
const NODE_ARGS: &str = "k3s.io/node-args";
/// The variables of the process that k3s reads: JSON.
const NODE_ENV: &str = "k3s.io/node-env";
/// Our revision is the directory of its configuration file.
const REVISIONS: &str = "/revisions/";
/// An API server that is there answers at once.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often systemd is asked while nothing else happens.
const INTERVAL: Duration = Duration::from_secs(30);

/// Follows a k3s server.
pub(super) struct ServerObserver {
    /// None where it cannot be asked, and need not be
    manager: Option<&'static dyn ServiceManager>,
    /// Whether a service manager that does not answer is no obstacle: a person restarts k3s
    is_optional: bool,
    /// Whether the configuration is on the command line that systemd has loaded
    is_on_command_line: bool,
    host_root: PathBuf,
    unit: String,
    nodes: Api<Node>,
    node: String,
    server: Option<Probe>,
    last: Option<(Observation, Instant)>,
    seen: Option<UnitState>,
}

impl std::fmt::Debug for ServerObserver {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServerObserver").field("unit", &self.unit).finish_non_exhaustive()
    }
}

impl ServerObserver {
    /// Begins to follow the server of this node.
    pub fn new(through: &'static UnitRestarter, is_optional: bool, spec: &SchedulerSpec, here: &Here<'_>) -> Self {
        let server = spec.service.as_ref().map(|service| format!("{}/readyz", service.server));
        Self {
            manager: Some(through.manager),
            is_optional,
            is_on_command_line: through.method == Method::ExecStart,
            host_root: here.host_root.to_owned(),
            unit: spec.identity.name.clone(),
            nodes: Api::all(Client::clone(here.client)),
            node: here.node.to_owned(),
            server: server.and_then(|url| (here.probe)(&url)),
            last: None,
            seen: None,
        }
    }

    fn state(&mut self) -> Result<Option<UnitState>, String> {
        let Some(manager) = self.manager else { return Ok(None) };
        match manager.unit(&self.host_root, &self.unit) {
            Ok(state) => {
                self.seen = Some(state.clone());
                Ok(Some(state))
            }
            Err(_) if self.is_optional => Ok(None),
            Err(error) => Err(error.to_string()),
        }
    }

    async fn look(&mut self) -> Observation {
        let state = match self.state() {
            Ok(state) => state,
            Err(why) => return Observation::Away(why),
        };
        let instance = instance(state.as_ref());
        // the next start gets the command line that is loaded
        let loaded = state.as_ref().filter(|_| self.is_on_command_line).map(loaded_config);
        let local = |why: String| {
            let running = Running { instance: Some(instance.clone()), config: loaded.clone(), ..Running::default() };
            Observation::Local(running, why)
        };
        if let Some(state) = state.as_ref().filter(|state| state.active != "active") {
            return local(format!("k3s is {} ({})", state.active, state.sub));
        }
        let is_up = match &self.server {
            Some(server) => server.is_well().await,
            None => true,
        };
        if !is_up {
            return local("the API server of this node does not answer".to_owned());
        }
        match self.annotations().await {
            Ok(annotations) => {
                let config = annotations.get(NODE_ARGS).and_then(|text| config_of(text));
                let revision = config.as_deref().and_then(revision_of);
                Observation::Running(Running { revision, generation: None, config, instance: Some(instance) })
            }
            Err(why) => local(why),
        }
    }

    /// What the node says of itself.
    async fn annotations(&self) -> Result<BTreeMap<String, String>, String> {
        // the agent may list nodes, not get one
        let own = ListParams::default().fields(&format!("metadata.name={}", self.node));
        let asked = tokio::time::timeout(PATIENCE, self.nodes.list_metadata(&own)).await;
        let nodes = asked.map_err(|_| "the API does not answer".to_owned())?.map_err(|error| error.to_string())?;
        let node = nodes.items.into_iter().find(|node| node.metadata.name.as_ref() == Some(&self.node));
        Ok(node.and_then(|node| node.metadata.annotations).unwrap_or_default())
    }
}

/// The start of the server that runs, or is on its way.
fn instance(state: Option<&UnitState>) -> Instance {
    let Some(state) = state else {
        return Instance { id: UNKNOWN_START.to_owned(), ready: true, ..Instance::default() };
    };
    let ready = state.active == "active";
    let waiting = (!ready).then(|| Waiting {
        obstacle: None,
        reason: state.sub.clone(),
        message: format!("k3s is {} ({})", state.active, state.sub),
    });
    Instance { id: state.invocation.clone(), ready, waiting, restarts: Some(state.restarts), ..Instance::default() }
}

/// The configuration file of the command line that systemd has loaded; empty for none.
fn loaded_config(state: &UnitState) -> String {
    let words: Vec<String> = state.commands.iter().flatten().cloned().collect();
    last_config(&words).unwrap_or_default()
}

/// The last configuration file among the arguments of the process.
pub(super) fn config_of(node_args: &str) -> Option<String> {
    let arguments: Vec<String> = serde_json::from_str(node_args).ok()?;
    last_config(&arguments)
}

fn last_config(arguments: &[String]) -> Option<String> {
    let values = flag_values(arguments, &["--kube-scheduler-arg"]);
    values.iter().rev().find_map(|value| config_path(value)).map(str::to_owned)
}

/// The variable may be in a file that the agent does not see: then k3s never reads what is written beside another file.
fn read_elsewhere(node_env: &str, file: &str) -> Option<Refusal> {
    let variables: BTreeMap<String, String> = serde_json::from_str(node_env).ok()?;
    let named = variables.get("K3S_CONFIG_FILE").filter(|named| !named.is_empty() && *named != file)?;
    let message = format!("k3s runs with K3S_CONFIG_FILE={named}, and what the agent sees of its unit leads to {file}");
    Some(Refusal::new(Rule::ConfigOverridden, message))
}

/// The revision that a configuration file of ours is of.
pub(super) fn revision_of(config: &str) -> Option<String> {
    let (_, rest) = config.rsplit_once(REVISIONS)?;
    rest.split('/').next().map(str::to_owned)
}

impl Observer for ServerObserver {
    fn latest(&mut self) -> (Observation, Duration) {
        match &self.last {
            Some((seen, at)) => (seen.clone(), at.elapsed()),
            None => (Observation::NotYet, Duration::MAX),
        }
    }

    fn is_away(&self) -> bool {
        self.last.as_ref().is_some_and(|(seen, _)| !seen.is_answer())
    }

    fn changed(&mut self) -> Answer<'_, ()> {
        Box::pin(async {
            loop {
                tokio::time::sleep(INTERVAL).await;
                let before = self.seen.clone();
                if self.state().is_ok() && self.seen != before {
                    return;
                }
            }
        })
    }

    fn ask(&mut self) -> Answer<'_, Observation> {
        Box::pin(async {
            let seen = self.look().await;
            self.last = Some((seen.clone(), Instant::now()));
            seen
        })
    }

    fn why_stale(&mut self) -> Answer<'_, Option<String>> {
        Box::pin(async { None })
    }

    fn objection(&mut self, target: &str) -> Answer<'_, Option<Finding>> {
        let dir = target.rsplit_once('/').map(|(dir, _)| dir);
        let file = dir.and_then(|dir| dir.strip_suffix(".d")).map(str::to_owned);
        Box::pin(async move {
            if self.is_on_command_line {
                return None;
            }
            let annotations = self.annotations().await.ok()?;
            read_elsewhere(annotations.get(NODE_ENV)?, &file?).map(Finding::from)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_configuration_among_the_arguments_counts() {
        let text = r#"["server","--kube-scheduler-arg","config=/a","--kube-scheduler-arg=v","--kube-scheduler-arg","config=/var/lib/schedpatch/revisions/0123456789ab/config.yaml"]"#;
        let config = config_of(text).unwrap();
        assert_eq!(revision_of(&config).as_deref(), Some("0123456789ab"));
        assert_eq!(config_of(r#"["server"]"#), None);
        assert_eq!(config_of(r#"["server","--kube-scheduler-arg=--config=/a"]"#).as_deref(), Some("/a"));
        assert_eq!(config_of("no JSON"), None);
        assert_eq!(revision_of("/etc/other.yaml"), None);
    }

    #[test]
    fn a_server_that_is_not_up_is_not_ready_and_its_new_starts_are_counted() {
        let state = UnitState { restarts: 2, active: "activating".to_owned(), ..UnitState::default() };
        let seen = instance(Some(&state));
        assert_eq!((seen.ready, seen.restarts), (false, Some(2)));
    }
}
