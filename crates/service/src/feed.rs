//! Keeps up with a kind of object: by a list and a watch, or by lists alone where watching is not allowed.

use std::time::Duration;

use futures_util::TryStreamExt as _;
use kube::core::params::{ListParams, WatchParams};
use kube::core::{Request, WatchEvent};
use serde::de::DeserializeOwned;
use tokio::sync::mpsc::Sender;
use tokio::time::Instant;

use crate::api::{Api, ApiError, Listed, Readable, Unreadable};

/// The API server ends a watch after this time, and we begin the next one where it ended.
const WATCH_SECONDS: u32 = 290;
/// So long the API server may take to open a watch.
const OPEN_TIMEOUT: Duration = Duration::from_secs(10);
/// A watch brings a bookmark every minute; one that is silent for longer may be dead.
const MAX_SILENCE: Duration = Duration::from_secs(100);
/// First and longest pause after a failure.
const PAUSES: [Duration; 2] = [Duration::from_millis(100), Duration::from_secs(5)];
/// After so long without an event that cannot be read, the next one leads to a list at once.
const FORGIVE_AFTER: Duration = Duration::from_mins(5);
/// So long at most only lists are used where watching was not allowed; then it is tried again. It begins with one delay:
/// an API server that has just started refuses everything for a moment.
const POLL_FOR: Duration = Duration::from_mins(5);

/// What happened to the objects.
#[derive(Clone, Debug)]
pub enum Change<T> {
    /// These are all
    Reset(Vec<T>),
    /// New or changed
    Set(T),
    /// Gone, or no longer among those asked for
    Gone(T),
    /// Nothing is known for now, and why
    Lost(String),
    /// Known again
    Found,
}

/// An object that is watched.
pub trait Watched: DeserializeOwned + Clone + Send + 'static {
    /// Its version, where the next watch begins.
    fn resource_version(&self) -> &str;
}

/// Which objects.
#[derive(Clone, Debug)]
pub struct Query {
    /// Path of the list
    pub path: &'static str,
    /// Field selector
    pub fields: String,
    /// Label selector
    pub labels: String,
}

impl Query {
    /// As parameters of a list.
    pub fn list(&self) -> ListParams {
        let mut params = ListParams::default();
        if !self.fields.is_empty() {
            params = params.fields(&self.fields);
        }
        if !self.labels.is_empty() {
            params = params.labels(&self.labels);
        }
        params
    }

    fn watch(&self) -> WatchParams {
        let mut params = WatchParams::default().timeout(WATCH_SECONDS);
        if !self.fields.is_empty() {
            params = params.fields(&self.fields);
        }
        if !self.labels.is_empty() {
            params = params.labels(&self.labels);
        }
        params
    }
}

/// How a watch ended.
enum End {
    /// In good order, at this version
    At(String),
    /// With an error, at this version
    Failed(String, ApiError),
    /// The version is too old to go on from
    Expired,
    /// With an event that cannot be read: a watch that begins at the same version brings the same event again
    Unreadable(ApiError),
    /// We may not watch
    Forbidden,
    /// Nobody listens any more
    Closed,
}

/// What comes after the watches that could be begun from one list.
enum Next {
    List,
    /// Only lists for a while
    Poll,
    Close,
}

/// Pauses that grow while something goes wrong.
struct Pauses {
    failure: Duration,
    /// After an event that cannot be read
    unreadable: Duration,
    /// When there was one
    unreadable_at: Instant,
    /// So long only lists are used
    poll: Duration,
}

/// Sends changes until the receiver is gone. Where watching is forbidden it lists every `delay`.
pub async fn follow<T: Watched>(api: Api, query: Query, delay: Duration, sink: Sender<Change<T>>) {
    let mut pauses = Pauses { failure: PAUSES[0], unreadable: PAUSES[0], unreadable_at: Instant::now(), poll: delay };
    let mut left_out = Vec::new();
    let mut poll_until = None;
    loop {
        let Listed { objects, unreadable, version } = match api.list_readable::<T>(query.path, &query.list()).await {
            Ok(listed) => listed,
            Err(error) => {
                if lost(&sink, format!("cannot list {}: {error}", query.path), &mut pauses.failure).await.is_err() {
                    return;
                }
                continue;
            }
        };
        pauses.failure = PAUSES[0];
        let names = |all: &[Unreadable]| all.iter().map(|one| one.object.clone()).collect::<Vec<_>>();
        if names(&unreadable) != names(&left_out) {
            warn_of(query.path, &unreadable);
        }
        left_out = unreadable;
        if sink.send(Change::Reset(objects)).await.is_err() {
            return;
        }
        if poll_until.is_some_and(|until| Instant::now() < until) {
            tokio::time::sleep(delay).await;
            continue;
        }
        poll_until = None;
        match watch_from(version, &api, &query, (&sink, &left_out), (&mut pauses, delay)).await {
            Next::List => {}
            Next::Poll => {
                tracing::info!(
                    path = query.path,
                    "not allowed to watch: listing every {} s instead",
                    delay.as_secs_f32()
                );
                poll_until = Some(Instant::now() + pauses.poll);
                pauses.poll = (pauses.poll * 2).min(POLL_FOR);
                tokio::time::sleep(delay).await;
            }
            Next::Close => return,
        }
    }
}

/// Watches, one watch after the other, from the version of a list until another list is needed.
async fn watch_from<T: Watched>(
    mut version: String,
    api: &Api,
    query: &Query,
    (sink, left_out): (&Sender<Change<T>>, &[Unreadable]),
    (pauses, delay): (&mut Pauses, Duration),
) -> Next {
    loop {
        match watch(api, query, version.clone(), (sink, left_out)).await {
            End::At(reached) => {
                version = reached;
                (pauses.failure, pauses.poll) = (PAUSES[0], delay);
            }
            End::Failed(reached, error) => {
                if reached != version {
                    pauses.failure = PAUSES[0];
                }
                version = reached;
                let why = format!("cannot watch {}: {error}", query.path);
                if lost(sink, why, &mut pauses.failure).await.is_err() {
                    return Next::Close;
                }
            }
            End::Expired => return Next::List,
            End::Unreadable(error) => {
                if pauses.unreadable_at.elapsed() > FORGIVE_AFTER {
                    pauses.unreadable = PAUSES[0];
                }
                pauses.unreadable_at = Instant::now();
                // the list goes on behind the event and leaves out what cannot be read
                let why = format!("cannot read an event of the watch of {}, listing again: {error}", query.path);
                let is_heard = lost(sink, why, &mut pauses.unreadable).await.is_ok();
                return if is_heard { Next::List } else { Next::Close };
            }
            End::Forbidden => return Next::Poll,
            End::Closed => return Next::Close,
        }
    }
}

/// Says that nothing is known, and pauses.
async fn lost<T>(sink: &Sender<Change<T>>, why: String, pause: &mut Duration) -> Result<(), ()> {
    sink.send(Change::Lost(why)).await.map_err(drop)?;
    tokio::time::sleep(*pause).await;
    *pause = (*pause * 2).min(PAUSES[1]);
    Ok(())
}

/// Logs objects that are left out because they cannot be read.
fn warn_of(path: &str, unreadable: &[Unreadable]) {
    let Some(first) = unreadable.first() else {
        tracing::info!(path, "all objects can be read again");
        return;
    };
    tracing::warn!(
        path,
        objects = unreadable.len(),
        first = if first.object.is_empty() { "without a name" } else { &first.object },
        why = first.why,
        "left out objects that cannot be read: they count as missing; is this program older than the cluster?"
    );
}

async fn watch<T: Watched>(
    api: &Api,
    query: &Query,
    mut version: String,
    (sink, left_out): (&Sender<Change<T>>, &[Unreadable]),
) -> End {
    let request = match Request::new(query.path).watch(&query.watch(), &version) {
        Ok(request) => request,
        Err(error) => return End::Failed(version, ApiError::Silent(error.to_string())),
    };
    let opening = tokio::time::timeout(OPEN_TIMEOUT, api.client().request_events::<Readable<T>>(request));
    let events = match opening.await {
        Ok(Ok(events)) => events,
        Ok(Err(error)) => return ended(version, ApiError::from(error)),
        Err(_) => return End::Failed(version, ApiError::Silent(format!("none in {} s", OPEN_TIMEOUT.as_secs()))),
    };
    if sink.send(Change::Found).await.is_err() {
        return End::Closed;
    }
    let mut events = std::pin::pin!(events);
    loop {
        let next = match tokio::time::timeout(MAX_SILENCE, events.try_next()).await {
            Ok(next) => next.map_err(ApiError::from),
            // opened anew it either speaks or fails
            Err(_) => return End::At(version),
        };
        let (object, is_gone) = match next {
            Ok(None) => return End::At(version),
            Ok(Some(WatchEvent::Added(object) | WatchEvent::Modified(object))) => (object, false),
            Ok(Some(WatchEvent::Deleted(object))) => (object, true),
            Ok(Some(WatchEvent::Bookmark(bookmark))) => {
                version = bookmark.metadata.resource_version;
                continue;
            }
            Ok(Some(WatchEvent::Error(status))) => return ended(version, ApiError::from(kube::Error::Api(status))),
            Err(error) => return ended(version, error),
        };
        let object = match object.0 {
            Ok(object) => object,
            Err(unreadable) => {
                let is_left_out = left_out.iter().any(|one| one.object == unreadable.object);
                if !is_left_out || unreadable.object.is_empty() || unreadable.version.is_empty() {
                    return End::Unreadable((&unreadable).into());
                }
                // it counts as missing already
                version = unreadable.version;
                continue;
            }
        };
        let reached = object.resource_version().to_owned();
        let change = if is_gone { Change::Gone(object) } else { Change::Set(object) };
        version = reached;
        if sink.send(change).await.is_err() {
            return End::Closed;
        }
    }
}

fn ended(version: String, error: ApiError) -> End {
    if matches!(error, ApiError::Unreadable(_)) {
        return End::Unreadable(error);
    }
    match error.code() {
        403 | 405 => End::Forbidden,
        410 => End::Expired,
        _ => End::Failed(version, error),
    }
}
