//! What is applied on this host, in one value. The JSON form is public: documented in `docs/reference/formats.md`, pinned by a fixture.

use std::fmt::Write as _;

use serde::Serialize;

use crate::finding::{Finding, Level};
use crate::journal::{Hold, Journal, RestartState};
use crate::observe::{Snapshot, State};
use crate::plan::{Plan, visible};
use crate::timestamp::Timestamp;

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

/// What is applied here.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    version: u32,
    platform: Option<&'static str>,
    target: Option<String>,
    /// What the target carries
    applied: Option<Applied>,
    /// How the target differs from what we committed
    pub drift: Drift,
    last_good: Option<Good>,
    bad: Vec<BadRevision>,
    hold: Option<Hold>,
    in_flight: Option<Flight>,
    /// A restart that has not happened yet, where the target needs one
    #[serde(skip_serializing_if = "Option::is_none")]
    restart: Option<RestartState>,
    /// Whether the extenders of what is applied take connections; only when that was asked for
    #[serde(skip_serializing_if = "Option::is_none")]
    extenders: Option<Vec<Extender>>,
    /// Why something is unknown or will not work
    pub findings: Vec<Finding>,
    /// Whether files of ours are not what they were; the findings say which
    #[serde(skip)]
    is_damaged: bool,
}

/// Our edit in the target.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Applied {
    revision: String,
    generation: u64,
    /// None where the journal does not know of it
    since: Option<Timestamp>,
    verified: bool,
}

/// The target against the journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub enum Drift {
    /// It is exactly what we committed, or nothing is committed and it carries nothing of ours
    None,
    /// It carries our marks, but others have changed the text
    Edited,
    /// It carries our marks of a commit that the journal does not know
    Unknown,
    /// Our edit was there and is gone
    Gone,
    /// It cannot be read
    Unreadable,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Good {
    revision: String,
    generation: u64,
    since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct BadRevision {
    revision: String,
    reason: String,
    since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Flight {
    /// `apply` or `restore`
    kind: &'static str,
    revision: Option<String>,
    generation: Option<u64>,
    since: Timestamp,
}

/// Where an extender is, and whether it takes connections.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
struct Extender {
    url: String,
    reachable: bool,
}

impl Status {
    /// Of a host, by what was seen and by the plan to take ours out of it.
    pub fn of(snapshot: &Snapshot, restore: &Plan) -> Self {
        let State { journal, recorded, revision_files, closed, .. } = &snapshot.state;
        let mut is_damaged = snapshot.state.damaged.is_some();
        let mut findings: Vec<Finding> =
            restore.findings.iter().filter(|finding| finding.level != Level::Info).cloned().collect();
        let target = restore.target.as_ref();
        let applied = target.and_then(|target| Some((target, target.ours()?))).map(|(target, ours)| {
            let known = journal.current.as_ref().filter(|commit| commit.generation == ours.generation);
            let since = known.map(|commit| commit.since);
            let verified = journal.is_proven() && journal.is_current(target.digest);
            let files = known.map(|commit| &commit.files).into_iter().flatten();
            let files = files
                .filter(|(path, digest)| revision_files.get(*path).map(|file| &file.digest) != Some(digest))
                .map(|(path, _)| path);
            let before = findings.len();
            findings.extend(files.chain(closed).map(damaged));
            is_damaged |= findings.len() > before;
            Applied { revision: ours.revision.clone(), generation: ours.generation, since, verified }
        });
        let last_good = journal.last_good.as_ref().map(|commit| Good {
            revision: commit.revision.clone(),
            generation: commit.generation,
            since: commit.since,
        });
        let bad = journal.bad.iter().map(|(revision, bad)| BadRevision {
            revision: revision.clone(),
            reason: bad.reason.clone(),
            since: bad.since,
        });
        let in_flight = recorded.in_flight.as_ref().map(|flight| Flight {
            kind: if flight.commit.is_some() { "apply" } else { "restore" },
            revision: flight.commit.as_ref().map(|commit| commit.revision.clone()),
            generation: flight.commit.as_ref().map(|commit| commit.generation),
            since: flight.since,
        });
        Self {
            version: FORMAT_VERSION,
            platform: restore.platform,
            target: restore.target.as_ref().map(|target| String::from(&target.path)),
            applied,
            drift: drift(journal, restore),
            last_good,
            bad: bad.collect(),
            hold: journal.hold.clone(),
            in_flight,
            restart: journal.restart.as_ref().filter(|_| journal.awaits_restart()).map(|restart| restart.state),
            extenders: None,
            findings,
            is_damaged,
        }
    }

    /// Of a host that could not be read.
    pub fn unknown(finding: Finding) -> Self {
        Self {
            version: FORMAT_VERSION,
            platform: None,
            target: None,
            applied: None,
            drift: Drift::Unreadable,
            last_good: None,
            bad: Vec::new(),
            hold: None,
            in_flight: None,
            restart: None,
            extenders: None,
            findings: vec![finding],
            is_damaged: false,
        }
    }

    /// With what the extenders answered, or why they could not be asked.
    #[must_use]
    pub fn with_extenders(mut self, answers: Result<Vec<(String, bool)>, Finding>) -> Self {
        let answers = answers.map_err(|finding| self.findings.push(finding)).unwrap_or_default();
        self.extenders = Some(answers.into_iter().map(|(url, reachable)| Extender { url, reachable }).collect());
        self
    }

    /// Whether work is in flight or somebody else changed what we wrote.
    pub fn is_unsettled(&self) -> bool {
        self.in_flight.is_some() || self.restart.is_some() || self.drift != Drift::None || self.is_damaged
    }

    /// The status as one JSON document.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        serde_json::to_string_pretty(self)
    }
}

fn damaged(path: &String) -> Finding {
    let message = "a file or directory of the applied revision is missing, changed, or closed to the scheduler";
    Finding::warning("revision-files", message, "schedpatch apply repairs it, without a restart").in_file(path)
}

fn drift(journal: &Journal, restore: &Plan) -> Drift {
    let Some(target) = &restore.target else { return Drift::Unreadable };
    match (target.ours(), &journal.current) {
        (Some(_), Some(commit)) if commit.text == target.digest => Drift::None,
        (Some(ours), Some(commit)) if commit.generation == ours.generation => Drift::Edited,
        (Some(_), _) => Drift::Unknown,
        (None, Some(_)) => Drift::Gone,
        (None, None) => Drift::None,
    }
}

/// The status as text.
pub fn show(status: &Status) -> String {
    let mut out = String::new();
    // writing to a String cannot fail
    let _ = write(&mut out, status);
    out
}

fn write(out: &mut String, status: &Status) -> std::fmt::Result {
    writeln!(out, "platform    {}", status.platform.unwrap_or("unknown"))?;
    writeln!(out, "target      {}", status.target.as_deref().unwrap_or("not found"))?;
    match &status.applied {
        Some(Applied { revision, generation, since, verified }) => {
            let since = since.map_or_else(|| "unknown to the journal".to_owned(), |since| format!("since {since}"));
            let proof = if *verified { "proven to run" } else { "not verified" };
            writeln!(out, "applied     revision {revision}, generation {generation}, {since}, {proof}")?;
        }
        None => writeln!(out, "applied     nothing of schedpatch")?,
    }
    let drift = match status.drift {
        Drift::None => "none",
        Drift::Edited => "others have edited the manifest since; our edit is still in it",
        Drift::Unknown => "the manifest carries an edit of schedpatch that our journal does not know",
        Drift::Gone => "somebody removed our edit or replaced the manifest: apply again, or restore",
        Drift::Unreadable => "unknown: the manifest cannot be read",
    };
    writeln!(out, "drift       {drift}")?;
    match &status.last_good {
        Some(good) => writeln!(out, "last good   revision {}, generation {}", good.revision, good.generation)?,
        None if status.applied.is_some() => {
            writeln!(out, "last good   the manifest without our edit; the applied revision is not proven to run yet")?;
        }
        None => writeln!(out, "last good   the manifest without our edit")?,
    }
    for bad in &status.bad {
        writeln!(out, "bad         revision {} since {}: {}", bad.revision, bad.since, visible(&bad.reason))?;
    }
    if let Some(hold) = &status.hold {
        writeln!(
            out,
            "hold        since {} by {}: an agent writes nothing until schedpatch apply",
            hold.since, hold.by
        )?;
    }
    if let Some(Flight { kind, revision, since, .. }) = &status.in_flight {
        let what = revision.as_ref().map_or_else(String::new, |revision| format!(" of revision {revision}"));
        writeln!(out, "in flight   {kind}{what}, begun {since} and not noted as done: run it again to finish")?;
    }
    match status.restart {
        Some(RestartState::Due) => writeln!(out, "restart     due: schedpatch apply asks for it")?,
        Some(RestartState::Issued) => writeln!(out, "restart     asked for, and not done yet")?,
        Some(RestartState::Done) | None => {}
    }
    match status.extenders.as_deref() {
        None => {}
        Some([]) => writeln!(out, "extender    none")?,
        Some(extenders) => {
            for Extender { url, reachable } in extenders {
                let answer = if *reachable { "takes connections" } else { "does not take connections from this host" };
                writeln!(out, "extender    {url} {answer}")?;
            }
        }
    }
    Ok(())
}
