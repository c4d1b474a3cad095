//! One round of queries, several at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use schedpatch_service::log::shortened;
use tokio::sync::{Mutex, mpsc};
use tokio::task::JoinSet;
use tokio::time::Instant;

use super::{carry_over, compact, measure};
use crate::config::{Config, Policy};
use crate::mapping::NodeBook;
use crate::metrics as m;
use crate::pods::Wake;
use crate::prometheus::{Answer, Client};
use crate::snapshot::{MAX_BYTES, Reader, Snapshot, Values};
use crate::state::State;

/// So many queries are asked at the same time.
const QUERIES_AT_A_TIME: usize = 4;
/// Answers from this size on are read beside the loop, so that no request of the scheduler waits for it.
const LARGE_ANSWER: usize = 256 * 1024;
/// So long a reason may be: Prometheus or something in its place may send any text.
const MAX_FAILURE_BYTES: usize = 500;

/// One round.
#[derive(Debug)]
pub(super) struct Round {
    state: Arc<State>,
    config: Arc<Config>,
    book: Arc<NodeBook>,
    woken: mpsc::UnboundedSender<Vec<Wake>>,
    /// The next policy to ask for
    next: AtomicUsize,
    /// Whether the scheduler is answered by this configuration, so that values count as soon as they are there
    is_live: AtomicBool,
    draft: Mutex<Draft>,
}

#[derive(Debug)]
struct Draft {
    snapshot: Snapshot,
    /// By policy: memory of its values, or of those that are being read
    bytes: Vec<usize>,
}

impl Round {
    pub fn new(
        state: &Arc<State>,
        config: &Arc<Config>,
        book: Arc<NodeBook>,
        woken: mpsc::UnboundedSender<Vec<Wake>>,
    ) -> Arc<Self> {
        let old = state.snapshot();
        let values = carry_over(&old, config);
        let bytes = values.iter().map(|values| values.bytes).collect();
        let index = Arc::clone(&old.index);
        let (is_same, now) = (Arc::ptr_eq(&old.config, config), Instant::now());
        let since = if is_same { old.since } else { now };
        let snapshot = Snapshot { config: Arc::clone(config), index, values, made: now, since };
        let is_live = AtomicBool::new(is_same);
        let (state, config, draft) = (Arc::clone(state), Arc::clone(config), Mutex::new(Draft { snapshot, bytes }));
        Arc::new(Self { state, config, book, woken, next: AtomicUsize::new(0), is_live, draft })
    }

    pub fn is_live(&self) -> bool {
        self.is_live.load(Ordering::Acquire)
    }

    /// Asks for all policies. The queries end when this is dropped.
    pub fn workers(self: &Arc<Self>) -> JoinSet<()> {
        let mut workers = JoinSet::new();
        let client = match Client::new(&self.config.prometheus) {
            Ok(client) => client,
            Err(error) => {
                for policy in &self.config.policies {
                    self.failed(policy, &error.to_string());
                }
                return workers;
            }
        };
        for _ in 0..QUERIES_AT_A_TIME.min(self.config.policies.len()) {
            workers.spawn(Arc::clone(self).work(client.another()));
        }
        workers
    }

    async fn work(self: Arc<Self>, mut client: Client) {
        loop {
            let number = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(policy) = self.config.policies.get(number) else { return };
            match self.ask(&mut client, number, policy).await {
                Ok(values) => self.publish(number, policy, values).await,
                Err(why) => {
                    let mut draft = self.draft.lock().await;
                    draft.bytes[number] = draft.snapshot.values[number].bytes;
                    drop(draft);
                    self.failed(policy, &why);
                }
            }
        }
    }

    async fn ask(&self, client: &mut Client, number: usize, policy: &Policy) -> Result<Values, String> {
        let mut reader = Reader::new(policy, &self.book);
        for query in [Some(&policy.query), policy.plain_query.as_ref()].into_iter().flatten() {
            let answer = client.query(query).await.map_err(|error| error.to_string())?;
            // Prometheus, or something in its place, may have put what we sent into its words
            let read = self.read(reader, answer, number).await;
            reader = read.map_err(|why| client.without_credentials(&why))?;
        }
        let now = Instant::now();
        if reader.bytes() < LARGE_ANSWER {
            return Ok(reader.finish(now));
        }
        tokio::task::spawn_blocking(move || reader.finish(now)).await.map_err(|error| error.to_string())
    }

    /// Reads an answer: one at a time, since each may bring new names of nodes.
    async fn read(&self, mut reader: Reader, answer: Answer, number: usize) -> Result<Reader, String> {
        let mut draft = self.draft.lock().await;
        draft.bytes[number] = 0;
        let others: usize = draft.bytes.iter().sum();
        let most = MAX_BYTES.saturating_sub(others + draft.snapshot.index.bytes());
        let mut index = Arc::clone(&draft.snapshot.index);
        let is_large = answer.len() >= LARGE_ANSWER;
        let work = move || {
            let read = reader.read(&answer, &mut index, most).map_err(|error| error.to_string());
            (read, reader, index)
        };
        let (read, reader, index) =
            if is_large { tokio::task::spawn_blocking(work).await.map_err(|error| error.to_string())? } else { work() };
        read?;
        draft.snapshot.index = index;
        draft.bytes[number] = reader.bytes();
        Ok(reader)
    }

    /// Puts a policy's values to use.
    async fn publish(&self, number: usize, policy: &Policy, values: Values) {
        self.state.metrics.add(m::QUERIES, &policy.name, 1);
        let mut draft = self.draft.lock().await;
        draft.bytes[number] = values.bytes;
        draft.snapshot.values[number] = Arc::new(values);
        draft.snapshot.made = Instant::now();
        if self.is_live() {
            self.state.replace(draft.snapshot.clone());
            measure(&self.state, policy, &draft.snapshot.values[number]);
            if policy.refuses() {
                self.wake();
            }
        }
        drop(draft);
        let mut failures = self.state.failures();
        if failures.remove(&policy.name).is_some() && failures.is_empty() {
            tracing::info!("all queries are answered again");
        }
    }

    /// Logs a failure when it changes, not each round.
    fn failed(&self, policy: &Policy, why: &str) {
        self.state.metrics.add(m::QUERY_FAILURES, &policy.name, 1);
        let failure = shortened(&format!("{}: {why}", policy.name), MAX_FAILURE_BYTES);
        let mut failures = self.state.failures();
        if failures.get(&policy.name) != Some(&failure) {
            tracing::warn!(
                failure,
                "a query failed; the last values count until they are stale, then the policy is neutral"
            );
            failures.insert(policy.name.clone(), failure);
        }
    }

    /// Puts a changed configuration to use before all of its queries are answered.
    pub async fn adopt(&self) {
        self.show(&*self.draft.lock().await);
    }

    /// All queries are answered, or have failed.
    pub async fn end(&self) {
        let mut draft = self.draft.lock().await;
        draft.snapshot = compact(draft.snapshot.clone());
        self.show(&draft);
    }

    fn show(&self, draft: &Draft) {
        let is_there = |name: &str| self.config.policies.iter().any(|policy| policy.name == name);
        self.state.metrics.keep_policies(is_there);
        self.state.misfits.keep(is_there);
        self.state.failures().retain(|name, _| is_there(name));
        for (policy, values) in self.config.policies.iter().zip(&draft.snapshot.values) {
            measure(&self.state, policy, values);
        }
        self.state.replace(draft.snapshot.clone());
        self.is_live.store(true, Ordering::Release);
        self.wake();
    }

    /// Has waiting pods tried again.
    fn wake(&self) {
        let (snapshot, now) = (self.state.snapshot(), Instant::now());
        let woken = {
            let mut tracker = self.state.tracker();
            tracker.forget_old(snapshot.config.herd.window, now);
            tracker.recovered(&snapshot, now)
        };
        if !woken.is_empty() {
            // nobody takes them where there is no API
            let _ = self.woken.send(woken);
        }
    }
}
