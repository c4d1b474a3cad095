//! The checker of the law that `ready` is a measured fact: samples of the whole run, and what is wrong in them.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::Value;

use crate::agent::LONG;
use crate::cluster::{Background, Node};
use crate::wait::wait_until;
use crate::wanted::Wanted;

const PROGRAM: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/e2e/readyz.py");
/// So long the agent may take to see that its sources have changed.
const GRACE: f64 = 1.0;

/// Samples from its making on.
pub struct Readyz(Background);

/// What was seen at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// In seconds since some moment
    pub at: f64,
    /// 0 where nobody answered
    pub code: u64,
    pub said: String,
    /// Marks of what the agents' sources ask for; none where no agent runs
    pub wanted: BTreeSet<u64>,
    /// Marks of what the schedulers run with, 0 for nothing of ours; none where no scheduler lives
    pub running: BTreeSet<u64>,
    /// Whether a scheduler began or ended meanwhile
    pub moving: bool,
}

/// What the samples amount to.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Judgement {
    pub samples: usize,
    /// Samples in which /readyz said 200; those below are among them
    pub ready: usize,
    /// No scheduler lived, though it had been proven
    pub dead: usize,
    /// A scheduler began or ended in the very moment
    pub moving: usize,
    /// Taken out by a person, which needs no proof
    pub restored: usize,
    pub violations: Vec<Sample>,
}

impl Readyz {
    pub fn begin(node: Node<'_>) -> Self {
        Self(node.start(&["python3", "-B", PROGRAM]))
    }

    pub fn samples(&self) -> Vec<Sample> {
        self.0.lines().iter().filter_map(|line| Sample::read(line)).collect()
    }

    pub fn last(&self) -> Option<Sample> {
        Sample::read(self.0.lines().last()?)
    }

    /// Waits until /readyz says 200 and the running scheduler is at what is wanted.
    #[track_caller]
    pub fn wait_until_ready_at(&self, wanted: Wanted, limit: Duration) {
        let mark = BTreeSet::from([wanted.mark()]);
        self.wait(&format!("/readyz to say 200 with a scheduler at {}", wanted.mark()), limit, |sample| {
            sample.code == 200 && sample.running == mark && sample.wanted == mark
        });
    }

    /// The configuration that the scheduler runs with; another one if it runs with none.
    #[track_caller]
    pub fn present_config(&self) -> Wanted {
        let begin = self.samples().len();
        let sample = wait_until("one scheduler that runs", LONG, || {
            let samples = self.samples();
            let found = samples.iter().skip(begin).find(|sample| sample.running.len() == 1 && !sample.moving);
            found.cloned().ok_or_else(|| format!("{:?}", samples.last()))
        });
        sample
            .running
            .first()
            .filter(|mark| **mark != 0)
            .map_or_else(Wanted::another, |mark| Wanted::made_before(*mark))
    }

    #[track_caller]
    pub fn wait(&self, what: &str, limit: Duration, wanted: impl Fn(&Sample) -> bool) -> Sample {
        wait_until(what, limit, || match self.last() {
            Some(sample) if wanted(&sample) => Ok(sample),
            seen => Err(format!("{seen:?}")),
        })
    }
}

impl Sample {
    fn read(line: &str) -> Option<Self> {
        let sample: Value = serde_json::from_str(line).ok()?;
        let marks = |name: &str| sample[name].as_array().into_iter().flatten().filter_map(Value::as_u64).collect();
        Some(Self {
            at: sample["at"].as_f64()?,
            code: sample["code"].as_u64()?,
            said: sample["said"].as_str()?.to_owned(),
            wanted: marks("wanted"),
            running: marks("running"),
            moving: sample["moving"].as_bool()?,
        })
    }
}

/// Finds each moment in which /readyz said 200 while a scheduler ran that was at nothing that the sources asked for within
/// the last second. That is stricter than the law, which counts from when the agent has seen them.
pub fn judge(samples: &[Sample]) -> Judgement {
    let mut judgement = Judgement { samples: samples.len(), ..Judgement::default() };
    let mut first = 0;
    for (number, sample) in samples.iter().enumerate() {
        // the last sample before the grace tells what was asked for when it began
        while samples[first + 1..=number].first().is_some_and(|next| next.at <= sample.at - GRACE) {
            first += 1;
        }
        if sample.code != 200 {
            continue;
        }
        judgement.ready += 1;
        let recent: BTreeSet<u64> = samples[first..=number].iter().flat_map(|sample| sample.wanted.clone()).collect();
        if sample.said.starts_with("Restored") {
            judgement.restored += 1;
        } else if sample.moving {
            judgement.moving += 1;
        } else if sample.running.is_empty() {
            judgement.dead += 1;
        } else if !sample.running.is_subset(&recent) {
            judgement.violations.push(sample.clone());
        }
    }
    judgement
}
