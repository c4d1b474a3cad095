//! One pass from left to right: look, plan, write. First start, a changed source, an overwritten manifest and recovery
//! after a crash are all this.

mod preflight;

use std::fmt;
use std::thread;
use std::time::Duration;

use crate::apply::{self, ApplyError, Claim, Deadline, Done, HostFs, Lock, Receipt, Writer};
use crate::finding::Finding;
use crate::host::Root;
use crate::journal::{Initiator, Journal};
use crate::observe::{self, Scope, Snapshot};
use crate::plan::{self, Direction, Plan};
use crate::revision::Digest;
use crate::settings::Settings;
use crate::timestamp::Timestamp;
pub use preflight::{begin_preflight, end_preflights};

/// Pause for a writer that writes in place to finish.
pub(crate) const QUIET: Duration = Duration::from_millis(100);

/// Attempts before a person is told that somebody else keeps writing.
pub(crate) const MAX_ATTEMPTS: usize = 10;

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// Where and what
    pub settings: &'a Settings,
    /// Which way
    pub direction: Direction,
    /// Who asks
    pub initiator: Initiator,
    /// Write only if it comes to this revision: what was decided holds for no other
    pub expected_revision: Option<&'a str>,
    /// Do not write over another text of ours than this: what was decided holds for no other
    pub expected_text: Option<Digest>,
    /// Write only while this revision is marked bad: somebody may just have said that it shall be tried again
    pub while_bad: Option<&'a str>,
    /// The command, for others who wait for the lock
    pub command: &'a str,
    /// How long to wait for the lock
    pub lock_timeout: Duration,
    /// Remove every trace of ours afterwards
    pub purge: bool,
    /// The text of the target that the scheduler was seen to run with
    pub runs: Option<Digest>,
    /// Commit before this, or not at all
    pub deadline: Option<Deadline>,
    /// Commit what needs a preflight only if it is what was tried
    pub tried: Tried,
}

/// What the scheduler itself has checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tried {
    /// Nobody asks for it
    Unasked,
    /// Only this text, or none
    Only(Option<Digest>),
}

impl Tried {
    fn lets_go(self, plan: &Plan) -> bool {
        match (self, &plan.preflight) {
            (Self::Unasked, _) | (_, None) => true,
            (Self::Only(tried), Some(needed)) => tried == Some(needed.manifest.tried),
        }
    }
}

impl<'a> Request<'a> {
    /// A pass without further conditions.
    pub fn new(
        settings: &'a Settings,
        direction: Direction,
        initiator: Initiator,
        command: &'a str,
        lock_timeout: Duration,
    ) -> Self {
        let (expected_revision, expected_text, while_bad) = (None, None, None);
        Self {
            settings,
            direction,
            initiator,
            expected_revision,
            expected_text,
            while_bad,
            command,
            lock_timeout,
            purge: false,
            runs: None,
            deadline: None,
            tried: Tried::Unasked,
        }
    }
}

/// What happens during a pass, reported as it does.
#[derive(Debug)]
pub enum Event<'a> {
    /// This is about to be carried out
    Planned(&'a Plan),
    /// Another one is writing
    Waiting(&'a str),
    /// A change was made
    Done(Done<'a>),
    /// Somebody else wrote the target meanwhile
    Again(&'a str),
}

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// What was carried out; its errors say why not
    pub plan: Plan,
    /// What was written, if anything was
    pub receipt: Option<Receipt>,
    /// Whether our directory is gone, where that was asked for
    pub purged: Option<bool>,
    /// Why it must stay for now: whoever starts the scheduler may still need it
    pub still_loaded: Option<Finding>,
}

impl Outcome {
    fn of(plan: Plan, receipt: Option<Receipt>) -> Self {
        Self { plan, receipt, purged: None, still_loaded: None }
    }
}

/// The environment of a pass: the host's files and the clock.
pub struct Env<'a> {
    /// The way to the host's files
    pub fs: &'a dyn HostFs,
    /// The time of the day
    pub clock: &'a dyn Fn() -> Timestamp,
}

impl fmt::Debug for Env<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Env")
    }
}

/// The host, locked: from a decision to its commit nobody else writes.
#[derive(Debug)]
pub struct Session {
    root: Root,
    lock: Lock,
}

/// Takes the host's lock.
pub fn begin(request: &Request<'_>, env: &Env<'_>, on_event: &mut dyn FnMut(Event<'_>)) -> Result<Session, Finding> {
    let root = open_root(request.settings)?;
    let lock = take_lock(request, env.fs, &root, (env.clock)(), on_event)?;
    Ok(Session { root, lock })
}

impl Session {
    fn writer<'s>(&'s self, env: &Env<'s>, deadline: Option<Deadline>) -> Writer<'s> {
        Writer { fs: env.fs, root: &self.root, lock: &self.lock, now: (env.clock)(), deadline }
    }
}

/// Runs one pass. What is up to date is left alone: not even the lock is taken.
pub fn run(request: &Request<'_>, env: &Env<'_>, on_event: &mut dyn FnMut(Event<'_>)) -> Result<Outcome, Finding> {
    run_from(request, look(request)?, env, on_event)
}

/// Like `run`, but begins with the caller's look. Under the lock it looks again in any case.
pub fn run_from(
    request: &Request<'_>,
    (snapshot, plan): (Snapshot, Plan),
    env: &Env<'_>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Finding> {
    let is_bare = request.purge && plan.commit().is_none() && !observe::exists(request.settings);
    let settled = apply::is_settled(&plan, &snapshot, request.direction, &request.initiator) && !request.purge;
    if plan.is_refused() || settled || is_bare || must_not_write(request, &snapshot) {
        return Ok(Outcome { purged: is_bare.then_some(true), ..Outcome::of(plan, None) });
    }
    if request.purge {
        apply::refuse_if_used(&snapshot, plan.target.as_ref().map(|target| target.path.as_str()))?;
    }
    // where no journal of ours is yet, nothing is made for what is refused; else it is refused under the lock
    if !snapshot.state.is_known {
        apply::check(&open_root(request.settings)?, &request.settings.state_dir, &plan)
            .or_else(|error| if is_transient(&error) { Ok(()) } else { Err(error.finding()) })?;
    }
    let session = begin(request, env, on_event)?;
    run_in(&session, request, (snapshot, plan), env, on_event)
}

/// The part of a pass that writes, for who holds the lock.
pub fn run_in(
    session: &Session,
    request: &Request<'_>,
    (snapshot, plan): (Snapshot, Plan),
    env: &Env<'_>,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Finding> {
    let writer = session.writer(env, request.deadline);
    let has_revisions = !snapshot.state.revisions.is_empty();
    let runs = request.runs.filter(|_| snapshot.state.journal.ran.is_some());
    let mut outcome = write(request, &writer, (snapshot, plan), on_event)?;
    let must_still_restart = outcome.receipt.as_ref().is_some_and(|receipt| receipt.restart_failed.is_some());
    if request.purge && !outcome.plan.is_refused() && !must_still_restart {
        if has_revisions && let Err(error) = apply::let_go(&writer, &outcome.plan, runs) {
            outcome.still_loaded = Some(error.finding());
            return Ok(outcome);
        }
        // our edit must be out of every manifest, this one too, while we hold the lock
        apply::refuse_if_used(&observe::take_snapshot(request.settings)?, None)?;
        // a commit of this run is on the disk; what others did to the target may not be
        let is_synced = outcome.receipt.as_ref().is_some_and(|receipt| receipt.committed);
        let target = outcome.plan.target.as_ref().filter(|_| !is_synced).map(|target| target.path.as_str());
        let purged = apply::purge(&writer, target).map_err(|error| error.after_commit().finding())?;
        outcome.purged = Some(purged);
    }
    Ok(outcome)
}

/// Writes down that this very text of the target was seen to run; `false` if the manifest has changed meanwhile, or somebody holds.
pub fn prove(request: &Request<'_>, env: &Env<'_>, text: Digest) -> Result<bool, Finding> {
    let session = begin(request, env, &mut |_| {})?;
    let (snapshot, plan) = look_once(request, None)?;
    if is_held(request, &snapshot) {
        return Ok(false);
    }
    apply::prove(&session.writer(env, None), &plan, &snapshot, text).map_err(|error| error.finding())
}

/// Changes what is remembered on this host, and nothing else; `false` where that is nothing new.
pub fn amend(request: &Request<'_>, env: &Env<'_>, change: &dyn Fn(Journal) -> Journal) -> Result<bool, Finding> {
    let session = begin(request, env, &mut |_| {})?;
    amend_in(&session, request, env, change)
}

/// The same for who holds the lock.
pub fn amend_in(
    session: &Session,
    request: &Request<'_>,
    env: &Env<'_>,
    change: &dyn Fn(Journal) -> Journal,
) -> Result<bool, Finding> {
    let (snapshot, _) = look_once(request, None)?;
    apply::amend(&session.writer(env, None), &snapshot.state, change).map_err(|error| error.finding())
}

/// Removes the mark of a revision that turned out not to be at fault; `false` if there is none.
pub fn forgive(request: &Request<'_>, env: &Env<'_>, revision: &str) -> Result<bool, Finding> {
    let session = begin(request, env, &mut |_| {})?;
    let (snapshot, _) = look_once(request, None)?;
    apply::forgive(&session.writer(env, None), &snapshot.state, revision).map_err(|error| error.finding())
}

/// Closes files of ours that everybody may read; restarts nothing.
pub fn tighten(request: &Request<'_>, env: &Env<'_>) -> Result<(), Finding> {
    let session = begin(request, env, &mut |_| {})?;
    let (_, plan) = look_once(request, None)?;
    apply::tighten(&session.writer(env, None), &plan).map_err(|error| error.finding())
}

fn take_lock(
    request: &Request<'_>,
    fs: &dyn HostFs,
    root: &Root,
    now: Timestamp,
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Lock, Finding> {
    let Request { command, lock_timeout: timeout, .. } = *request;
    let claim = Claim { state_dir: &request.settings.state_dir, command, now, timeout };
    Lock::take(fs, root, &claim, &mut |holder| on_event(Event::Waiting(holder))).map_err(|error| error.finding())
}

/// Says what would be done, and what the writer would refuse; writes nothing.
pub fn dry_run(request: &Request<'_>) -> Result<Plan, Finding> {
    let (snapshot, plan) = look_once(request, None)?;
    if !plan.is_refused() {
        if request.purge {
            apply::refuse_if_used(&snapshot, plan.target.as_ref().map(|target| target.path.as_str()))?;
        }
        let root = open_root(request.settings)?;
        apply::check(&root, &request.settings.state_dir, &plan).map_err(|error| error.finding())?;
    }
    Ok(plan)
}

/// Looks again under the lock, and plans again where something has changed; and again when somebody else writes in between.
fn write(
    request: &Request<'_>,
    writer: &Writer<'_>,
    first: (Snapshot, Plan),
    on_event: &mut dyn FnMut(Event<'_>),
) -> Result<Outcome, Finding> {
    let (mut seen, mut planned) = first;
    let asked = (request.direction, &request.initiator);
    let mut attempt = 1;
    loop {
        let snapshot = observe::take_snapshot_after(request.settings, scope(request.direction), Some(&seen))?;
        if snapshot != seen {
            planned = plan::make(&snapshot, request.settings, request.direction);
            seen = snapshot;
        }
        let (snapshot, plan) = (&seen, &planned);
        let overtaken = if plan.is_refused() {
            // while somebody else replaces the file it may be missing, or half written
            if plan.target.is_some() || attempt == MAX_ATTEMPTS {
                return Ok(Outcome::of(planned, None));
            }
            None
        } else if apply::is_settled(plan, snapshot, request.direction, &request.initiator)
            || must_not_write(request, snapshot)
            || request.expected_revision.is_some_and(|only| plan.revision.as_deref() != Some(only))
            || !request.tried.lets_go(plan)
            || request.expected_text.is_some_and(|over| stands_otherwise(plan, over))
            || request.while_bad.is_some_and(|revision| !snapshot.state.journal.bad.contains_key(revision))
        {
            return Ok(Outcome::of(planned, None));
        } else {
            on_event(Event::Planned(plan));
            match apply::carry_out(writer, plan, snapshot, asked, &mut |done| on_event(Event::Done(done))) {
                Ok(receipt) => return Ok(Outcome::of(planned, Some(receipt))),
                Err(error) if is_transient(&error) && attempt < MAX_ATTEMPTS => Some(error),
                Err(error) => return Err(error.finding()),
            }
        };
        if let Some(ApplyError::Changed { path }) = overtaken {
            on_event(Event::Again(&path));
        }
        thread::sleep(QUIET);
        attempt += 1;
    }
}

/// Whether another schedpatch committed something else meanwhile. A target without our edit has nothing to lose.
fn stands_otherwise(plan: &Plan, expected_text: Digest) -> bool {
    plan.target.as_ref().is_some_and(|target| target.ours().is_some() && target.digest != expected_text)
}

/// Whether a person has said: leave it alone. What was begun is finished all the same.
fn must_not_write(request: &Request<'_>, snapshot: &Snapshot) -> bool {
    is_held(request, snapshot) && request.direction != Direction::Judge
}

/// Whether a person has said: leave it alone.
fn is_held(request: &Request<'_>, snapshot: &Snapshot) -> bool {
    request.initiator != Initiator::Person && snapshot.state.journal.hold.is_some()
}

/// Looks and plans; writes nothing. Looks again where the target is only just not there: somebody who replaces it may be in the
/// middle of that.
pub fn look(request: &Request<'_>) -> Result<(Snapshot, Plan), Finding> {
    look_after(request, None)
}

/// Like `look`, but reuses the caller's snapshot.
pub fn look_after(request: &Request<'_>, before: Option<&Snapshot>) -> Result<(Snapshot, Plan), Finding> {
    for _ in 1..MAX_ATTEMPTS {
        let (snapshot, plan) = look_once(request, before)?;
        if !is_being_replaced(&snapshot, &plan) {
            return Ok((snapshot, plan));
        }
        thread::sleep(QUIET);
    }
    look_once(request, before)
}

/// Whether the target was there and cannot be found just now: somebody may be replacing it.
pub(crate) fn is_being_replaced(snapshot: &Snapshot, plan: &Plan) -> bool {
    let known = snapshot.state.journal.target.as_ref();
    // a manifest that is there and whole is not being replaced, so waiting would not change what is refused
    let is_whole = known.is_none_or(|path| snapshot.specs.get(path.as_str()).is_some_and(Result::is_ok));
    plan.target.is_none() && !is_whole
}

/// Looks and plans without waiting.
pub fn look_once(request: &Request<'_>, before: Option<&Snapshot>) -> Result<(Snapshot, Plan), Finding> {
    let snapshot = observe::take_snapshot_after(request.settings, scope(request.direction), before)?;
    let plan = plan::make(&snapshot, request.settings, request.direction);
    Ok((snapshot, plan))
}

/// Only a way forward needs the sources.
fn scope(direction: Direction) -> Scope {
    if direction == Direction::Apply { Scope::All } else { Scope::Host }
}

fn open_root(settings: &Settings) -> Result<Root, Finding> {
    Root::open(&settings.host_root).map_err(|error| observe::no_host_root(&settings.host_root, &error))
}

fn is_transient(error: &ApplyError) -> bool {
    matches!(error, ApplyError::Changed { .. })
}
