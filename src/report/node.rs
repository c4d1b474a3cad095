//! The node's annotations and events. Written only on change, by server-side apply, so that nobody else's are touched.

use std::collections::BTreeMap;
use std::time::Duration;

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter as Source};
use kube::{Api, Client, Resource as _};
use serde_json::json;
use tokio::sync::watch;
use tokio::time::Instant;

use super::{Report, STARTING};
use crate::cluster::answer;
use crate::phase::Standing;

/// Who we are in `managedFields` and events.
const MANAGER: &str = "schedpatch";
/// The note of an event may have 1024 bytes.
const MAX_NOTE: usize = 1_000;
/// Annotations may be long, but nobody reads on.
const MAX_MESSAGE: usize = 2_000;
/// An API that refuses or is away is asked again, less and less often.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LAST_RETRY: Duration = Duration::from_mins(1);

/// Writes to the own Node.
pub struct Reporter {
    nodes: Api<Node>,
    node: String,
    events: Recorder,
    regarding: ObjectReference,
}

impl std::fmt::Debug for Reporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reporter").field("node", &self.node).finish_non_exhaustive()
    }
}

impl Reporter {
    /// For this node.
    pub fn new(client: Client, node: &str) -> Self {
        let source = Source { controller: MANAGER.to_owned(), instance: Some(node.to_owned()) };
        let regarding = ObjectReference {
            api_version: Some(Node::api_version(&()).into_owned()),
            kind: Some(Node::kind(&()).into_owned()),
            name: Some(node.to_owned()),
            // kubectl describe looks for a node's events by this uid
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let events = Recorder::new(client.clone(), source);
        Self { nodes: Api::all(client), node: node.to_owned(), events, regarding }
    }

    /// Tells every change, until the other side is gone.
    pub async fn follow(self, mut report: watch::Receiver<Report>) {
        let mut told: Option<BTreeMap<&'static str, String>> = None;
        let mut last_event = None;
        let mut unsent = Vec::new();
        let mut retry = FIRST_RETRY;
        loop {
            let now = report.borrow_and_update().clone();
            let wanted = annotations(&now);
            // before the first look there is nothing to say, and what the last agent said still holds
            let mut is_told = told.as_ref() == Some(&wanted) || now.standing.reason == STARTING;
            if !is_told {
                match self.annotate(&wanted).await {
                    Ok(()) => {
                        (told, is_told) = (Some(wanted.clone()), true);
                        let event = (now.standing.phase, now.standing.reason.clone());
                        if last_event.as_ref() != Some(&event) {
                            keep(&mut unsent, event_of(&now.standing));
                            last_event = Some(event);
                        }
                    }
                    Err(why) => tracing::warn!(retry = ?retry, "cannot write the node's annotations: {why}"),
                }
            }
            if is_told && let Err(why) = self.send(&mut unsent).await {
                tracing::warn!(retry = ?retry, "cannot write an event: {why}");
                is_told = false;
            }
            if is_told {
                retry = FIRST_RETRY;
                if report.changed().await.is_err() {
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

    async fn annotate(&self, annotations: &BTreeMap<&'static str, String>) -> Result<(), String> {
        let named: BTreeMap<_, _> =
            annotations.iter().map(|(key, text)| (format!("schedpatch.io/{key}"), text)).collect();
        let patch =
            json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": self.node, "annotations": named } });
        let params = PatchParams::apply(MANAGER).force();
        answer(self.nodes.patch_metadata(&self.node, &params, &Patch::Apply(&patch))).await.map(drop)
    }

    /// Sends the events in their order, as far as they are taken; the rest stays.
    async fn send(&self, unsent: &mut Vec<Event>) -> Result<(), String> {
        while let Some(event) = unsent.first() {
            answer(self.events.publish(event, &self.regarding)).await?;
            unsent.remove(0);
        }
        Ok(())
    }
}

/// Keeps an event until it is sent: the last one of each phase, which bounds them.
fn keep(unsent: &mut Vec<Event>, event: Event) {
    unsent.retain(|older| older.reason != event.reason);
    unsent.push(event);
}

fn event_of(standing: &Standing) -> Event {
    Event {
        type_: if standing.phase.is_trouble() { EventType::Warning } else { EventType::Normal },
        reason: standing.phase.name().to_owned(),
        note: Some(cut(&format!("{}: {}", standing.reason, standing.message), MAX_NOTE)),
        action: "Reconcile".to_owned(),
        secondary: None,
    }
}

/// Waits for the time of the next try, or for something else to say: the loop reports every turn, which may be every second.
/// False when the other side is gone.
async fn wait_for_next_try(
    retry: Duration,
    report: &mut watch::Receiver<Report>,
    refused: &BTreeMap<&'static str, String>,
) -> bool {
    let until = Instant::now() + retry;
    loop {
        match tokio::time::timeout_at(until, report.changed()).await {
            Err(_) => return true,
            Ok(Err(_)) => return false,
            Ok(Ok(())) if annotations(&report.borrow_and_update()) != *refused => return true,
            Ok(Ok(())) => {}
        }
    }
}

/// What the node shall say. What is not known is not said, and by server-side apply goes away.
fn annotations(report: &Report) -> BTreeMap<&'static str, String> {
    let Report { standing, since, digest, verified_digest, revision, generation, platform, scheduler_version, .. } =
        report;
    let known = [
        ("phase", Some(standing.phase.name().to_owned())),
        ("reason", Some(standing.reason.clone())),
        ("message", Some(cut(&standing.message, MAX_MESSAGE))),
        ("since", Some(since.to_string())),
        ("digest", digest.map(|digest| digest.to_string())),
        ("verified-digest", verified_digest.map(|digest| digest.to_string())),
        ("revision", revision.clone()),
        ("generation", generation.map(|generation| generation.to_string())),
        ("platform", platform.map(str::to_owned)),
        ("scheduler-version", scheduler_version.clone()),
    ];
    known.into_iter().filter_map(|(key, value)| Some((key, value?))).collect()
}

/// The beginning of a text, in bytes: so the API counts.
fn cut(text: &str, length: usize) -> String {
    if text.len() <= length { text.to_owned() } else { format!("{}…", &text[..text.floor_char_boundary(length)]) }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};

    use http_body_util::{BodyExt as _, Full};
    use hyper::body::{Bytes, Incoming};
    use hyper::{Request, Response, StatusCode};
    use hyper_util::rt::TokioIo;
    use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

    use super::*;
    use crate::phase::Phase;
    use crate::stamp::Stamp;

    /// Begins an API that takes annotations, and refuses the first events.
    async fn api(refused_events: usize, asked: UnboundedSender<String>) -> Client {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let uri = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
        let events = Arc::new(AtomicUsize::new(0));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let (events, asked) = (Arc::clone(&events), asked.clone());
                let answer = hyper::service::service_fn(move |request: Request<Incoming>| {
                    let (events, asked) = (Arc::clone(&events), asked.clone());
                    async move {
                        let is_event = request.uri().path().ends_with("/namespaces/default/events");
                        let body = request.into_body().collect().await?.to_bytes();
                        let object: serde_json::Value = serde_json::from_slice(&body).unwrap();
                        let phase = &object["metadata"]["annotations"]["schedpatch.io/phase"];
                        let told = if is_event { ("event", &object["reason"]) } else { ("node", phase) };
                        asked.send(format!("{} {}", told.0, told.1.as_str().unwrap())).unwrap();
                        let mut response = Response::new(Full::new(body));
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
        Client::try_from(kube::Config::new(uri)).unwrap()
    }

    #[test]
    fn an_event_that_is_refused_is_sent_later_and_before_the_next_one() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async {
            let (asked, mut was_asked) = unbounded_channel();
            let reporter = Reporter::new(api(2, asked).await, "cp1");
            let back = Standing::new(Phase::RolledBack, "RevisionFailed", "why");
            let (sender, report) = watch::channel(Report { standing: back, ..Report::pending(Stamp::from_unix(0)) });
            let following = tokio::spawn(reporter.follow(report));
            for expected in ["node RolledBack", "event RolledBack", "event RolledBack"] {
                assert_eq!(was_asked.recv().await.as_deref(), Some(expected));
            }
            sender.send_modify(|report| report.standing = Standing::new(Phase::Ready, "Proven", ""));
            for expected in ["node Ready", "event RolledBack", "event Ready"] {
                assert_eq!(was_asked.recv().await.as_deref(), Some(expected));
            }
            drop(sender);
            following.await.unwrap();
        });
    }

    #[test]
    fn only_the_last_event_of_a_phase_is_kept_and_none_is_too_long() {
        let mut unsent = Vec::new();
        let long = "é".repeat(MAX_NOTE);
        for (message, phase) in [("a", Phase::RolledBack), ("b", Phase::Ready), (long.as_str(), Phase::RolledBack)] {
            keep(&mut unsent, event_of(&Standing::new(phase, "Why", message)));
        }
        let reasons: Vec<_> = unsent.iter().map(|event| event.reason.as_str()).collect();
        assert_eq!(reasons, ["Ready", "RolledBack"]);
        let note = unsent[1].note.as_deref().unwrap();
        assert!(note.starts_with("Why: é") && note.ends_with('…') && note.len() <= 1_024, "{}", note.len());
    }

    #[test]
    fn a_loop_that_turns_does_not_hurry_the_next_try_and_news_does() {
        let first = Report::pending(Stamp::from_unix(0));
        let refused = annotations(&first);
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
            let standing = Standing::new(Phase::Waiting, "ApiAway", "");
            sender.send_modify(|report| report.standing = standing);
            assert!(wait_for_next_try(Duration::from_hours(1), &mut report, &refused).await);
            drop(sender);
            assert!(!wait_for_next_try(Duration::from_hours(1), &mut report, &refused).await);
        });
    }
}
