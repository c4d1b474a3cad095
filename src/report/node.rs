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

/// Who we are in `managedFields` and events.
const MANAGER: &str = "schedpatch";
/// Events may not be longer.
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
        let mut retry = FIRST_RETRY;
        loop {
            let now = report.borrow_and_update().clone();
            let wanted = annotations(&now);
            // before the first look there is nothing to say, and what the last agent said still holds
            let mut is_told = told.as_ref() == Some(&wanted) || now.standing.reason == STARTING;
            if !is_told {
                match self.annotate(&wanted).await {
                    Ok(()) => {
                        (told, is_told, retry) = (Some(wanted.clone()), true, FIRST_RETRY);
                        let event = (now.standing.phase, now.standing.reason.clone());
                        if last_event.as_ref() != Some(&event) {
                            self.tell(&now).await;
                            last_event = Some(event);
                        }
                    }
                    Err(why) => tracing::warn!(retry = ?retry, "cannot write the node's annotations: {why}"),
                }
            }
            if is_told {
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

    async fn tell(&self, report: &Report) {
        let standing = &report.standing;
        let event = Event {
            type_: if standing.phase.is_trouble() { EventType::Warning } else { EventType::Normal },
            reason: standing.phase.name().to_owned(),
            note: Some(cut(&format!("{}: {}", standing.reason, standing.message), MAX_NOTE)),
            action: "Reconcile".to_owned(),
            secondary: None,
        };
        if let Err(why) = answer(self.events.publish(&event, &self.regarding)).await {
            tracing::debug!("cannot write an event: {why}");
        }
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

fn cut(text: &str, length: usize) -> String {
    let mut kept: String = text.chars().take(length).collect();
    if kept.len() < text.len() {
        kept.push('…');
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::phase::{Phase, Standing};
    use crate::stamp::Stamp;

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
