//! Has the scheduler try waiting pods again: a changed annotation of a pod does it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use schedpatch_service::api::{Api, ApiError};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::metrics as m;
use crate::pods::{Waiting, Wake};
use crate::state::State;

/// The annotation whose change makes the scheduler try a waiting pod again.
pub const RETRY_ANNOTATION: &str = "schedpatch.io/extender-retry";
/// So many patches are on their way at the same time.
const AT_A_TIME: usize = 4;
/// Pause between two patches, so that a thousand waiting pods do not become a thousand requests at once.
const PAUSE: Duration = Duration::from_millis(10);
/// Pause before a pod is patched again that the API server did not take; twice as long before each further one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);
/// So often a patch is tried.
const MAX_TRIES: u32 = 5;

/// What became of a patch.
type Outcome = (Box<str>, Waiting, u32, Result<(), ApiError>);

/// Pods that shall be tried again, and when.
#[derive(Debug, Default)]
struct Queue {
    /// In the order in which they are due; pods that are due at the same time in any order
    due: BTreeSet<(Instant, Box<str>)>,
    /// By UID: the pod, if it was tried before, and how often
    pods: HashMap<Box<str>, (Option<Waiting>, u32)>,
}

impl Queue {
    /// A pod that waits for a further try already keeps its place.
    fn push(&mut self, uid: Box<str>, due: Instant) {
        if !self.pods.contains_key(&uid) {
            self.due.insert((due, uid.clone()));
            self.pods.insert(uid, (None, 0));
        }
    }

    /// A further try of a pod. It takes the place of a wake that came while the last try was on its way, and means it too.
    fn retry(&mut self, uid: Box<str>, due: Instant, pod: Waiting, tries: u32) {
        if self.pods.insert(uid.clone(), (Some(pod), tries)).is_some() {
            self.due.retain(|(_, own)| *own != uid);
        }
        self.due.insert((due, uid));
    }

    fn next_due(&self) -> Option<Instant> {
        self.due.first().map(|(due, _)| *due)
    }

    fn pop(&mut self, now: Instant) -> Option<(Box<str>, Option<Waiting>, u32)> {
        if self.next_due()? > now {
            return None;
        }
        let (_, uid) = self.due.pop_first()?;
        let (pod, tries) = self.pods.remove(&uid)?;
        Some((uid, pod, tries))
    }
}

/// Patches the pods that come from `recovered`, for ever.
pub async fn wake(api: Api, state: Arc<State>, recovered: mpsc::UnboundedReceiver<Vec<Wake>>) {
    let patch = move |pod: Waiting| {
        let api = api.clone();
        async move {
            let time = Timestamp::now().strftime("%Y-%m-%dT%H:%M:%S%.3fZ").to_string();
            let patch = json!({ "metadata": { "uid": pod.uid, "annotations": { RETRY_ANNOTATION: time } } });
            let list = format!("/api/v1/namespaces/{}/pods", pod.namespace);
            match api.patch(&list, &pod.name, &patch, "application/merge-patch+json").await {
                Err(error) if [409, 422].contains(&error.code()) && !exists(&api, &list, &pod).await => Err(gone()),
                result => result,
            }
        }
    };
    work(&state, recovered, patch).await;
}

/// The part of a pod that tells it from another one of the same name.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Identity {
    metadata: IdentityMeta,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct IdentityMeta {
    uid: String,
}

/// Whether the pod with this UID is still there. The API server refuses a patch with the UID of another pod by 409 or 422, which
/// admission policies and other writers also cause; so only a look tells. Without an answer the pod counts as there.
async fn exists(api: &Api, list: &str, pod: &Waiting) -> bool {
    match api.get::<Identity>(list, &pod.name).await {
        Ok(found) => found.metadata.uid == pod.uid,
        Err(error) => error.code() != 404,
    }
}

/// What the API server answers for a pod that does not exist.
fn gone() -> ApiError {
    ApiError::Refused { code: 404, reason: "NotFound".to_owned(), message: "another pod has its name".to_owned() }
}

/// The same with any way to patch a pod.
async fn work<P>(state: &State, mut recovered: mpsc::UnboundedReceiver<Vec<Wake>>, patch: impl Fn(Waiting) -> P)
where
    P: Future<Output = Result<(), ApiError>> + Send + 'static,
{
    let (mut queue, mut running) = (Queue::default(), JoinSet::<Outcome>::new());
    let (mut next_start, mut complaints) = (Instant::now(), Complaints::default());
    loop {
        let start = queue.next_due().map(|due| due.max(next_start));
        tokio::select! {
            more = recovered.recv() => {
                let Some(more) = more else { return };
                tracing::info!(
                    pods = more.len(),
                    "a node recovered, policies changed, or the extender restarted: the scheduler shall try waiting pods again"
                );
                for wake in more {
                    queue.push(wake.uid, wake.due);
                }
            }
            () = sleep_until(start), if start.is_some() && running.len() < AT_A_TIME => {
                let now = Instant::now();
                let Some((uid, pod, tries)) = queue.pop(now) else { continue };
                // it may have been bound, deleted or tried by the scheduler meanwhile
                let pod = match pod {
                    None => state.tracker().begin_wake(&uid, now),
                    known => known.filter(|_| state.tracker().resume_wake(&uid)),
                };
                let Some(pod) = pod else { continue };
                next_start = now + PAUSE;
                let patched = patch(pod.clone());
                running.spawn(async move { (uid, pod, tries + 1, patched.await) });
            }
            Some(done) = running.join_next(), if !running.is_empty() => {
                if let Ok((uid, pod, tries, result)) = done
                    && let Some(pause) = settle(state, &uid, &pod, tries, result, &mut complaints)
                {
                    queue.retry(uid, Instant::now() + pause, pod, tries);
                }
            }
        }
    }
}

async fn sleep_until(start: Option<Instant>) {
    match start {
        Some(start) => tokio::time::sleep_until(start).await,
        None => std::future::pending().await,
    }
}

/// Why patches fail, each logged once until one succeeds.
#[derive(Debug, Default)]
struct Complaints(BTreeMap<u16, usize>);

impl Complaints {
    fn is_new(&mut self, code: u16) -> bool {
        let count = self.0.entry(code).or_default();
        *count += 1;
        *count == 1
    }
}

/// Takes up what became of a patch. The pause before the next try, if there shall be one.
fn settle(
    state: &State,
    uid: &str,
    pod: &Waiting,
    tries: u32,
    result: Result<(), ApiError>,
    complaints: &mut Complaints,
) -> Option<Duration> {
    let error = match result {
        Ok(()) => {
            complaints.0.clear();
            state.metrics.add(m::WOKEN, "woken", 1);
            return None;
        }
        Err(error) => error,
    };
    let (Waiting { namespace, name, .. }, code) = (pod, error.code());
    // deleted meanwhile, or another one has its name now
    if code == 404 {
        state.tracker().gone(uid);
        return None;
    }
    state.metrics.add(m::WOKEN, "failed", 1);
    let may_try_again = !(400..500).contains(&code) || [401, 408, 409, 429].contains(&code);
    if may_try_again && tries < MAX_TRIES {
        if complaints.is_new(code) {
            tracing::warn!(pod = name, namespace, %error, "cannot annotate a waiting pod; trying up to {MAX_TRIES} times. Further failures of this kind are not logged");
        }
        return Some(RETRY_PAUSE * 2_u32.pow(tries - 1));
    }
    if may_try_again {
        state.tracker().wake_failed(uid);
        if complaints.is_new(code + 1000) {
            tracing::warn!(pod = name, namespace, tries, %error, "cannot annotate a waiting pod; trying again in 15 s to 5 min. Further failures of this kind are not logged");
        }
    } else if complaints.is_new(code) {
        tracing::warn!(pod = name, namespace, %error, "the API server refuses to annotate a waiting pod: the pod waits until the scheduler tries it by itself, or until the next node recovers. Permission to patch pods, an admission policy or a webhook may be in the way. Further failures of this kind are not logged");
    }
    None
}

#[cfg(test)]
mod tests;
