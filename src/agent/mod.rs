//! The agent's loop: look, decide, act, report; then sleep until something changes.
//!
//! What to decide is in `phase`, how to write in `reconcile`, what counts as proof in `verify`; here is only the order.
//! The loop reads and writes files itself, which may take long: probes and reports run on another thread.

mod act;
mod change;
mod judge;
mod leave;
mod limit;
mod look;
mod newer;
mod options;
mod others;
mod peers;
mod preflight;
mod reporting;
mod rollout;
mod seen;
mod sources;
mod turn;
mod watching;
mod write;

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher as _, Hasher as _};
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

use crate::cluster::ConfigMaps;
use crate::finding::Finding;
use crate::phase::{self, Decision, Fault, NodeState, Phase, Subject};
use crate::report::Report;
use crate::revision::Digest;
use crate::settings::{Preflight, Settings};
use crate::target::{Identity, Observer};
use crate::verify::{Cause, Failure, Trial};
use change::Pace;
use options::{ClientHandle, Handles};
pub use options::{Options, Outside, Proof, Release, SchedulerAt};
use preflight::Preflights;
use reporting::Reporting;
use rollout::{Member, Part, Permission};
use seen::{LastLook, Seen};
use turn::{Rest, Turn};
use watching::Watched;

/// Pause before a failed write is tried again.
const RETRY: Duration = Duration::from_secs(30);
/// How often the scheduler itself is asked while it must answer.
const HEALTH_INTERVAL: Duration = Duration::from_secs(1);
/// Minimum pause between two turns.
const MIN_REST: Duration = Duration::from_millis(100);
/// Steps in one turn (apply, look, verify); a turn that needs more goes on in the next.
const MAX_STEPS: usize = 6;

/// The agent.
#[derive(Debug)]
pub struct Agent {
    settings: Settings,
    options: Options,
    /// In the lock, for others who wait: with a number of its own, since in their pods all agents are process 1
    command: String,
    outside: Handles,
    began: Instant,
    watched: Watched,
    last: LastLook,
    work: Work,
    pace: Pace,
    reporting: Reporting,
    /// Its part in the rollout over all nodes, once there is an API to agree through
    member: Option<Member>,
    preflights: Preflights,
    /// Whether the rollout asked for another look, whatever else there is to do
    is_awaited: bool,
}

/// The commit on trial, and what became of the ones before it.
#[derive(Debug, Default)]
struct Work {
    /// Whether an unproven commit may be in place
    is_pending: bool,
    /// The trial of a text
    trial: Option<(Digest, Trial)>,
    /// The text that the scheduler was seen to run with when it was judged last
    runs: Option<Digest>,
    /// How often in a row the API had nothing new to say
    asked_in_vain: u32,
    /// What is wanted, and since when
    wanted: Option<(Option<Digest>, Duration)>,
    /// When the agent committed last
    committed: Option<Duration>,
    /// What failed and was rolled back since the agent started
    failure: Option<Failure>,
    /// Why the restart that a commit needs could not be asked for
    restart_failed: Option<String>,
    /// Why the files of schedpatch must stay though our edit is removed
    still_loaded: Option<String>,
    /// How often in a row it could not be asked for
    restart_failures: u32,
    /// When it is asked for again
    restart_again_at: Duration,
    /// A change that systemd did not load, and when it is tried again
    not_loaded: Option<(Finding, Duration)>,
    /// The text that came back then
    came_back: Option<Digest>,
    /// An original that does not run without our edit either
    failing_original: Option<FailingOriginal>,
}

/// An original that failed after a revision did.
#[derive(Debug)]
struct FailingOriginal {
    text: Digest,
    /// The revision that waits for it to run
    waiting: String,
    reason: String,
}

impl Agent {
    /// An agent that has not looked yet; reports through the two channels.
    pub fn new(
        mut settings: Settings,
        options: Options,
        outside: Outside,
        report: watch::Sender<Report>,
        turned: watch::Sender<Instant>,
    ) -> Self {
        let Outside { client, dir_watcher, fs, scheduler } = outside;
        if client.is_none() || options.proof != Proof::Observation {
            // nobody could say how it ends
            settings.preflight = Preflight::None;
        }
        Self {
            settings,
            options,
            command: format!("run {:08x}", RandomState::new().build_hasher().finish() >> 32),
            outside: Handles::new(client, fs, scheduler),
            began: Instant::now(),
            watched: Watched::new(dir_watcher),
            last: LastLook::default(),
            work: Work { is_pending: true, ..Work::default() },
            pace: Pace::default(),
            reporting: Reporting::new(report, turned),
            member: None,
            preflights: Preflights::default(),
            is_awaited: false,
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
            self.reporting.turned.send_replace(Instant::now());
            let mut deadline = Instant::now() + after;
            loop {
                tokio::select! {
                    biased;
                    () = &mut shutdown => return self.leave(),
                    paths = self.watched.dirs.next() => if self.is_news(&paths) {
                        self.watched.dirs.quiet().await;
                        break;
                    },
                    () = news_of(&mut self.watched.scheduler) => {
                        self.work.asked_in_vain = 0;
                        break;
                    }
                    () = news_of_sources(&mut self.watched.config_maps) => break,
                    () = news_of_rollout(&mut self.member) => break,
                    () = self.preflights.changed() => break,
                    () = tokio::time::sleep_until(deadline) => {
                        let is_ready = self.reporting.report.borrow().node_state.phase == Phase::Ready;
                        if !is_ready || self.is_awaited || self.has_changed() {
                            break;
                        }
                        self.reporting.turned.send_replace(Instant::now());
                        deadline = Instant::now() + after;
                    }
                }
            }
        }
    }

    /// Looks, decides and acts until there is nothing more to do now. Gives when to look again.
    async fn turn(&mut self) -> Duration {
        self.reporting.counts.turns += 1;
        for _ in 0..MAX_STEPS {
            if self.work.is_pending && self.judge_before_sources().await {
                continue;
            }
            self.take_sources().await;
            let fingerprint = self.fingerprint_now();
            let seen = match self.look().await {
                Ok(seen) => seen,
                Err(finding) => {
                    self.say(None, NodeState::blocked(&finding));
                    return RETRY;
                }
            };
            // a fingerprint of other files than the look has read says nothing about it
            self.last.fingerprint = fingerprint.filter(|_| self.last.snapshot.as_ref() == Some(&seen.snapshot));
            self.last.snapshot = Some(seen.snapshot.clone());
            self.work.is_pending = self.is_in_the_middle(&seen);
            if self.watch_over(&seen) {
                // changes before the watch existed raised no event, so look again
                continue;
            }
            if self.sweep_preflights(&seen) {
                continue;
            }
            if self.finish_commit(&seen) {
                continue;
            }
            self.note_others(&seen);
            if self.reporting.counts.turns == 1 {
                self.tighten(&seen);
            }
            self.withdraw_what_is_gone(&seen);
            let (permission, take_part_again) = match self.take_part(&seen).await {
                Part::Again => continue,
                Part::Refused(rest) => {
                    self.say(Some(&seen), rest.node_state);
                    return rest.after;
                }
                Part::Done(permission, after) => (permission, after),
            };
            self.is_awaited = take_part_again.is_some();
            if let Turn::Sleep(rest) = self.step(&seen, permission).await {
                self.say(Some(&seen), rest.node_state);
                self.take_fingerprint(&seen);
                let after = take_part_again.map_or(rest.after, |again| again.min(rest.after));
                return after.clamp(MIN_REST, self.options.resync.max(MIN_REST));
            }
        }
        HEALTH_INTERVAL
    }

    /// Judges an unproven commit by the host alone, before the sources are read: a bad source must not keep a broken scheduler
    /// in place. Says whether something was done.
    async fn judge_before_sources(&mut self) -> bool {
        let Ok(seen) = self.look_at_host() else { return false };
        let rest = Rest { node_state: self.reporting.report.borrow().node_state.clone(), after: self.options.resync };
        matches!(self.judge_pending_commit(&seen, rest).await, Turn::Again)
    }

    /// One step.
    async fn step(&mut self, seen: &Seen, permission: Permission) -> Turn {
        let failed_for = self.last.cleanup_failed_for;
        let is_only_untidy = seen.is_recorded && failed_for.is_some() && failed_for == seen.text();
        let decision = phase::decide(&seen.plan, &seen.journal, seen.settled || is_only_untidy);
        let is_lost = seen.lost_revision().is_some() && !seen.plan.is_left_to_upgrade;
        if is_lost && matches!(decision, Decision::Stay(_) | Decision::VerifyLastGood(_)) {
            if matches!(permission, Permission::Free | Permission::Away(_)) {
                return self.put_back(seen, permission);
            }
            if let Some(node_state) = self.last_good_lost(seen) {
                return Rest { node_state, after: self.options.resync }.into();
            }
        }
        match decision {
            Decision::Stay(node_state) => {
                let rest = self.rest_of_stay(seen, permission, node_state);
                self.judge_pending_commit(seen, rest).await
            }
            Decision::Apply(change) => {
                if let Some(reason) = self.must_wait_for_original(seen) {
                    return self.verify(seen, &Subject::Original { reason }, None).await;
                }
                match self.change(seen, change, permission) {
                    Turn::Again => Turn::Again,
                    Turn::Sleep(rest) => self.judge_pending_commit(seen, rest).await,
                }
            }
            Decision::RollBack(Fault { reason, .. }) => {
                self.roll_back(seen, Failure { cause: Cause::Before, message: reason, instance: None })
            }
            Decision::Verify => {
                let subject =
                    Subject::Wanted { was_proven: seen.was_proven(), waits_for_image: self.waits_for_image(seen) };
                self.verify(seen, &subject, permission.waits_for_person()).await
            }
            Decision::VerifyLastGood(failed) => {
                if self.is_in_the_middle(seen) && seen.is_current() && !seen.has_run() {
                    // yet another revision, which was not proven either
                    let waits_for_image = self.waits_for_image(seen);
                    return self.verify(seen, &Subject::Wanted { was_proven: false, waits_for_image }, None).await;
                }
                // of the original, and of what others made of ours, the journal takes no note
                let was_proven = !seen.is_current() || seen.was_proven();
                let may_clear = self.may_clear(seen);
                self.verify(seen, &Subject::LastGood { failed, was_proven, may_clear }, None).await
            }
        }
    }

    /// What is wanted cannot be had now. What was committed before and is not proven yet is judged to its end all the same,
    /// and taken back if it fails: it may be why nothing is scheduled.
    async fn judge_pending_commit(&mut self, seen: &Seen, rest: Rest) -> Turn {
        if !self.is_in_the_middle(seen) {
            return Turn::Sleep(rest);
        }
        let subject = match seen.journal.bad.iter().max_by_key(|(_, bad)| bad.since) {
            // what was proven before is in place again, after another revision failed
            Some((revision, bad)) if seen.has_run() && seen.came_by_rollback(bad) => {
                let failed = Fault::of(revision, bad);
                Subject::LastGood { failed, was_proven: false, may_clear: false }
            }
            _ => Subject::Wanted { was_proven: false, waits_for_image: self.waits_for_image(seen) },
        };
        self.verify(seen, &subject, Some(rest)).await
    }

    fn waits_for_image(&self, seen: &Seen) -> bool {
        self.settings.overrides.image.is_none() || seen.has_run()
    }

    /// Whether an unproven commit is in place, and the agent can verify it.
    fn is_in_the_middle(&self, seen: &Seen) -> bool {
        self.asks() && seen.is_unproven()
    }

    /// Whether a commit is in place that still has to be seen to run. What others made of its text since is not noted in the
    /// journal when it runs, only remembered here.
    fn is_on_trial(&self, seen: &Seen) -> bool {
        let runs =
            self.work.trial.as_ref().is_some_and(|(text, trial)| Some(*text) == seen.text() && trial.is_confirmed());
        self.is_in_the_middle(seen) && (seen.is_current() || !runs)
    }

    /// Whether the failure of what is in place would show that the revision is not at fault: it is the very original that
    /// came back when the revision failed, and it was not seen to run since.
    fn may_clear(&self, seen: &Seen) -> bool {
        let is_original = seen.plan.target.as_ref().is_some_and(|target| target.ours().is_none());
        let came_back = self.work.came_back.is_some() && self.work.came_back == seen.text();
        let has_run =
            self.work.trial.as_ref().is_some_and(|(text, trial)| Some(*text) == seen.text() && trial.is_confirmed());
        is_original && came_back && !has_run
    }

    /// Whether what is wanted waits for the original.
    fn waits_for_original(&self, seen: &Seen) -> bool {
        let failing = self.work.failing_original.as_ref();
        failing.is_some_and(|failing| {
            seen.text() == Some(failing.text) && seen.plan.revision.as_ref() == Some(&failing.waiting)
        })
    }

    /// Why what is wanted waits for the original: it was tried, and then the original failed as well.
    fn must_wait_for_original(&mut self, seen: &Seen) -> Option<String> {
        if !self.waits_for_original(seen) {
            self.work.failing_original = None;
        }
        self.work.failing_original.as_ref().map(|failing| failing.reason.clone())
    }

    fn now(&self) -> Duration {
        self.began.elapsed()
    }
}

/// Waits for news of the sources; for ever if they do not come through the API.
async fn news_of_sources(config_maps: &mut Option<ConfigMaps>) {
    match config_maps {
        Some(config_maps) => config_maps.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits for news of the rollout; for ever if there is none.
async fn news_of_rollout(member: &mut Option<Member>) {
    match member {
        Some(member) => member.changed().await,
        None => std::future::pending().await,
    }
}

/// Waits for news of the scheduler; for ever if nobody observes it.
async fn news_of(scheduler: &mut Option<(Identity, Box<dyn Observer>)>) {
    match scheduler {
        Some((_, observer)) => observer.changed().await,
        None => std::future::pending().await,
    }
}
