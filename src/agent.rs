//! The loop: look, decide, act, tell; then sleep until something changes. What to decide is in `phase`, how to write in
//! `reconcile`, what counts as proof in `verify`; here is only the request.
//!
//! It reads and writes files itself, which may take long: whoever must be answered meanwhile runs on another thread.

mod act;
mod judge;
mod limit;
mod options;
mod others;
mod telling;
mod watching;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::dir_watcher::DirWatcher;
use crate::finding::{Finding, Level};
use crate::journal::{Bad, Commit, Initiator, Journal};
use crate::observe::{Fingerprint, Snapshot};
use crate::phase::{self, Decision, Fault, NodeState, Phase, Subject};
use crate::plan::{Direction, Plan};
use crate::report::{Counts, Report};
use crate::revision::Digest;
use crate::settings::Settings;
use crate::verify::{Cause, Failure, Health, PodWatch, Trial};
use limit::Limit;
use options::{ClientHandle, FsHandle};
pub use options::{Options, Outside, Proof, Rollout, SchedulerAt};
use others::Others;
use watching::KnownFiles;

/// What could not be written is tried again after this.
const RETRY: Duration = Duration::from_secs(30);
/// How often the scheduler itself is asked while it must answer.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// No turn follows the other at once, whatever was reckoned.
const MIN_REST: Duration = Duration::from_millis(100);
/// So many commits are made within a minute, whatever they are for: each restarts a scheduler.
const MAX_COMMITS: usize = 20;
/// More repairs of drift than this within an hour mean that somebody else manages the file.
const MAX_DRIFTS: usize = 3;
/// One turn takes a few steps (apply, look, verify); one that takes more goes on in the next.
const MAX_STEPS: usize = 6;

/// The agent.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    options: Options,
    /// In the lock, for others who wait: with a number of its own, since in their pods all agents are process 1
    command: String,
    client: Option<ClientHandle>,
    scheduler: SchedulerAt,
    fs: FsHandle,
    report: watch::Sender<Report>,
    turned: watch::Sender<Instant>,
    began: Instant,
    dir_watcher: DirWatcher,
    pod: Option<(String, PodWatch)>,
    health: Option<(String, Health)>,
    /// Whether a commit that is not proven may be in place
    is_pending: bool,
    /// How often in a row the API had nothing new to say
    asked_in_vain: u32,
    /// The trial of a text
    trial: Option<(Digest, Trial)>,
    /// What failed and was taken back in this life
    failure: Option<Failure>,
    /// The text that came back then
    came_back: Option<Digest>,
    /// An original that does not run without our edit either
    failing_original: Option<FailingOriginal>,
    committed: Option<Duration>,
    commits: Limit,
    drifts: Limit,
    others: Others,
    counts: Counts,
    /// Files as they were seen or written last
    known_files: KnownFiles,
    unwatched: Option<String>,
    /// The text beside which something of ours could not be removed: no reason to try it all the time
    cleanup_failed_for: Option<Digest>,
    /// What the last look found
    snapshot: Option<Snapshot>,
    /// Fingerprint of all that, from before the look
    fingerprint: Option<Fingerprint>,
}

/// An original that failed after a revision did.
#[derive(Debug)]
struct FailingOriginal {
    text: Digest,
    /// The revision that waits for it to run
    waiting: String,
    reason: String,
}

/// What one look found.
struct Seen {
    snapshot: Snapshot,
    plan: Plan,
    journal: Journal,
    settled: bool,
    /// The same, but for what could be removed
    is_recorded: bool,
    /// Whether the sources were read too
    is_whole: bool,
}

/// Where a turn ends: what to say, and when to look again.
struct Rest {
    node_state: NodeState,
    after: Duration,
}

impl Agent {
    /// An agent that has not looked yet; tells through the two channels.
    pub fn new(
        settings: Settings,
        options: Options,
        outside: Outside,
        report: watch::Sender<Report>,
        turned: watch::Sender<Instant>,
    ) -> Self {
        let Outside { client, dir_watcher, fs, scheduler } = outside;
        Self {
            settings,
            options,
            command: format!("run {:08x}", RandomState::new().build_hasher().finish() >> 32),
            client: client.map(ClientHandle),
            scheduler,
            fs: FsHandle(fs),
            report,
            turned,
            began: Instant::now(),
            dir_watcher,
            pod: None,
            health: None,
            is_pending: true,
            asked_in_vain: 0,
            trial: None,
            failure: None,
            came_back: None,
            failing_original: None,
            committed: None,
            commits: Limit::new(MAX_COMMITS, Duration::from_mins(1)),
            drifts: Limit::new(MAX_DRIFTS, Duration::from_hours(1)),
            others: Others::default(),
            counts: Counts::default(),
            known_files: KnownFiles::default(),
            unwatched: None,
            cleanup_failed_for: None,
            snapshot: None,
            fingerprint: None,
        }
    }

    /// Runs until `shutdown` is done. In the middle of a change what ran before comes back first.
    pub async fn run(mut self, shutdown: impl Future<Output = ()>) -> Result<(), Finding> {
        tokio::pin!(shutdown);
        loop {
            // a turn waits only for answers, and between two answers everything is whole: it may be left at any of them
            let after = tokio::select! {
                biased;
                () = &mut shutdown => return self.leave(),
                after = self.turn() => after,
            };
            self.turned.send_replace(Instant::now());
            let mut deadline = Instant::now() + after;
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return self.leave(),
                    paths = self.dir_watcher.next() => if self.is_news(&paths) {
                        self.dir_watcher.quiet().await;
                        break;
                    },
                    () = pod_changed(&mut self.pod) => {
                        self.asked_in_vain = 0;
                        break;
                    }
                    () = tokio::time::sleep_until(deadline) => {
                        if self.report.borrow().node_state.phase != Phase::Ready || self.has_changed() {
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
            if self.is_pending && self.judge_pending().await {
                continue;
            }
            let fingerprint = self.fingerprint_now();
            let seen = match self.look().await {
                Ok(seen) => seen,
                Err(finding) => {
                    self.say(None, NodeState::blocked(&finding));
                    return RETRY;
                }
            };
            // a fingerprint of other files than the look has read says nothing about it
            self.fingerprint = fingerprint.filter(|_| self.snapshot.as_ref() == Some(&seen.snapshot));
            self.snapshot = Some(seen.snapshot.clone());
            self.is_pending = self.is_in_the_middle(&seen);
            if self.watch_over(&seen) {
                // changes before the watch existed raised no event, so look again
                continue;
            }
            self.note_others(&seen);
            if self.counts.turns == 1 {
                self.tighten(&seen);
            }
            if let Some(rest) = self.step(&seen).await {
                self.say(Some(&seen), rest.node_state);
                self.mark(&seen);
                return rest.after.clamp(MIN_REST, self.options.resync.max(MIN_REST));
            }
        }
        HEALTH_INTERVAL
    }

    /// Judges a commit that is not proven yet by the host alone, before the sources are read: whatever is wrong with them must
    /// not keep a broken scheduler in place. Says whether something was done.
    async fn judge_pending(&mut self) -> bool {
        let Ok(seen) = self.look_at_host() else { return false };
        let rest = Rest { node_state: self.report.borrow().node_state.clone(), after: self.options.resync };
        self.judge_pending_commit(&seen, rest).await.is_none()
    }

    /// One step; none if there is more to do.
    async fn step(&mut self, seen: &Seen) -> Option<Rest> {
        let cleanup_failed_for =
            seen.is_recorded && self.cleanup_failed_for.is_some() && self.cleanup_failed_for == text_of(seen);
        let decide = phase::decide(&seen.plan, &seen.journal, seen.settled || cleanup_failed_for);
        if let (Decision::Stay(_) | Decision::VerifyLastGood(_), Some(good)) = (&decide, last_good_that_is_gone(seen)) {
            return self.put_back(seen, &good);
        }
        match decide {
            Decision::Stay(node_state) => {
                let rest = Rest { node_state, after: self.options.resync };
                self.judge_pending_commit(seen, rest).await
            }
            Decision::Apply(change) => {
                if let Some(reason) = self.must_wait_for_original(seen) {
                    return self.verify(seen, &Subject::Original { reason }, None).await;
                }
                let rest = self.change(seen, change).await?;
                self.judge_pending_commit(seen, rest).await
            }
            Decision::RollBack(Fault { reason, .. }) => {
                self.roll_back(seen, Failure { cause: Cause::Before, message: reason, container: None })
            }
            Decision::Verify => {
                let subject =
                    Subject::Wanted { was_proven: was_proven(seen), waits_for_image: self.waits_for_image(seen) };
                self.verify(seen, &subject, None).await
            }
            Decision::VerifyLastGood(failed) => {
                // of the original, and of what others made of ours, the journal takes no note
                let was_proven = !is_current(seen) || was_proven(seen);
                let may_clear = self.may_clear(seen);
                let never_ran = self.is_in_the_middle(seen) && !has_run(seen);
                self.verify(seen, &Subject::LastGood { failed, was_proven, may_clear, never_ran }, None).await
            }
        }
    }

    /// What is wanted cannot be had now. What was committed before and is not proven yet is after_verdict to its end all the same,
    /// and taken back if it fails: it may be why nothing is scheduled.
    async fn judge_pending_commit(&mut self, seen: &Seen, rest: Rest) -> Option<Rest> {
        if !self.is_in_the_middle(seen) {
            return Some(rest);
        }
        let subject = match seen.journal.bad.iter().max_by_key(|(_, bad)| bad.since) {
            // what was proven before is in place again, after another revision failed
            Some((revision, bad)) if has_run(seen) && came_by_rollback(seen, bad) => {
                let failed = Fault { revision: revision.clone(), reason: bad.reason.clone() };
                Subject::LastGood { failed, was_proven: false, may_clear: false, never_ran: false }
            }
            _ => Subject::Wanted { was_proven: false, waits_for_image: self.waits_for_image(seen) },
        };
        self.verify(seen, &subject, Some(rest)).await
    }

    fn waits_for_image(&self, seen: &Seen) -> bool {
        self.settings.overrides.image.is_none() || has_run(seen)
    }

    /// Whether a commit of ours is in place that is to be proven and is not yet; others may have edited its text since.
    fn is_in_the_middle(&self, seen: &Seen) -> bool {
        let Journal { current, last_good, hold, .. } = &seen.journal;
        let ours = seen.plan.target.as_ref().and_then(|target| target.ours()).map(|ours| ours.generation);
        let is = |commit: &Option<Commit>| ours.is_some() && commit.as_ref().map(|commit| commit.generation) == ours;
        let is_unproven = if is_current(seen) { !was_proven(seen) } else { is(current) && !is(last_good) };
        self.asks() && is_unproven && hold.is_none()
    }

    /// Whether the failure of what is in place would show that the revision is not at fault: it is the very original that
    /// came back when the revision failed, and it was not seen to run since.
    fn may_clear(&self, seen: &Seen) -> bool {
        let is_original = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
        let came_back = self.came_back.is_some() && self.came_back == text_of(seen);
        let has_run =
            self.trial.as_ref().is_some_and(|(text, trial)| Some(*text) == text_of(seen) && trial.is_confirmed());
        is_original && came_back && !has_run
    }

    /// Why what is wanted waits for the original: it was tried, and then the original failed as well.
    fn must_wait_for_original(&mut self, seen: &Seen) -> Option<String> {
        let failing = self.failing_original.take()?;
        let is_same = text_of(seen) == Some(failing.text) && seen.plan.revision.as_ref() == Some(&failing.waiting);
        let reason = failing.reason.clone();
        self.failing_original = Some(failing).filter(|_| is_same);
        is_same.then_some(reason)
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }

    /// Out of the middle nothing changes; in the middle what ran before comes back, so that whoever comes next finds a node
    /// that schedules.
    fn leave(mut self) -> Result<(), Finding> {
        let seen = self.look_at_host()?;
        if !self.is_in_the_middle(&seen) {
            tracing::info!("stopping; what is applied stays");
            return Ok(());
        }
        let message = "stopping in the middle of a change: what ran before comes back first";
        self.say(Some(&seen), NodeState::new(Phase::Applying, "RollingBack", message));
        // a proven revision that was put on another original and is not up again yet has no text before it to go back to
        let is_up = self.trial.as_ref().is_some_and(|(text, trial)| Some(*text) == text_of(&seen) && trial.is_ready());
        let direction = if has_run(&seen) && !is_up { Direction::Restore } else { Direction::LastGood };
        let outcome = self.write(direction, Initiator::Agent, text_of(&seen))?;
        match outcome.plan.findings.into_iter().find(|finding| finding.level == Level::Error) {
            Some(finding) => Err(finding),
            None => Ok(()),
        }
    }
}

/// Waits for news of the pod; for ever where nobody follows one.
async fn pod_changed(pod: &mut Option<(String, PodWatch)>) {
    match pod {
        Some((_, pod)) => pod.changed().await,
        None => std::future::pending().await,
    }
}

/// The text that stands.
fn text_of(seen: &Seen) -> Option<Digest> {
    seen.plan.target.as_ref().map(|target| target.digest)
}

/// Whether the text in place is exactly what we committed last.
fn is_current(seen: &Seen) -> bool {
    text_of(seen).is_some_and(|text| seen.journal.is_current(text))
}

/// Whether the very text that stands was proven to run.
fn was_proven(seen: &Seen) -> bool {
    seen.journal.is_proven() && is_current(seen)
}

/// Whether the revision that is in place was proven to run, in this text or in another.
fn has_run(seen: &Seen) -> bool {
    let ours = seen.plan.target.as_ref().and_then(|target| target.ours());
    ours.is_some_and(|ours| seen.journal.has_proven(&ours.revision))
}

/// Whether what is in place was committed when this mark was made, or before.
fn came_by_rollback(seen: &Seen, bad: &Bad) -> bool {
    seen.journal.current.as_ref().is_some_and(|commit| bad.since >= commit.since)
}

/// The revision that was proven last, where somebody else took it out of the target and nobody holds.
fn last_good_that_is_gone(seen: &Seen) -> Option<String> {
    let Journal { current, last_good, hold, .. } = &seen.journal;
    let is_gone = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
    last_good.as_ref().filter(|_| is_gone && hold.is_none() && current.is_some()).map(|good| good.revision.clone())
}
