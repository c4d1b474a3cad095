//! The loop: takes up what the watches show, decides, and has attempts made, a few at a time.

mod ended;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use schedpatch_service::feed::Change;
use tokio::sync::mpsc::{Receiver, Sender, channel};
use tokio::sync::{oneshot, watch};
use tokio::time::Instant;

use crate::attempt::{Attempt, Outcome};
use crate::counters::Counters;
use crate::decide::{Decision, Mode};
use crate::events::Recorder;
use crate::model::{Node, Pod};
use crate::reason::Wait;
use crate::state::{PodId, State};

/// Attempts at the same time. More of them make bindings wait for each other in the API server, and a label that is removed
/// meanwhile counts for longer.
const CONCURRENCY: usize = 32;
/// So long attempts under way may take at the end.
const LAST_ATTEMPTS: Duration = Duration::from_secs(5);

/// What the engine is told.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "few wait, and not for long")]
pub enum Input {
    /// About nodes
    Nodes(Change<Node>),
    /// About pods of a mode
    Pods(Mode, Change<Pod>),
    /// Whether the loop turns
    Ping(oneshot::Sender<()>),
}

/// What is done about a pod.
#[derive(Debug)]
enum Work {
    /// It is in the queue
    Queued,
    /// An attempt is under way; whether something changed meanwhile
    Trying { again: bool },
    /// Try again then; `hard` if nothing but time helps
    Later { at: Instant, hard: bool },
    /// It has its node
    Placed,
}

/// How an attempt ended, and for which pod.
type Ended = (PodId, Arc<Pod>, Outcome);

/// Who is ready, and what is missing.
pub type Readiness = BTreeMap<&'static str, Result<(), String>>;

/// The loop and what it knows.
#[derive(Debug)]
pub struct Engine {
    state: State,
    attempt: Arc<Attempt>,
    retry: Duration,
    counters: Counters,
    recorder: Option<Recorder>,
    work: HashMap<PodId, Work>,
    queue: VecDeque<PodId>,
    trying: usize,
    /// Failures in a row
    tries: HashMap<PodId, u32>,
    waits: HashMap<PodId, (Wait, Instant)>,
    outcomes: (Sender<Ended>, Receiver<Ended>),
    readiness: watch::Sender<Readiness>,
    failures: usize,
}

impl Engine {
    /// Begins with nothing known. `sources` must each be heard before the engine is ready.
    pub fn new(
        state: State,
        attempt: Attempt,
        retry: Duration,
        counters: Counters,
        recorder: Option<Recorder>,
        sources: &[&'static str],
    ) -> (Self, watch::Receiver<Readiness>) {
        let missing = sources.iter().map(|source| (*source, Err("not listed yet".to_owned()))).collect();
        let (readiness, seen) = watch::channel(missing);
        let engine = Self {
            state,
            attempt: Arc::new(attempt),
            retry,
            counters,
            recorder,
            work: HashMap::new(),
            queue: VecDeque::new(),
            trying: 0,
            tries: HashMap::new(),
            waits: HashMap::new(),
            outcomes: channel(CONCURRENCY * 2),
            readiness,
            failures: 0,
        };
        (engine, seen)
    }

    /// Runs until `shutdown`.
    pub async fn run(mut self, mut inputs: Receiver<Input>, shutdown: impl Future<Output = ()>) {
        let mut shutdown = std::pin::pin!(shutdown);
        let mut leads_until = self.attempt.leads_until.clone();
        let mut led = self.is_leading();
        loop {
            let next = self.next_retry();
            tokio::select! {
                () = &mut shutdown => break,
                Some(input) = inputs.recv() => {
                    self.take(input);
                    // what has piled up is taken up before anything is decided
                    while let Ok(input) = inputs.try_recv() {
                        self.take(input);
                    }
                }
                Some((id, pod, outcome)) = self.outcomes.1.recv() => self.ended(id, &pod, outcome),
                () = until(next) => self.queue_due(),
                () = changed(&mut leads_until) => {}
            }
            let leads = self.is_leading();
            if leads && !led {
                self.consider(self.state.ids());
            }
            led = leads;
            self.start_attempts();
            if let Some(recorder) = &self.recorder {
                recorder.set_busy(self.trying > 0);
            }
            self.publish();
        }
        let ending = async {
            while self.trying > 0 {
                let Some((id, pod, outcome)) = self.outcomes.1.recv().await else { return };
                self.ended(id, &pod, outcome);
            }
        };
        let _ = tokio::time::timeout(LAST_ATTEMPTS, ending).await;
    }

    /// One pass over these nodes and pods, each tried once. Returns how many requests failed.
    pub async fn pass(mut self, nodes: Vec<Node>, pods: Vec<(Mode, Vec<Pod>)>) -> usize {
        self.take(Input::Nodes(Change::Reset(nodes)));
        for (mode, pods) in pods {
            self.take(Input::Pods(mode, Change::Reset(pods)));
        }
        self.start_attempts();
        while self.trying > 0 {
            let Some((id, pod, outcome)) = self.outcomes.1.recv().await else { break };
            self.ended(id, &pod, outcome);
            self.start_attempts();
        }
        self.failures
    }

    fn is_leading(&self) -> bool {
        let until = self.attempt.leads_until.as_ref().map(|until| *until.borrow());
        until.is_none_or(|until| until.is_some_and(|until| Instant::now() < until))
    }

    fn take(&mut self, input: Input) {
        let ids = match input {
            Input::Ping(answer) => {
                let _ = answer.send(());
                return;
            }
            Input::Nodes(change) => {
                self.note_source("nodes", &change);
                match change {
                    Change::Reset(nodes) => self.state.reset_nodes(nodes).into_iter().collect(),
                    Change::Set(node) => self.state.set_node(node).into_iter().collect(),
                    Change::Gone(node) => {
                        self.attempt.facts.forget(&node.metadata.name);
                        self.state.drop_node(&node.metadata.name).into_iter().collect()
                    }
                    Change::Lost(_) | Change::Found => Vec::new(),
                }
            }
            Input::Pods(mode, change) => {
                self.note_source(if mode == Mode::Bind { "pods" } else { "gated pods" }, &change);
                match change {
                    Change::Reset(pods) => {
                        let (gone, changed) = self.state.reset_pods(mode, pods);
                        for id in &gone {
                            self.forget(id);
                        }
                        changed
                    }
                    Change::Set(pod) => {
                        let id = (pod.metadata.uid.clone(), mode);
                        if self.state.set_pod(mode, pod) { vec![id] } else { Vec::new() }
                    }
                    Change::Gone(pod) => {
                        let id = (pod.metadata.uid, mode);
                        self.state.drop_pod(&id);
                        self.forget(&id);
                        Vec::new()
                    }
                    Change::Lost(_) | Change::Found => Vec::new(),
                }
            }
        };
        self.consider(ids);
    }

    fn note_source<T>(&self, source: &'static str, change: &Change<T>) {
        let known = match change {
            Change::Lost(why) => Err(why.clone()),
            _ => Ok(()),
        };
        self.readiness.send_if_modified(|readiness| {
            let is_news = readiness.get(source) != Some(&known);
            if is_news && let Err(why) = &known {
                tracing::warn!("{why}; trying again");
            }
            readiness.insert(source, known);
            is_news
        });
    }

    fn forget(&mut self, id: &PodId) {
        self.waits.remove(id);
        self.tries.remove(id);
        // an attempt under way ends by itself
        if !matches!(self.work.get(id), Some(Work::Trying { .. })) {
            self.work.remove(id);
        }
    }

    /// Queues pods whose facts changed.
    fn consider(&mut self, ids: Vec<PodId>) {
        for id in ids {
            match self.work.get_mut(&id) {
                Some(Work::Trying { again }) => *again = true,
                Some(Work::Queued | Work::Placed | Work::Later { hard: true, .. }) => {}
                None | Some(Work::Later { hard: false, .. }) => self.enqueue(id),
            }
        }
    }

    fn enqueue(&mut self, id: PodId) {
        self.work.insert(id.clone(), Work::Queued);
        self.queue.push_back(id);
    }

    fn next_retry(&self) -> Option<Instant> {
        let times = self.work.values().filter_map(|work| match work {
            Work::Later { at, .. } => Some(*at),
            _ => None,
        });
        times.min()
    }

    fn queue_due(&mut self) {
        let now = Instant::now();
        let is_due = |work: &Work| matches!(work, Work::Later { at, .. } if *at <= now);
        let due: Vec<PodId> = self.work.iter().filter(|(_, work)| is_due(work)).map(|(id, _)| id.clone()).collect();
        for id in due {
            if self.state.pod(&id).is_some() {
                self.enqueue(id);
            } else {
                self.forget(&id);
            }
        }
    }

    fn start_attempts(&mut self) {
        if !self.is_leading() {
            // whoever leads later looks at everything
            for id in self.queue.drain(..) {
                self.work.remove(&id);
            }
            return;
        }
        while self.trying < CONCURRENCY {
            let Some(id) = self.queue.pop_front() else { return };
            self.work.remove(&id);
            match self.state.decide(&id) {
                Decision::Leave => {
                    self.waits.remove(&id);
                }
                Decision::Wait(wait) => self.waits_for(&id, wait),
                Decision::Try(nodes) => {
                    let Some(pod) = self.state.pod(&id).cloned().map(Arc::new) else { continue };
                    self.work.insert(id.clone(), Work::Trying { again: false });
                    self.trying += 1;
                    let (attempt, outcomes) = (Arc::clone(&self.attempt), self.outcomes.0.clone());
                    tokio::spawn(async move {
                        let outcome = attempt.run(&pod, id.1, &nodes).await;
                        let _ = outcomes.send((id, pod, outcome)).await;
                    });
                }
            }
        }
    }
}

async fn until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

async fn changed(lead: &mut Option<watch::Receiver<Option<Instant>>>) {
    let is_changed = match lead {
        Some(lead) => lead.changed().await.is_ok(),
        None => false,
    };
    if !is_changed {
        std::future::pending::<()>().await;
    }
}
