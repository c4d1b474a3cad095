//! The agent's options, and its ways to the world outside.

use std::sync::Arc;
use std::time::Duration;

use kube::Client;

use crate::apply::{HostFs, RealFs};
use crate::host::dir_watcher::DirWatcher;
use crate::rollout::OnFailure;
use crate::timestamp::Timestamp;
use crate::verify::{Health, Limits};

/// Whose word is proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// That of who observes what runs
    Observation,
    /// Nobody's
    None,
}

/// Who installed this agent, and where its sources are in the API.
#[derive(Clone, Debug, Default)]
pub struct Release {
    /// The namespace of its DaemonSet and of its sources
    pub namespace: String,
    /// Name of the DaemonSet; none for an agent that a person started
    pub daemon_set: Option<String>,
    /// Which template of the DaemonSet this agent was started from
    pub template: i64,
    /// Names of the ConfigMaps with what is wanted, in the order of the source directories that show them
    pub config_maps: Vec<String>,
}

/// How the agent goes about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this node
    pub node: String,
    /// Whose word is proof
    pub proof: Proof,
    /// How long is long
    pub limits: Limits,
    /// The slow timer
    pub resync: Duration,
    /// What follows on the other nodes when a change fails on one
    pub on_failure: OnFailure,
    /// Whether a server may be changed though etcd stands still meanwhile
    pub allows_quorum_loss: bool,
    /// Who installed this agent
    pub release: Release,
    /// How long to wait for another writer
    pub lock_timeout: Duration,
    /// The time of the day, only to tell it
    pub clock: fn() -> Timestamp,
}

/// The agent's ways to the world outside its files. Tests put their own here.
pub struct Outside {
    /// The API; none to run without any
    pub client: Option<Client>,
    /// What tells of changed files
    pub dir_watcher: DirWatcher,
    /// The way to the host's files
    pub fs: Arc<dyn HostFs + Send + Sync>,
    /// The scheduler's own endpoint at an address
    pub scheduler: SchedulerAt,
}

impl Outside {
    /// The real world, with this way to the API.
    pub fn real(client: Option<Client>) -> Self {
        Self {
            client,
            dir_watcher: DirWatcher::default(),
            fs: Arc::new(RealFs),
            scheduler: SchedulerAt(Arc::new(Health::at)),
        }
    }
}

impl std::fmt::Debug for Outside {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outside").field("dir_watcher", &self.dir_watcher).finish_non_exhaustive()
    }
}

/// Finds the scheduler's own endpoint at an address.
#[derive(Clone)]
pub struct SchedulerAt(pub Arc<FindHealth>);

/// From an address to what asks there.
type FindHealth = dyn Fn(&str) -> Option<Health> + Send + Sync;

impl std::fmt::Debug for SchedulerAt {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("SchedulerAt")
    }
}

/// The agent's own hold on the world outside.
#[derive(Debug)]
pub(super) struct Handles {
    pub client: Option<ClientHandle>,
    pub fs: FsHandle,
    pub scheduler: SchedulerAt,
}

impl Handles {
    pub fn new(client: Option<Client>, fs: Arc<dyn HostFs + Send + Sync>, scheduler: SchedulerAt) -> Self {
        Self { client: client.map(ClientHandle), fs: FsHandle(fs), scheduler }
    }
}

/// A client, with a `Debug`.
#[derive(Clone)]
pub(super) struct ClientHandle(pub Client);

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// The host's file system, with a `Debug`.
#[derive(Clone)]
pub(super) struct FsHandle(pub Arc<dyn HostFs + Send + Sync>);

impl std::fmt::Debug for FsHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("HostFs")
    }
}
