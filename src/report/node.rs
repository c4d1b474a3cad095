//! The node's annotations. Written only on change; nobody else's are touched.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::events::Events;
use super::extenders::Extenders;
use super::{Report, STARTING, cut};
use crate::cluster::answer;
use crate::url::shown;

/// Who we are in `managedFields`.
const MANAGER: &str = "schedpatch";
/// Longer messages are cut: annotations may be long, but people do not read on.
const MAX_MESSAGE: usize = 2_000;
/// An API that refuses or is away is asked again, less and less often.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// The annotations that we write; a key that a version does not write any more stays in this list, so that it goes away.
const KEYS: [&str; 13] = [
    "phase",
    "reason",
    "message",
    "since",
    "digest",
    "verified-digest",
    "revision",
    "generation",
    "platform",
    "scheduler-version",
    "extenders-unreachable",
    "extenders",
    "scheduler-image",
];

/// What the node shall say: every key of ours, and none for what is not known.
type Annotations = BTreeMap<&'static str, Option<String>>;

/// Writes to the own Node.
pub struct Reporter {
    nodes: Api<Node>,
    node: String,
    events: Events,
    extenders: Extenders,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Reporter {
    /// For this node.
    pub fn new(client: Client, node: &str) -> Self {
        let events = Events::new(client.clone(), node);
        Self { nodes: Api::all(client), node: node.to_owned(), events, extenders: Extenders::default() }
    }

    /// Reports every change, until the other side is gone.
    pub async fn follow(mut self, mut report: watch::Receiver<Report>) {
        let mut published: Option<Annotations> = None;
        let mut retry = FIRST_RETRY;
        loop {
            let now = report.borrow_and_update().clone();
            self.events.note(&now);
            let wanted = annotations(&now, self.extenders.unreachable());
            // before the first look there is nothing to say, and what the last agent said still holds
            let mut is_published = published.as_ref() == Some(&wanted) || now.node_state.reason == STARTING;
            if !is_published {
                match self.annotate(&wanted).await {
                    Ok(()) => (published, is_published) = (Some(wanted.clone()), true),
                    Err(why) => {
                        tracing::warn!(retry = ?retry, "cannot write the annotations of the node {}: {why}", self.node);
                    }
                }
            }
            if is_published && let Err(why) = self.events.send().await {
                tracing::warn!(retry = ?retry, "cannot write an event: {why}");
                is_published = false;
            }
            if is_published {
                retry = FIRST_RETRY;
                // the phase is reported first: an extender may take a second not to answer
                if self.extenders.is_due(&now) {
                    self.extenders.ask(&now, &mut self.events).await;
                    continue;
                }
                let is_gone = tokio::select! {
                    changed = report.changed() => changed.is_err(),
                    () = self.extenders.wait() => false,
                };
                if is_gone {
                    return;
                }
                continue;
            }
            if !wait_for_next_try(retry, &mut report, &wanted).await {
                return;
            }
            retry = (retry * 2).min(LAST_RETRY);
        }
    }

    /// A merge patch, because it fails where there is no such Node: server-side apply would create one for a mistyped
    /// `--node-name`. It leaves everybody else's annotations alone, and null takes away what is not known any more.
    async fn annotate(&self, annotations: &Annotations) -> Result<(), String> {
        let named: BTreeMap<_, _> =
            annotations.iter().map(|(key, text)| (format!("schedpatch.io/{key}"), text)).collect();
        let patch = json!({ "metadata": { "annotations": named } });
        let params = PatchParams { field_manager: Some(MANAGER.to_owned()), ..PatchParams::default() };
        answer(self.nodes.patch_metadata(&self.node, &params, &Patch::Merge(&patch))).await.map(drop)
    }
}

/// Waits for the time of the next try, or for something else to say: the loop reports every turn, which may be every second.
/// False when the other side is gone.
async fn wait_for_next_try(retry: Duration, report: &mut watch::Receiver<Report>, refused: &Annotations) -> bool {
    let until = Instant::now() + retry;
    loop {
        match tokio::time::timeout_at(until, report.changed()).await {
            Err(_) => return true,
            Ok(Err(_)) => return false,
            Ok(Ok(())) => {
                let unreachable = refused.get("extenders-unreachable").cloned().flatten();
                if annotations(&report.borrow_and_update(), unreachable) != *refused {
                    return true;
                }
            }
        }
    }
}

/// What the node shall say.
fn annotations(report: &Report, unreachable: Option<String>) -> Annotations {
    if report.is_uninstalled {
        return KEYS.into_iter().map(|key| (key, None)).collect();
    }
    let Report {
        node_state,
        since,
        digest,
        verified_digest,
        revision,
        generation,
        platform,
        scheduler_version,
        scheduler_image,
        extenders,
        ..
    } = report;
    let known = [
        Some(node_state.phase.name().to_owned()),
        Some(node_state.reason.clone()),
        Some(cut(&node_state.message, MAX_MESSAGE)),
        Some(since.to_string()),
        digest.map(|digest| digest.to_string()),
        verified_digest.map(|digest| digest.to_string()),
        revision.clone(),
        generation.map(|generation| generation.to_string()),
        platform.map(str::to_owned),
        scheduler_version.clone(),
        unreachable,
        (!extenders.is_empty()).then(|| extenders.iter().map(|url| shown(url)).collect::<Vec<_>>().join(", ")),
        scheduler_image.clone(),
    ];
    KEYS.into_iter().zip(known).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::{Arc, Mutex};

    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::phase::{NodeState, Phase};
    use crate::timestamp::Timestamp;

    /// The patches of the node: content type and body.
    type Patches = Arc<Mutex<Vec<(String, serde_json::Value)>>>;

    /// Begins an API that takes annotations, and refuses the first events.
    async fn api(refused_events: usize, asked: UnboundedSender<String>) -> Client {
        recording_api(refused_events, asked).await.0
    }

    /// The same, with what it was sent.
    async fn recording_api(refused_events: usize, asked: UnboundedSender<String>) -> (Client, Patches) {
        let patches = Patches::default();
        let recorded = Arc::clone(&patches);
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let events = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (events, asked, patches) = (Arc::clone(&events), asked.clone(), Arc::clone(&recorded));
                let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (events, asked, patches) = (Arc::clone(&events), asked.clone(), Arc::clone(&patches));
                    async move {
                        let is_event = request.uri().path().contains("/namespaces/default/events");
                        let method = request.method().clone();
                        let content_type = request.headers()["content-type"].to_str().unwrap().to_owned();
                        let body = request.into_body().collect().await?.to_bytes();
                        let object: serde_json::Value = serde_json::from_slice(&body).unwrap();
                        let text = |value: &serde_json::Value| value.as_str().unwrap_or_default().to_owned();
                        let line = if is_event {
                            format!("{method} event {}: {}", text(&object["reason"]), text(&object["note"]))
                        } else {
                            patches.lock().unwrap().push((content_type, object.clone()));
                            let phase = &object["metadata"]["annotations"]["schedpatch.io/phase"];
                            format!("{method} node {}", text(phase))
                        };
                        let _ = asked.send(line);
                        // an event comes back as it was sent; of the node only the metadata, without what is null
                        let node = Bytes::from(json!({ "metadata": { "name": "cp1" } }).to_string());
                        let mut response = Response::new(Full::new(if is_event { body } else { node }));
                        if is_event && events.fetch_add(1, Ordering::Relaxed) < refused_events {
                            let status = json!({ "status": "Failure", "message": "not now", "code": 403 });
                            response = Response::new(Full::new(Bytes::from(status.to_string())));
                            *response.status_mut() = StatusCode::FORBIDDEN;
                        }
                        Ok::<_, hyper::Error>(response)
                    }
                });
                tokio::spawn(hyper::server::conn::http1::Builder::new().serve_connection(TokioIo::new(stream), answer));
            }
        });
        (Client::try_from(kube::Config::new(uri)).unwrap(), patches)
    }

    /// Runs a story, which must come to its end.
    fn play(story: impl Future<Output = ()>) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async { tokio::time::timeout(Duration::from_secs(20), story).await }).expect("it ends");
    }

    fn report(phase: Phase, reason: &str, message: &str) -> Report {
        Report { node_state: NodeState::new(phase, reason, message), ..Report::pending(Timestamp::from_unix(0)) }
    }

    #[test]
    fn an_event_that_is_refused_is_sent_later_and_before_the_next_one() {
        play(async {
            let (asked, mut was_asked) = unbounded_channel();
            let reporter = Reporter::new(api(2, asked).await, "cp1");
            let (sender, receiver) = watch::channel(report(Phase::RolledBack, "RevisionFailed", "why"));
            let following = tokio::spawn(reporter.follow(receiver));
            let event = "POST event RolledBackRevisionFailed: why";
            for expected in ["PATCH node RolledBack", event, event] {
                assert_eq!(was_asked.recv().await.as_deref(), Some(expected));
            }
            sender.send_modify(|report| report.node_state = NodeState::new(Phase::Ready, "Proven", "well"));
            for expected in ["PATCH node Ready", event, "POST event ReadyProven: well"] {
                assert_eq!(was_asked.recv().await.as_deref(), Some(expected));
            }
            drop(sender);
            following.await.unwrap();
        });
    }

    #[test]
    fn each_reason_is_an_event_with_its_own_words_and_a_notice_is_one_too() {
        play(async {
            let (asked, mut was_asked) = unbounded_channel();
            let reporter = Reporter::new(api(0, asked).await, "cp1");
            let (sender, receiver) = watch::channel(report(Phase::Applying, "NewRevision", "a is applied"));
            let following = tokio::spawn(reporter.follow(receiver));
            let mut next = async || loop {
                let line = was_asked.recv().await.unwrap();
                if !line.contains(" node ") {
                    return line;
                }
            };
            assert_eq!(next().await, "POST event ApplyingNewRevision: a is applied");
            sender.send_modify(|report| report.node_state = NodeState::new(Phase::Applying, "RollingBack", "a failed"));
            assert_eq!(next().await, "POST event ApplyingRollingBack: a failed");
            // the same reason with other words is another event, not the first one counted again
            sender.send_modify(|report| {
                report.node_state = NodeState::new(Phase::Applying, "NewRevision", "b is applied");
            });
            assert_eq!(next().await, "POST event ApplyingNewRevision: b is applied");
            sender.send_modify(|report| report.notice("ForeignWrite", "lost", true));
            assert_eq!(next().await, "POST event ForeignWrite: lost");
            // the very same again is counted
            sender.send_modify(|report| report.notice("ForeignWrite", "lost", true));
            assert_eq!(next().await, "PATCH event ForeignWrite: lost");
            drop(sender);
            following.await.unwrap();
        });
    }

    #[test]
    fn the_annotations_are_merged_into_a_node_that_is_there_and_what_is_unknown_goes_away() {
        play(async {
            let (asked, mut was_asked) = unbounded_channel();
            let (client, patches) = recording_api(0, asked).await;
            let reporter = Reporter::new(client, "cp1");
            let revision = Some("0123456789ab".to_owned());
            let first = Report { revision, ..report(Phase::Ready, "Proven", "") };
            let (sender, receiver) = watch::channel(first);
            let following = tokio::spawn(reporter.follow(receiver));
            assert_eq!(was_asked.recv().await.as_deref(), Some("PATCH node Ready"));
            sender.send_modify(|report| report.revision = None);
            while was_asked.recv().await.as_deref() != Some("PATCH node Ready") {}
            drop(sender);
            following.await.unwrap();
            let patches = patches.lock().unwrap();
            for (content_type, _) in patches.iter() {
                // server-side apply creates what is not there; a merge patch is answered with 404
                assert_eq!(content_type, "application/merge-patch+json");
            }
            let annotation =
                |number: usize| patches[number].1["metadata"]["annotations"]["schedpatch.io/revision"].clone();
            assert_eq!((annotation(0), annotation(1)), ("0123456789ab".into(), serde_json::Value::Null));
            let keys = patches[0].1["metadata"]["annotations"].as_object().unwrap().len();
            assert_eq!(keys, KEYS.len(), "every key of ours is said or taken away");
        });
    }

    #[test]
    fn an_extender_that_cannot_be_reached_is_shown_beside_ready_until_it_can() {
        play(async {
            let (asked, mut was_asked) = unbounded_channel();
            let (client, patches) = recording_api(0, asked).await;
            let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
            let there = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            let url = |address: std::net::SocketAddr| format!("http://user:secret@{address}/x");
            let extenders = vec![url(gone), url(there.local_addr().unwrap())];
            let (sender, receiver) = watch::channel(Report { extenders, ..report(Phase::Ready, "Proven", "") });
            let following = tokio::spawn(Reporter::new(client, "cp1").follow(receiver));
            let mut lines = Vec::new();
            while lines.len() < 4 {
                lines.push(was_asked.recv().await.unwrap());
            }
            assert_eq!(lines[..3], ["PATCH node Ready", "POST event ReadyProven: ", "PATCH node Ready"]);
            assert!(
                lines[3].starts_with(&format!("POST event ExtenderUnreachable: the extender http://{gone} ")),
                "{lines:?}"
            );
            // a node that is not Ready says nothing about extenders
            sender.send_modify(|report| report.node_state = NodeState::new(Phase::Verifying, "NotYetProven", ""));
            while was_asked.recv().await.as_deref() != Some("POST event VerifyingNotYetProven: ") {}
            drop(sender);
            following.await.unwrap();
            let patches = patches.lock().unwrap();
            let said = |patch: &(String, serde_json::Value)| {
                patch.1["metadata"]["annotations"]["schedpatch.io/extenders-unreachable"].clone()
            };
            let said: Vec<_> = patches.iter().map(said).collect();
            assert_eq!(said[..2], [serde_json::Value::Null, format!("http://{gone}").into()]);
            assert_eq!(said.last(), Some(&serde_json::Value::Null));
            assert!(!format!("{patches:?}{lines:?}").contains("secret"));
        });
    }

    #[test]
    fn a_loop_that_turns_does_not_hurry_the_next_try_and_news_does() {
        let first = Report::pending(Timestamp::from_unix(0));
        let refused = annotations(&first, None);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let (sender, mut report) = watch::channel(first.clone());
            let turning = tokio::spawn(async move {
                for turns in 1..=10 {
                    tokio::time::sleep(Duration::from_millis(20)).await;
                    let counts = crate::report::Counts { turns, ..first.counts.clone() };
                    sender.send_replace(Report { counts, ..first.clone() });
                }
                sender
            });
            let (begin, retry) = (Instant::now(), Duration::from_millis(150));
            assert!(wait_for_next_try(retry, &mut report, &refused).await);
            assert!(begin.elapsed() >= retry, "{:?}", begin.elapsed());

            let sender = turning.await.unwrap();
            let node_state = NodeState::new(Phase::Waiting, "ApiAway", "");
            sender.send_modify(|report| report.node_state = node_state);
            assert!(wait_for_next_try(Duration::from_hours(1), &mut report, &refused).await);
            drop(sender);
            assert!(!wait_for_next_try(Duration::from_hours(1), &mut report, &refused).await);
        });
    }
}
