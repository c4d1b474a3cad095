//! A plan for machines. The format is public: documented in `docs/reference/formats.md`, pinned by golden files.

use serde::Serialize;

use super::{Plan, Step, StepKind, diff};
use crate::compose::Origin;
use crate::finding::Finding;

/// Raised when a field changes its meaning or goes.
const FORMAT_VERSION: u32 = 1;

#[derive(Serialize)]
struct Document<'a> {
    version: u32,
    platform: Option<&'a str>,
    evidence: &'a [String],
    scheduler: Option<Scheduler<'a>>,
    digest: Option<String>,
    revision: Option<&'a str>,
    generation: Option<u64>,
    findings: &'a [Finding],
    origins: &'a [Origin],
    steps: Vec<StepDocument<'a>>,
}

#[derive(Serialize)]
struct Scheduler<'a> {
    version: &'a str,
    from: &'a str,
}

#[derive(Serialize)]
struct StepDocument<'a> {
    kind: &'static str,
    path: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    mode: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    owner: Option<String>,
    why: &'a str,
    diff: String,
}

impl Plan {
    /// The plan as one JSON document.
    pub fn to_json(&self) -> Result<String, serde_json::Error> {
        let scheduler = self.scheduler.as_ref().map(|known| Scheduler { version: &known.text, from: &known.from });
        serde_json::to_string_pretty(&Document {
            version: FORMAT_VERSION,
            platform: self.platform,
            evidence: &self.evidence,
            scheduler,
            digest: self.digest.map(|digest| digest.to_string()),
            revision: self.revision.as_deref(),
            generation: self.generation,
            findings: &self.findings,
            origins: &self.origins,
            steps: self.steps().iter().map(StepDocument::from).collect(),
        })
    }
}

impl<'a> From<&'a Step> for StepDocument<'a> {
    fn from(step: &'a Step) -> Self {
        let kind = match step.kind {
            StepKind::WriteFile => "writeFile",
            StepKind::Preflight => "preflight",
            StepKind::ReplaceTarget => "replaceTarget",
            StepKind::Keep => "keep",
            StepKind::Restart => "restart",
        };
        let mode = (step.kind != StepKind::Restart).then(|| format!("{:04o}", step.access.mode));
        let owner = step.access.owner();
        Self { kind, path: &step.path, mode, owner, why: &step.why, diff: diff::unified(step) }
    }
}
