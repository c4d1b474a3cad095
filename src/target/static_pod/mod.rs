//! A static pod: a manifest in a directory that the kubelet reads. The kubelet notices a new text by itself, and shows what it
//! runs as a mirror pod in the API.

mod choose;
mod conflicts;
mod edit;
mod is_applied;
mod malformed;
pub mod mirror_pod;
mod mounts;
mod pod;
mod preflight;
mod program;
mod recommit;
mod refuse;
mod restore;
mod run_as;
mod undo_record;

use std::time::Duration;

use super::{
    Activation, Candidates, Chosen, Context, Definition, Expectation, Here, Identity, Observer, PreflightManifest,
    PreflightObserver, PreflightRun, Refusal, SchedulerSpec, TargetKind, Wanted, Words,
};
use crate::finding::Finding;
pub use edit::{Draft, patch, unpatch};
use mirror_pod::{MirrorPod, PreflightPod};
pub(crate) use pod::{GENERATION, REVISION, ROLLED_BACK_FROM};
pub use pod::{Manifest, read};
pub(crate) use preflight::is_preflight;
pub(crate) use program::words_after as scheduler_words;
pub use recommit::recommit;

/// The kubelet needs up to half a minute to end the old pod, and looks at its directory every 20 seconds anyway.
const UNNOTICED: Duration = Duration::from_secs(90);

/// The kind of target that a static pod is.
#[derive(Debug)]
pub struct StaticPod;

impl TargetKind for StaticPod {
    fn name(&self) -> &'static str {
        "static pod"
    }

    fn read<'a>(&self, text: &'a str, _: Context<'a>) -> Result<Box<dyn Definition + 'a>, Refusal> {
        Ok(Box::new(Manifest::read(text)?))
    }

    fn choose<'a>(&self, candidates: &Candidates<'a>) -> Result<Chosen<'a>, Finding> {
        choose::choose(candidates)
    }

    fn what_follows(&self, _: &SchedulerSpec) -> String {
        "The kubelet restarts the scheduler.".to_owned()
    }

    fn activation(&self, _: &SchedulerSpec) -> Activation {
        Activation::Automatic
    }

    fn expectation(&self, spec: &SchedulerSpec) -> Expectation {
        Expectation {
            revision: spec.ours.as_ref().map(|ours| ours.revision.clone()),
            generation: spec.ours.as_ref().map(|ours| ours.generation),
            config: spec.config().map(|(_, path)| path.to_owned()),
            has_readiness_probe: spec.has_readiness_probe,
            endpoint: spec.endpoint(),
            service: None,
            unnoticed_after: Some(UNNOTICED),
            words: Words {
                absent: "there is no mirror pod yet",
                earlier: "the kubelet still shows the pod of before",
                not_started: "the kubelet does not start it: a volume may be missing",
            },
        }
    }

    fn observer(&self, spec: &SchedulerSpec, here: &Here<'_>) -> Box<dyn Observer> {
        Box::new(MirrorPod::follow(here.client.clone(), &spec.identity, here.node))
    }

    fn preflight(&self, text: &str, run: &PreflightRun<'_>) -> Result<Option<PreflightManifest>, Refusal> {
        preflight::manifest(text, run).map(Some)
    }

    fn preflight_observer(&self, identity: &Identity, here: &Here<'_>) -> Option<Box<dyn PreflightObserver>> {
        Some(Box::new(PreflightPod::follow(here.client.clone(), identity, here.node)))
    }
}

impl Definition for Manifest<'_> {
    fn spec(&self) -> Result<SchedulerSpec, Refusal> {
        self.pod()
    }

    fn edit(&self, wanted: &Wanted) -> Result<String, Refusal> {
        self.patch(wanted)?.prove()
    }

    fn restore(&self) -> Result<String, Refusal> {
        self.unpatch()?.prove()
    }

    fn recommit(&self, generation: u64, rolled_back_from: Option<&str>) -> Result<String, Refusal> {
        self.recommit(generation, rolled_back_from)?.prove()
    }
}
