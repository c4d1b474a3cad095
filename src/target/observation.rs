//! What runs, in words that hold for every target kind: what was seen, what must be seen, and who looks.

use std::fmt::Debug;
use std::pin::Pin;
use std::time::Duration;

use crate::finding::Finding;

/// What could be learned of the scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Observation {
    /// Nobody is asked
    Unasked,
    /// No answer has come yet
    NotYet,
    /// Who was asked did not answer, for this reason
    Away(String),
    /// There is no scheduler of this name
    Absent,
    /// There is
    Running(Running),
    /// There is, says the host alone: who else must be asked does not answer, for this reason. Its configuration file is the one that
    /// the next start gets, where that is known, and empty for none
    Local(Running, String),
}

impl Observation {
    /// Whether somebody answered.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Absent | Self::Running(_))
    }
}

/// The scheduler that there is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Running {
    /// Our revision that it was started from
    pub revision: Option<String>,
    /// Our generation, likewise
    pub generation: Option<u64>,
    /// The configuration file that it was started with
    pub config: Option<String>,
    /// What was started, once there is word of it
    pub instance: Option<Instance>,
}

/// The id of a start of which nobody can say which one it is.
pub const UNKNOWN_START: &str = "unknown";

/// One start of the scheduler.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Instance {
    /// Its id; empty before it is made
    pub id: String,
    /// Whether it runs and, where it is asked, says that it is ready
    pub ready: bool,
    /// Why it is not started
    pub waiting: Option<Waiting>,
    /// The last one that ended by its own fault: its id and last words
    pub ended: Option<(String, String)>,
    /// How often in a row it was started anew by itself, where somebody counts that
    pub restarts: Option<u32>,
    /// The image that it runs, by its digest, where that is known
    pub image: Option<String>,
}

/// Why a scheduler is not started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// What stands in its way; none where it only has to wait
    pub obstacle: Option<Obstacle>,
    /// In a word
    pub reason: String,
    /// In a sentence
    pub message: String,
}

/// What stands in the way of a start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Obstacle {
    /// The image cannot be had
    Image,
    /// It cannot be made or started
    Start,
}

/// What must be seen once the text in place is effective.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Expectation {
    /// Our revision; none if our edit is not in the target
    pub revision: Option<String>,
    /// Our generation
    pub generation: Option<u64>,
    /// The configuration file that the scheduler is started with
    pub config: Option<String>,
    /// Whether Ready means that the scheduler was asked
    pub has_readiness_probe: bool,
    /// Scheme, host and port where the scheduler itself can be asked, on this node
    pub endpoint: String,
    /// What else is known of a service
    pub service: Option<ServiceExpectation>,
    /// After so long without a sign of it, one more commit may help; none where it never does
    pub unnoticed_after: Option<Duration>,
    /// What to say meanwhile
    pub words: Words,
}

/// What is expected of a service that runs a scheduler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceExpectation {
    /// Its program: what is seen of another one says nothing
    pub program: String,
    /// What a person must run to restart it, if nobody else does
    pub restart_by_hand: Option<String>,
    /// Whether the arguments that it shows may be of a file that it read once more after its start
    pub reads_again: bool,
}

/// What is said of a scheduler that is not seen yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Words {
    /// There is none
    pub absent: &'static str,
    /// There is the one of an earlier text
    pub earlier: &'static str,
    /// There is no word of what was started
    pub not_started: &'static str,
}

/// An answer that takes a while.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Asks an endpoint of this host whether it is well.
pub struct Probe(pub Box<dyn Fn() -> Answer<'static, bool> + Send + Sync>);

impl Probe {
    /// Whether it is.
    pub async fn is_well(&self) -> bool {
        (self.0)().await
    }
}

impl Debug for Probe {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Probe")
    }
}

/// Follows what runs until it is dropped.
pub trait Observer: Debug + Send {
    /// What is known now, and how old it is.
    fn latest(&mut self) -> (Observation, Duration);

    /// Whether the last question was not answered.
    fn is_away(&self) -> bool;

    /// Waits for news.
    fn changed(&mut self) -> Answer<'_, ()>;

    /// Asks for what is true in this moment, and keeps the answer.
    fn ask(&mut self) -> Answer<'_, Observation>;

    /// Why nothing follows from what is shown: it may be of some time ago.
    fn why_stale(&mut self) -> Answer<'_, Option<String>>;

    /// Asked before a new text is written into the target: why the scheduler would not read it, where only the cluster shows that.
    fn objection(&mut self, _target: &str) -> Answer<'_, Option<Finding>> {
        Box::pin(async { None })
    }
}
