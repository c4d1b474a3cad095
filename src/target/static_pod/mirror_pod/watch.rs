//! Follows one mirror pod by its name, so that the number of pods in the cluster does not matter.
//!
//! A watch that was reset goes on without a new list, so it may say nothing for hours. Whoever needs an answer asks for the
//! pod, and the answer is kept here.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Client};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::api::Pod;
use crate::cluster::{ANSWER_TIMEOUT, answer, root_cause};

/// What is known of the pod.
#[derive(Clone, Debug)]
pub(super) enum PodAnswer {
    /// No answer has come yet
    NotYet,
    /// The API does not answer, for this reason
    Away(String),
    /// There is no such pod
    Absent,
    /// There is
    Pod(Box<Pod>),
}

impl PodAnswer {
    /// Whether the API answered.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Absent | Self::Pod(_))
    }

    /// The API counts the versions of its objects. A late event may tell of an older one than an answer before it.
    fn is_older_than(&self, other: &Self) -> bool {
        self.version().zip(other.version()).is_some_and(|(own, other)| own < other)
    }

    fn is_newer_than(&self, other: &Self) -> bool {
        self.version().zip(other.version()).is_some_and(|(own, other)| own > other)
    }

    fn version(&self) -> Option<u64> {
        match self {
            Self::Pod(pod) => pod.metadata.resource_version.as_ref()?.parse().ok(),
            _ => None,
        }
    }
}

/// The last word about the pod, and when it came.
#[derive(Clone, Debug)]
struct Latest {
    known: PodAnswer,
    at: Instant,
}

/// A pod that is followed until this is dropped.
#[derive(Debug)]
pub(super) struct PodWatch {
    latest: watch::Receiver<Latest>,
    sender: Arc<watch::Sender<Latest>>,
    pods: Api<Pod>,
    name: String,
    task: JoinHandle<()>,
}

impl Drop for PodWatch {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PodWatch {
    /// Begins to follow a pod.
    pub fn begin(client: Client, namespace: &str, name: &str) -> Self {
        let (sender, latest) = watch::channel(Latest { known: PodAnswer::NotYet, at: Instant::now() });
        let sender = Arc::new(sender);
        let pods: Api<Pod> = Api::namespaced(client, namespace);
        let task = tokio::spawn(follow(pods.clone(), name.to_owned(), Arc::clone(&sender)));
        Self { latest, sender, pods, name: name.to_owned(), task }
    }

    /// What is known now, and how old it is.
    pub fn latest(&mut self) -> (PodAnswer, Duration) {
        let latest = self.latest.borrow_and_update();
        (latest.known.clone(), latest.at.elapsed())
    }

    /// Whether the last question was not answered.
    pub fn is_away(&self) -> bool {
        matches!(self.latest.borrow().known, PodAnswer::Away(_))
    }

    /// Waits for news of the pod.
    pub async fn changed(&mut self) {
        if self.latest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks for the pod as the API has it in this moment, and keeps the answer.
    pub async fn ask(&mut self) -> PodAnswer {
        let known = match answer(self.pods.get_opt(&self.name)).await {
            Ok(Some(pod)) => PodAnswer::Pod(Box::new(pod)),
            Ok(None) => PodAnswer::Absent,
            Err(why) => PodAnswer::Away(why),
        };
        // news that came by the watch meanwhile may be newer than this answer
        let has_news = self.latest.has_changed().unwrap_or(false);
        let is_stored = self.sender.send_if_modified(|latest| {
            let is_older = known.is_older_than(&latest.known) || has_news && !known.is_newer_than(&latest.known);
            if is_older && latest.known.is_answer() {
                return false;
            }
            *latest = Latest { known: known.clone(), at: Instant::now() };
            true
        });
        if is_stored {
            // the caller has the answer, and needs no wake-up for it
            self.latest.mark_unchanged();
        }
        self.latest.borrow().known.clone()
    }
}

/// Passes on what the watch tells.
async fn follow(pods: Api<Pod>, name: String, sender: Arc<watch::Sender<Latest>>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher::watcher(pods, config).default_backoff().boxed();
    let mut listed = None;
    // the first answer is waited for, but not for ever
    let deadline = Instant::now() + ANSWER_TIMEOUT;
    let mut is_answered = false;
    loop {
        let event = if is_answered {
            events.next().await
        } else if let Ok(event) = tokio::time::timeout_at(deadline, events.next()).await {
            event
        } else {
            tell(&sender, PodAnswer::Away(format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())));
            is_answered = true;
            continue;
        };
        let Some(event) = event else { return };
        // that a list begins is no answer
        is_answered |= !matches!(event, Ok(Event::Init));
        match event {
            Ok(Event::Init) => listed = None,
            Ok(Event::InitApply(pod)) => listed = Some(pod),
            Ok(Event::InitDone) => {
                tell(&sender, listed.take().map_or(PodAnswer::Absent, |pod| PodAnswer::Pod(Box::new(pod))));
            }
            Ok(Event::Apply(pod)) => tell(&sender, PodAnswer::Pod(Box::new(pod))),
            Ok(Event::Delete(_)) => tell(&sender, PodAnswer::Absent),
            Err(error) => tell(&sender, PodAnswer::Away(root_cause(&error))),
        }
    }
}

fn tell(sender: &watch::Sender<Latest>, known: PodAnswer) {
    sender.send_if_modified(|latest| {
        if known.is_older_than(&latest.known) {
            return false;
        }
        *latest = Latest { known, at: Instant::now() };
        true
    });
}
