//! Follows one object by its name, so that the number of others in the cluster does not matter.
//!
//! A watch that was reset goes on without a new list, so it may say nothing for hours. Whoever needs an answer asks for the
//! object, and the answer is kept here.

use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use kube::runtime::WatchStreamExt as _;
use kube::runtime::watcher::{self, Event};
use kube::{Api, Resource};
use serde::de::DeserializeOwned;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::{ANSWER_TIMEOUT, root_cause};

/// What can be followed.
pub(crate) trait Object: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static {}
impl<K: Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static> Object for K {}

/// What is known of an object.
#[derive(Clone, Debug)]
pub(crate) enum Known<K> {
    /// No answer has come yet
    NotYet,
    /// The API does not answer, for this reason
    Away(String),
    /// The API does not let us see it
    Forbidden(String),
    /// There is no such object
    Absent,
    /// There is
    Object(Box<K>),
}

impl<K: Resource> Known<K> {
    /// Whether the API answered.
    pub fn is_answer(&self) -> bool {
        matches!(self, Self::Absent | Self::Object(_))
    }

    fn of_error(error: &kube::Error) -> Self {
        match error {
            kube::Error::Api(status) if status.code == 403 => Self::Forbidden(root_cause(error)),
            // a token is renewed, so whoever needs the object asks again
            kube::Error::Api(status) if status.code == 401 => {
                Self::Forbidden(format!("the API server refuses the token: {}", root_cause(error)))
            }
            _ => Self::Away(root_cause(error)),
        }
    }

    /// The API counts the versions of its objects. A late event may tell of an older one than an answer before it.
    fn is_older_than(&self, other: &Self) -> bool {
        self.version().zip(other.version()).is_some_and(|(own, other)| own < other)
    }

    fn is_newer_than(&self, other: &Self) -> bool {
        self.version().zip(other.version()).is_some_and(|(own, other)| own > other)
    }

    /// Whether both say the same: a watch that begins anew may show again what is known.
    fn is_same_as(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Absent, Self::Absent) => true,
            (Self::Object(own), Self::Object(other)) => {
                let version = |object: &K| object.meta().resource_version.clone().zip(object.meta().uid.clone());
                version(own).is_some() && version(own) == version(other)
            }
            (Self::Away(own), Self::Away(other)) | (Self::Forbidden(own), Self::Forbidden(other)) => own == other,
            _ => false,
        }
    }

    fn version(&self) -> Option<u64> {
        match self {
            Self::Object(object) => object.meta().resource_version.as_ref()?.parse().ok(),
            _ => None,
        }
    }
}

/// The last word about the object, and when it came.
#[derive(Clone, Debug)]
struct Latest<K> {
    known: Known<K>,
    at: Instant,
}

/// An object that is followed until this is dropped.
#[derive(Debug)]
pub(crate) struct Followed<K: Object> {
    latest: watch::Receiver<Latest<K>>,
    sender: Arc<watch::Sender<Latest<K>>>,
    objects: Api<K>,
    name: String,
    task: JoinHandle<()>,
}

impl<K: Object> Drop for Followed<K> {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl<K: Object<DynamicType = ()>> Followed<K> {
    /// Begins to follow an object.
    pub fn begin(objects: Api<K>, name: &str) -> Self {
        let (sender, latest) = watch::channel(Latest { known: Known::NotYet, at: Instant::now() });
        let sender = Arc::new(sender);
        let task = tokio::spawn(follow(objects.clone(), name.to_owned(), Arc::clone(&sender)));
        Self { latest, sender, objects, name: name.to_owned(), task }
    }

    /// What is known now, and how old it is.
    pub fn latest(&mut self) -> (Known<K>, Duration) {
        let latest = self.latest.borrow_and_update();
        (latest.known.clone(), latest.at.elapsed())
    }

    /// Whether the last question was not answered.
    pub fn is_away(&self) -> bool {
        matches!(self.latest.borrow().known, Known::Away(_) | Known::Forbidden(_))
    }

    /// Waits for news of the object.
    pub async fn changed(&mut self) {
        if self.latest.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Asks for the object as the API has it in this moment, and keeps the answer: also one of an older version than what is known,
    /// as after a restore of etcd. Only what the watch says after the question may be newer than the answer.
    pub async fn ask(&mut self) -> Known<K> {
        let asked = Instant::now();
        let known = match tokio::time::timeout(ANSWER_TIMEOUT, self.objects.get_opt(&self.name)).await {
            Ok(Ok(Some(object))) => Known::Object(Box::new(object)),
            Ok(Ok(None)) => Known::Absent,
            Ok(Err(error)) => Known::of_error(&error),
            Err(_) => Known::Away(no_answer()),
        };
        let has_news = self.latest.has_changed().unwrap_or(false);
        let is_stored = self.sender.send_if_modified(|latest| {
            let came_later = latest.at >= asked;
            let is_older = known.is_older_than(&latest.known) || has_news && !known.is_newer_than(&latest.known);
            if came_later && is_older && latest.known.is_answer() {
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
async fn follow<K: Object<DynamicType = ()>>(objects: Api<K>, name: String, sender: Arc<watch::Sender<Latest<K>>>) {
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let mut events = watcher::watcher(objects, config).default_backoff().boxed();
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
            tell(&sender, Known::Away(no_answer()));
            is_answered = true;
            continue;
        };
        let Some(event) = event else { return };
        // that a list begins is no answer
        is_answered |= !matches!(event, Ok(Event::Init));
        match event {
            Ok(Event::Init) => listed = None,
            Ok(Event::InitApply(object)) => listed = Some(object),
            Ok(Event::InitDone) => {
                tell(&sender, listed.take().map_or(Known::Absent, |object| Known::Object(Box::new(object))));
            }
            Ok(Event::Apply(object)) => tell(&sender, Known::Object(Box::new(object))),
            Ok(Event::Delete(_)) => tell(&sender, Known::Absent),
            Err(error) => tell(&sender, of_watch_error(&error)),
        }
    }
}

fn of_watch_error<K: Resource>(error: &watcher::Error) -> Known<K> {
    match error {
        watcher::Error::InitialListFailed(error) | watcher::Error::WatchStartFailed(error) => Known::of_error(error),
        error => Known::Away(root_cause(error)),
    }
}

/// Keeps the word; what is known already wakes nobody.
fn tell<K: Resource>(sender: &watch::Sender<Latest<K>>, known: Known<K>) {
    sender.send_if_modified(|latest| {
        if known.is_older_than(&latest.known) {
            return false;
        }
        let is_news = !known.is_same_as(&latest.known);
        *latest = Latest { known, at: Instant::now() };
        is_news
    });
}

fn no_answer() -> String {
    format!("no answer in {} s", ANSWER_TIMEOUT.as_secs())
}
