//! The preflight: the scheduler itself checks an edited text before the target is touched, in words that hold for every target kind.

use std::fmt::Debug;
use std::time::Duration;

use super::{Answer, Identity};
use crate::revision::Digest;

/// What a preflight is asked to try.
#[derive(Clone, Copy, Debug)]
pub struct PreflightRun<'a> {
    /// What it is a preflight of, in a name: a revision, or a word
    pub subject: &'a str,
    /// Number of the preflight on this host: no two have one name
    pub attempt: u64,
    /// After so many seconds whoever runs it ends it
    pub deadline: u64,
}

/// A preflight that can be started: one file beside the target.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightManifest {
    /// Name of the file
    pub file: String,
    /// Its content
    pub content: String,
    /// How whoever runs it calls it
    pub identity: Identity,
    /// Number of the preflight on this host
    pub attempt: u64,
    /// Identity of what is tried: the same for two attempts at one text
    pub tried: Digest,
}

/// What became of a preflight, as far as it is known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PreflightState {
    /// The first answer is still on its way
    Unanswered,
    /// Who was asked did not answer, for this reason
    Away(String),
    /// Nobody has noticed it yet
    Absent,
    /// It is being started
    Starting(String),
    /// It cannot be started now
    Obstructed(String),
    /// It runs
    Running,
    /// It has ended
    Ended(PreflightEnd),
    /// Whoever should run it refused to, or took it away: nothing follows about the scheduler
    Rejected(String),
}

/// How a preflight ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PreflightEnd {
    /// What the scheduler returned
    pub code: i32,
    /// Whether its program could not be started at all
    pub is_start_error: bool,
    /// Its last words
    pub words: String,
    /// The image that it ran, by its digest, where that is known
    pub image: Option<String>,
}

/// Follows a preflight until it is dropped.
pub trait PreflightObserver: Debug + Send {
    /// What is known now, and how old it is.
    fn latest(&mut self) -> (PreflightState, Duration);

    /// Waits for news.
    fn changed(&mut self) -> Answer<'_, ()>;

    /// Asks for what is true in this moment, and keeps the answer.
    fn ask(&mut self) -> Answer<'_, PreflightState>;
}
