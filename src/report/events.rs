//! Events about the node: `kubectl describe node` tells what happened, in order and in the words of that time.

use std::collections::{BTreeMap, VecDeque};

use k8s_openapi::api::core::v1::{Node, ObjectReference};
use kube::runtime::events::{Event, EventType, Recorder, Reporter as Source};
use kube::{Client, Resource as _};

use super::{Notice, Report, STARTING};
use crate::cluster::answer;
use crate::phase::{NodeState, Phase};

/// Who we are in events.
const CONTROLLER: &str = "schedpatch";
/// The note of an event may have 1024 bytes.
const MAX_NOTE: usize = 1_000;
/// So many wait for an API that refuses or is away; then the oldest go.
const MAX_UNSENT: usize = 64;

/// Turns reports into events and sends them.
pub(super) struct Events {
    client: Client,
    source: Source,
    recorder: Recorder,
    regarding: ObjectReference,
    /// The last text of each reason: the recorder counts repetitions by reason and keeps the first text
    notes: BTreeMap<String, Option<String>>,
    unsent: VecDeque<Event>,
    last_state: Option<(Phase, String)>,
    last_notice: u64,
}

impl Events {
    /// For this node.
    pub fn new(client: Client, node: &str) -> Self {
        let source = Source { controller: CONTROLLER.to_owned(), instance: Some(node.to_owned()) };
        let regarding = ObjectReference {
            api_version: Some(Node::api_version(&()).into_owned()),
            kind: Some(Node::kind(&()).into_owned()),
            name: Some(node.to_owned()),
            // kubectl describe looks for a node's events by this uid
            uid: Some(node.to_owned()),
            ..ObjectReference::default()
        };
        let recorder = Recorder::new(client.clone(), source.clone());
        let (notes, unsent) = (BTreeMap::new(), VecDeque::new());
        Self { client, source, recorder, regarding, notes, unsent, last_state: None, last_notice: 0 }
    }

    /// Keeps what is new in a report until it is sent.
    pub fn note(&mut self, report: &Report) {
        for notice in report.notices.iter().filter(|notice| notice.id > self.last_notice) {
            push(&mut self.unsent, of_notice(notice));
        }
        self.last_notice = report.notices.last().map_or(self.last_notice, |last| last.id.max(self.last_notice));
        let node_state = (report.node_state.phase, report.node_state.reason.clone());
        // before the first look there is nothing to report
        if node_state.1 != STARTING && self.last_state.as_ref() != Some(&node_state) {
            push(&mut self.unsent, of_state(&report.node_state));
            self.last_state = Some(node_state);
        }
    }

    /// Keeps one event until it is sent.
    pub fn add(&mut self, reason: &str, message: &str, is_warning: bool) {
        push(&mut self.unsent, event(reason.to_owned(), message, is_warning));
    }

    /// Sends the events in their order, as far as the API takes them; the rest stays.
    pub async fn send(&mut self) -> Result<(), String> {
        while let Some(event) = self.unsent.front() {
            if self.notes.get(&event.reason).is_some_and(|last| *last != event.note) {
                // with an empty cache the recorder makes a new event, which has the new text
                self.recorder = Recorder::new(self.client.clone(), self.source.clone());
                self.notes.clear();
            }
            answer(self.recorder.publish(event, &self.regarding)).await?;
            self.notes.insert(event.reason.clone(), event.note.clone());
            self.unsent.pop_front();
        }
        Ok(())
    }
}

fn push(unsent: &mut VecDeque<Event>, event: Event) {
    unsent.push_back(event);
    let too_many = unsent.len().saturating_sub(MAX_UNSENT);
    unsent.drain(..too_many);
}

/// Phase and reason together: one phase has several reasons, and each is a part of the story.
fn of_state(NodeState { phase, reason, message, .. }: &NodeState) -> Event {
    event(format!("{}{reason}", phase.name()), message, phase.is_trouble())
}

fn of_notice(Notice { reason, message, is_warning, .. }: &Notice) -> Event {
    event(reason.clone(), message, *is_warning)
}

fn event(reason: String, message: &str, is_warning: bool) -> Event {
    let type_ = if is_warning { EventType::Warning } else { EventType::Normal };
    let note = Some(super::cut(message, MAX_NOTE));
    Event { type_, reason, note, action: "Reconcile".to_owned(), secondary: None }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_event_is_too_long_and_of_too_many_the_oldest_go() {
        let mut unsent = VecDeque::new();
        let long = "é".repeat(MAX_NOTE);
        for number in 0..=MAX_UNSENT {
            push(&mut unsent, of_state(&NodeState::new(Phase::RolledBack, format!("Why{number}"), &*long)));
        }
        assert_eq!((unsent.len(), unsent[0].reason.as_str()), (MAX_UNSENT, "RolledBackWhy1"));
        let note = unsent[0].note.as_deref().unwrap();
        assert!(note.starts_with("é") && note.ends_with('…') && note.len() <= 1_024, "{}", note.len());
    }
}
