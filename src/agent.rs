//! The loop: look, decide, act, tell; then sleep until something changes. What to decide is in `phase`, how to write in
//! `tick`, what counts as proof in `verify`; here is only the order.
//!
//! It reads and writes files itself, which may take long: whoever must be answered meanwhile runs on another thread.

mod act;
mod drift;
mod judge;

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use kube::Client;
use tokio::sync::watch;
use tokio::time::Instant;

use crate::finding::{Finding, Level};
use crate::journal::{Asker, Journal};
use crate::observe::{Marks, Snapshot};
use crate::phase::{self, Course, Phase, Standing, Subject};
use crate::plan::{Direction, Plan};
use crate::report::{Counts, Report};
use crate::revision::Digest;
use crate::settings::Settings;
use crate::stamp::Stamp;
use crate::verify::{Failure, Health, Limits, PodWatch, Trial};
use crate::wake::{Wakes, is_of_no_account};
use drift::Drifts;

/// What could not be written is tried again after this.
const RETRY: Duration = Duration::from_secs(30);
/// How often the scheduler itself is asked while it must answer.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// No turn follows the other at once, whatever was reckoned.
const MIN_REST: Duration = Duration::from_millis(100);
/// One turn takes a few steps (apply, look, verify); one that takes more goes on in the next.
const MAX_STEPS: usize = 6;

/// Whose word is proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Proof {
    /// The mirror pod's
    MirrorPod,
    /// Nobody's
    None,
}

/// How changes go over the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rollout {
    /// Only where there is one control-plane node
    SingleNode,
    /// On every node as it pleases: all schedulers may restart at once
    UnsafeParallel,
}

/// How the agent goes about it.
#[derive(Clone, Debug)]
pub struct Options {
    /// Name of this node
    pub node: String,
    /// Whose word is proof
    pub proof: Proof,
    /// How long is long
    pub limits: Limits,
    /// The slow timer
    pub resync: Duration,
    /// How changes go over the cluster
    pub rollout: Rollout,
    /// How long to wait for another writer
    pub lock_timeout: Duration,
    /// The time of the day, only to tell it
    pub clock: fn() -> Stamp,
}

/// The agent.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    options: Options,
    client: Option<ClientHandle>,
    report: watch::Sender<Report>,
    turned: watch::Sender<Instant>,
    began: Instant,
    wakes: Wakes,
    pod: Option<(String, PodWatch)>,
    health: Option<(String, Health)>,
    /// The trial of a text
    trial: Option<(Digest, Trial)>,
    /// What failed and was taken back in this life
    failure: Option<Failure>,
    committed: Option<Duration>,
    drifts: Drifts,
    counts: Counts,
    /// The target's text as it was seen or written last
    known_text: Option<(PathBuf, Digest)>,
    unwatched: Option<String>,
    /// The text beside which something of ours could not be removed: no reason to try it all the time
    in_vain: Option<Digest>,
    /// What the last look found
    snapshot: Option<Snapshot>,
    /// Marks of all that, from before the look
    marks: Option<Marks>,
}

/// A client that can be shown.
#[derive(Clone)]
struct ClientHandle(Client);

impl std::fmt::Debug for ClientHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Client")
    }
}

/// What one look found.
struct Seen {
    snapshot: Snapshot,
    plan: Plan,
    journal: Journal,
    settled: bool,
    /// The same, but for what could be removed
    is_noted: bool,
}

/// Where a turn ends: what to say, and when to look again.
struct Rest {
    standing: Standing,
    after: Duration,
}

impl Agent {
    /// An agent that has not looked yet; tells through the two channels.
    pub fn new(
        settings: Settings,
        options: Options,
        client: Option<Client>,
        report: watch::Sender<Report>,
        turned: watch::Sender<Instant>,
    ) -> Self {
        Self {
            settings,
            options,
            client: client.map(ClientHandle),
            report,
            turned,
            began: Instant::now(),
            wakes: Wakes::default(),
            pod: None,
            health: None,
            trial: None,
            failure: None,
            committed: None,
            drifts: Drifts::default(),
            counts: Counts::default(),
            known_text: None,
            unwatched: None,
            in_vain: None,
            snapshot: None,
            marks: None,
        }
    }

    /// Runs until `shutdown` is done. In the middle of a change what ran before comes back first.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Finding> {
        tokio::pin!(shutdown);
        loop {
            let after = self.turn().await;
            self.turned.send_replace(Instant::now());
            let mut deadline = Instant::now() + after;
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return self.leave(),
                    paths = self.wakes.next() => if self.is_news(&paths) {
                        self.wakes.quiet().await;
                        break;
                    },
                    () = pod_changed(&mut self.pod) => break,
                    () = tokio::time::sleep_until(deadline) => {
                        if self.report.borrow().standing.phase != Phase::Ready || self.has_changed() {
                            break;
                        }
                        self.turned.send_replace(Instant::now());
                        deadline = Instant::now() + after;
                    }
                }
            }
        }
    }

    /// Looks, decides and acts until there is nothing more to do now. Gives when to look again.
    async fn turn(&mut self) -> Duration {
        self.counts.turns += 1;
        for _ in 0..MAX_STEPS {
            let marks = self.marks_now();
            let seen = match self.look() {
                Ok(seen) => seen,
                Err(finding) => {
                    self.say(None, Standing::blocked(&finding));
                    return RETRY;
                }
            };
            // marks of other files than the look has read say nothing about it
            self.marks = marks.filter(|_| self.snapshot.as_ref() == Some(&seen.snapshot));
            self.snapshot = Some(seen.snapshot.clone());
            if self.watch_over(&seen) {
                // what happened between the look and the watch nobody tells
                continue;
            }
            if let Some(rest) = self.step(&seen).await {
                self.say(Some(&seen), rest.standing);
                self.mark(&seen);
                return rest.after.clamp(MIN_REST, self.options.resync.max(MIN_REST));
            }
        }
        HEALTH_INTERVAL
    }

    /// Takes marks, and looks once more: only what was the same before and after them do they stand for.
    fn mark(&mut self, seen: &Seen) {
        if self.marks.is_none() && self.report.borrow().standing.phase == Phase::Ready {
            let marks = self.marks_now();
            self.marks = marks.filter(|_| self.look().is_ok_and(|again| again.snapshot == seen.snapshot));
        }
    }

    fn marks_now(&self) -> Option<Marks> {
        Marks::of(&self.settings, self.snapshot.as_ref()?)
    }

    /// Whether anything may have changed that a look would see; to be asked when nothing has told so.
    fn has_changed(&self) -> bool {
        self.marks.is_none() || self.marks != self.marks_now()
    }

    /// One step; none if there is more to do.
    async fn step(&mut self, seen: &Seen) -> Option<Rest> {
        let in_vain = seen.is_noted && self.in_vain.is_some() && self.in_vain == text_of(seen);
        match phase::course(&seen.plan, &seen.journal, seen.settled || in_vain) {
            Course::Stay(standing) => {
                let rest = Rest { standing, after: self.options.resync };
                self.besides(seen, rest).await
            }
            Course::Apply(change) => {
                let rest = self.change(seen, change).await?;
                self.besides(seen, rest).await
            }
            Course::RollBack(reason) => {
                let failure = Failure { reason: "FailedBefore", message: reason, container: None };
                self.roll_back(seen, failure)
            }
            Course::Verify => {
                let was_proven = was_proven(seen);
                self.verify(seen, &Subject::Wanted { was_proven }, None).await
            }
            Course::VerifyLastGood(reason) => {
                // of the original, and of what others made of ours, the journal takes no note
                let is_current = text_of(seen).is_some_and(|text| seen.journal.is_current(text));
                let was_proven = !is_current || was_proven(seen);
                self.verify(seen, &Subject::LastGood { reason, was_proven }, None).await
            }
        }
    }

    /// What is wanted cannot be had now. What was committed before and is not proven yet is judged to its end all the same,
    /// and taken back if it fails: it may be why nothing is scheduled.
    async fn besides(&mut self, seen: &Seen, rest: Rest) -> Option<Rest> {
        if !self.is_in_the_middle(seen) {
            return Some(rest);
        }
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
        let is_good = seen.journal.last_good.as_ref().map(|good| &good.revision) == ours.map(|ours| &ours.revision);
        let subject = if is_good {
            let reason = "a revision failed, and what ran before is not proven again yet".to_owned();
            Subject::LastGood { reason, was_proven: false }
        } else {
            Subject::Wanted { was_proven: false }
        };
        self.verify(seen, &subject, Some(rest)).await
    }

    /// Whether a commit of ours stands that is to be proven and is not yet.
    fn is_in_the_middle(&self, seen: &Seen) -> bool {
        let is_current = text_of(seen).is_some_and(|text| seen.journal.is_current(text));
        self.asks() && is_current && !was_proven(seen) && seen.journal.hold.is_none()
    }

    /// Keeps the watches where they are needed; says whether there are new ones.
    fn watch_over(&mut self, seen: &Seen) -> bool {
        let root = &self.settings.host_root;
        let on_host = |path: &str| root.join(path.trim_start_matches('/'));
        let above = |path: &str| path.rsplit_once('/').map(|(dir, _)| on_host(dir));
        let bases = seen.snapshot.bases.keys().filter_map(|path| above(path));
        let target = seen.plan.target.as_ref();
        let manifests = seen.snapshot.facts.manifest_dirs().map(on_host).filter(|dir| dir.is_dir());
        // the directory of our target may be gone for a while: then what it will be made in is watched
        let of_target = seen.journal.target.as_deref().and_then(above);
        let of_target = of_target.iter().flat_map(|dir| dir.ancestors()).find(|dir| dir.is_dir()).map(PathBuf::from);
        let dirs: BTreeSet<PathBuf> =
            self.settings.sources.iter().cloned().chain(bases).chain(manifests).chain(of_target).collect();
        self.known_text = target.map(|target| (on_host(&target.path), target.digest));
        let (is_new, trouble) = self.wakes.keep(&dirs);
        if let Some(why) = trouble.as_ref().filter(|why| self.unwatched.as_ref() != Some(why)) {
            let every = self.options.resync.as_secs();
            tracing::warn!("not everything can be watched, so it is looked at every {every} s: {why}");
        }
        self.unwatched = trouble;
        is_new
    }

    /// Whether somebody else did this.
    fn is_news(&self, paths: &BTreeSet<PathBuf>) -> bool {
        let is_known = |path: &PathBuf| {
            let text = self.known_text.as_ref().filter(|(known, _)| known == path).map(|(_, digest)| *digest);
            text.is_some() && text == std::fs::read(path).ok().map(|bytes| Digest::of_bytes(&bytes))
        };
        !paths.iter().all(|path| is_of_no_account(path) || is_known(path))
    }

    /// Tells where this node is, if that is news.
    fn say(&mut self, seen: Option<&Seen>, standing: Standing) {
        let before = self.report.borrow().clone();
        let is_news = (before.standing.phase, &before.standing.reason) != (standing.phase, &standing.reason)
            || before.standing.message != standing.message && standing.phase != Phase::Verifying;
        let since = if before.standing.phase == standing.phase { before.since } else { (self.options.clock)() };
        let mut report = Report { standing, since, counts: self.counts.clone(), ..before };
        if let Some(Seen { plan, journal, .. }) = seen {
            let target = plan.target.as_ref();
            let ours = target.and_then(|target| target.ours());
            let proven = seen.is_some_and(was_proven);
            report.digest = plan.digest.or(report.digest);
            // other sources may come to the same revision, and are then proven with it
            report.verified_digest = if report.standing.phase == Phase::Ready {
                plan.digest
            } else {
                journal.last_good.as_ref().filter(|_| proven).and_then(|good| good.digest)
            };
            report.revision = ours.map(|ours| ours.revision.clone());
            report.generation = ours.map(|ours| ours.generation);
            report.platform = plan.platform;
            report.scheduler_version = plan.scheduler.as_ref().map(|known| known.text.clone());
            report.extenders.clone_from(&plan.extenders);
        }
        if is_news {
            report.log();
        }
        self.report.send_replace(report);
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Out of the middle nothing changes; in the middle what ran before comes back, so that whoever comes next finds a node
    /// that schedules.
    fn leave(mut self) -> Result<(), Finding> {
        let seen = self.look()?;
        if !self.is_in_the_middle(&seen) {
            tracing::info!("stopping; what is applied stays");
            return Ok(());
        }
        let message = "stopping in the middle of a change: what ran before comes back first";
        self.say(Some(&seen), Standing::new(Phase::Applying, "RollingBack", message));
        let outcome = self.write(Direction::LastGood, Asker::Agent, text_of(&seen))?;
        match outcome.plan.findings.into_iter().find(|finding| finding.level == Level::Error) {
            Some(finding) => Err(finding),
            None => Ok(()),
        }
    }
}

/// Waits for news of the pod; for ever where nobody follows one.
async fn pod_changed(pod: &mut Option<(String, PodWatch)>) {
    let Some((_, pod)) = pod else { return std::future::pending().await };
    if pod.known.changed().await.is_err() {
        std::future::pending::<()>().await;
    }
}

/// The text that stands.
fn text_of(seen: &Seen) -> Option<Digest> {
    seen.plan.target.as_ref().map(|target| target.digest)
}

/// Whether the very text that stands was proven to run.
fn was_proven(seen: &Seen) -> bool {
    seen.journal.is_proven() && text_of(seen).is_some_and(|text| seen.journal.is_current(text))
}
